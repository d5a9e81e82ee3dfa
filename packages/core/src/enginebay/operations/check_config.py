"""Everything that is wrong with a config."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.backend import get_backend
from enginebay.config import Place, Problems, Table, backend_params
from enginebay.errors import BackendUnavailableError, ConfigError
from enginebay.operations.settings import locate, sections_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.config import Sections


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found.

    Attributes:
        problems: What is wrong, each with its place.
        notes: What the config says to no effect, and what could not be checked.
        backend: The backend that the config is for; None where it names none.
        ir: The IR that it asks for; None where it leaves that to the backend.
    """

    problems: tuple[ConfigError, ...]
    notes: tuple[str, ...]
    backend: str | None
    ir: str | None


def check(config: Mapping[str, Any]) -> Checked:
    """Check every section, the backend's with that backend's own parameters.

    Args:
        config: The config; one that :func:`enginebay.config.read` answered has places.
    """
    problems = Problems()
    sections = sections_of(config, problems)
    notes = [*sections.notes, *_check_backend(sections, problems)]
    return Checked(
        problems=tuple(locate(Problems(sorted(problems, key=partial(_place, config))), config)),
        notes=tuple(notes),
        backend=sections.backend,
        ir=sections.ir.type,
    )


def _place(config: Mapping[str, Any], problem: ConfigError) -> Place:
    """Where the problem stands, to sort by: the files in turn, each from the top."""
    found = config.find(problem.path) if isinstance(config, Table) else None
    return found or Place("", 0, 0)


def _check_backend(sections: Sections, problems: Problems) -> list[str]:
    if sections.backend is None:
        if sections.backend_config:
            return ["backend_config names no type: its keys are not checked"]
        return []
    try:
        engine = get_backend(sections.backend)
    except BackendUnavailableError as err:
        return [f"the keys of backend_config are not checked: {err}"]
    notes: list[str] = []
    backend_params(engine.Params, sections, problems, over={}, notes=notes)
    return notes
