"""The state of a model while it runs: run it, observe what it reads, and put everything back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.state.forward_pass import (
        copy_detached as copy_detached,
        evaluation as evaluation,
        output_tensors as output_tensors,
        run_uncompiled as run_uncompiled,
    )
    from enginebay.state.model_state import ModelState as ModelState, unchanged as unchanged
    from enginebay.state.object_copies import CopyObjects as CopyObjects
    from enginebay.state.observation import Observation as Observation, Observer as Observer
    from enginebay.state.python_readings import Reading as Reading
    from enginebay.state.taken_sides import (
        SELECTING as SELECTING,
        STEPS as STEPS,
        TakenSides as TakenSides,
        merge_sides as merge_sides,
        read_dim as read_dim,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "state.forward_pass": "copy_detached evaluation output_tensors run_uncompiled",
        "state.model_state": "ModelState unchanged",
        "state.object_copies": "CopyObjects",
        "state.observation": "Observation Observer",
        "state.python_readings": "Reading",
        "state.taken_sides": "SELECTING STEPS TakenSides merge_sides read_dim",
    },
)
