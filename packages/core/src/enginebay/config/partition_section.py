"""Where MMDeploy's ``partition_cfg`` cuts the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enginebay.config.section_fields import dotted, read_section
from enginebay.config.sections import PartitionSection, PartSection
from enginebay.rewriting import Cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.config.problems import Problems
    from enginebay.config.section_fields import KeyPath

_NAME = "partition_config"
_PARTS = "partition_cfg"

#: MMDeploy counts the calls of a function: ``multiclass_nms[0]:input`` is its first.
_CALL = re.compile(r"(?P<function>.+)\[(?P<number>\d+)\](?P<side>:.*)?")

_HINT = "write export_config = dict(cuts=['MARK', …])"


def read_cuts(given: Mapping[str, Any], problems: Problems) -> tuple[Cut, ...]:
    """Read ``partition_config``.

    Args:
        given: The section; empty if the config has none.
        problems: The list for everything that is wrong or has no effect.
    """
    known = len(problems)
    section = read_section(PartitionSection, given, (_NAME,), problems)
    if not section.apply_marks or len(problems) > known:
        return ()
    if _PARTS in given:
        return _of_parts(section, problems)
    if section.type:
        problems.wrong(
            (_NAME, "type"),
            f"'{section.type}' is a partition that MMDeploy knows; there is none of that name here",
            "write its partition_cfg, a list of dict(start=['MARK:input'], end=['MARK:output']), "
            "or export_config = dict(cuts=['MARK', …])",
        )
    return ()


def _of_parts(section: PartitionSection, problems: Problems) -> tuple[Cut, ...]:
    """Return the places where MMDeploy's parts start and end."""
    if not section.partition_cfg:
        problems.wrong((_NAME, _PARTS), f"'{_PARTS}' names no part", _HINT)
    cuts: list[Cut] = []
    for number, given in enumerate(section.partition_cfg):
        for cut in _of_part(given, (_NAME, _PARTS, number), problems):
            if not (cuts and {*cut.names} <= {*cuts[-1].names}):  # where the last part ended
                cuts.append(cut)
    problems.notes.append(
        f"{_NAME}.{_PARTS}: the artifact keeps every part, also those between and behind the "
        "named ones; their files and tensors have names of their own"
    )
    return tuple(cuts)


def _of_part(given: Mapping[str, Any], path: KeyPath, problems: Problems) -> list[Cut]:
    """Return the places where one part starts and ends."""
    known = len(problems)
    part = read_section(PartSection, given, path, problems)
    if len(problems) > known:
        return []
    ends = {"start": part.start, "end": part.end}
    return [
        Cut(_marks(names, (*path, key), problems), dotted((*path, key)), may_be_edge=True)
        for key, names in ends.items()
    ]


def _marks(names: tuple[str, ...] | str, path: KeyPath, problems: Problems) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else names
    if not listed:
        problems.wrong(
            path, f"'{path[-1]}' names no mark", f"write {path[-1]}=['MARK:input'], or MARK:output"
        )
    return tuple(dict.fromkeys(_mark(name, path, problems) for name in listed))


def _mark(name: str, path: KeyPath, problems: Problems) -> str:
    """Return a name without MMDeploy's number of the call, which only the first may have."""
    call = _CALL.fullmatch(name)
    if call is None:
        return name
    if int(call["number"]):
        problems.wrong(
            path,
            f"'{name}' is a later call of '{call['function']}', and marks do not count calls",
            "mark the tensor in the model: x = enginebay.mark(x, name)",
        )
    return f"{call['function']}{call['side'] or ''}"
