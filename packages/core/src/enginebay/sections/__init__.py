"""What a deploy config may say, section by section; where it comes from does not matter here.

``read_sections`` checks a whole config and answers its sections; ``backend_params`` turns the
backend's own section into the parameters of that backend.
"""

from __future__ import annotations

from enginebay.sections.backend_section import backend_params
from enginebay.sections.kinds import (
    SECTIONS,
    CalibSection,
    CodebaseSection,
    IRSection,
    PartitionSection,
    Sections,
)
from enginebay.sections.problems import Problems
from enginebay.sections.reading import read_sections

__all__ = [
    "SECTIONS",
    "CalibSection",
    "CodebaseSection",
    "IRSection",
    "PartitionSection",
    "Problems",
    "Sections",
    "backend_params",
    "read_sections",
]
