"""Check of a deploy config: all problems are listed at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from enginebay import get_backend
from enginebay.authors import contributed
from enginebay.authors.files import Problems, backend_params, read_sections
from enginebay.errors import BackendUnavailableError, ConfigError, EnginebayError, one_line
from enginebay.hooks import ModelRequest

if TYPE_CHECKING:
    from enginebay.authors.files import Sections


class ConfigCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`check_config`.

    Attributes:
        problems: All problems, each with its file and line, or its path of keys.
        notes: Notes on keys that have no effect and on sections that were not checked.
        backend: The backend in the config; None without a backend.
        ir: The IR in the config; None if the backend chooses the IR.
    """

    problems: tuple[ConfigError, ...]
    notes: tuple[str, ...]
    backend: str | None
    ir: str | None


def check_config(config: Mapping[str, object]) -> ConfigCheck:
    """Check all sections of a config and the backend's parameters, and return all problems.

    Args:
        config: The config as plain data. If :func:`enginebay.authors.files.read_table` has read it,
            each problem has a file and a line.
    """
    problems = Problems()
    sections = read_sections(config, problems)
    _check_backend(sections, problems)
    _check_codebase(config, problems)
    return ConfigCheck(
        problems=tuple(problems.with_places(config)),
        notes=tuple(problems.notes),
        backend=sections.backend,
        ir=sections.export.ir,
    )


def _check_backend(sections: Sections, problems: Problems) -> None:
    if sections.backend is None:
        if sections.backend_config:
            problems.notes.append("backend_config names no type: its keys are not checked")
        return
    try:
        engine = get_backend(sections.backend)
    except BackendUnavailableError as err:
        problems.wrong(("backend_config", "type"), str(err), err.hint)
    else:
        backend_params(engine.Params, sections, problems, over={})


def _check_codebase(config: Mapping[str, object], problems: Problems) -> None:
    section = config.get("codebase_config")
    if not isinstance(section, Mapping) or not isinstance(name := section.get("type"), str):
        return
    if name not in contributed("model_sources"):
        problems.notes.append(
            f"no installed plugin has models of '{name}': name yours as file.py:attr"
        )
    elif check_section := contributed("codebase_checks").get(name):
        try:
            check_section(ModelRequest(name="", codebase_config=section))
        except Exception as err:  # noqa: BLE001  # a plugin's code
            known = isinstance(err, EnginebayError)
            text = str(err) if known else f"codebase_checks() of '{name}' raised {one_line(err)}"
            problems.wrong(("codebase_config",), text, getattr(err, "hint", None))
