"""Read ``partition_config``, which divides a model as MMDeploy's ``partition_cfg`` does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from enginebay.config.sections import PartitionSection, PartSection, join_keys, read_section
from enginebay.partition import Cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.config.problems import Problems
    from enginebay.config.sections import KeyPath

_NAME = "partition_config"
_PARTS = "partition_cfg"

#: MMDeploy numbers the calls of a function: ``multiclass_nms[0]:input`` is the first call.
_CALL = re.compile(r"(?P<function>.+)\[(?P<number>\d+)\](?P<side>:.*)?")

_HINT = "write export_config = dict(cuts=['MARK', …])"


def read_cuts(content: Mapping[str, object], problems: Problems) -> tuple[Cut, ...]:
    """Return the cuts (tensors) at which ``partition_config`` divides the model into parts.

    Args:
        content: The section's keys and values; empty if the config has no such section.
        problems: Collects the errors, and notes about keys without effect.
    """
    known = len(problems)
    section = read_section(PartitionSection, content, (_NAME,), problems)
    if not section.apply_marks or len(problems) > known:
        return ()
    if _PARTS in content:
        return _cut_parts(section, problems)
    if section.type:
        problems.wrong(
            (_NAME, "type"),
            f"MMDeploy's partition '{section.type}' is not available here",
            "write its partition_cfg, a list of dict(start=['MARK:input'], end=['MARK:output']), "
            "or export_config = dict(cuts=['MARK', …])",
        )
    return ()


def _cut_parts(section: PartitionSection, problems: Problems) -> tuple[Cut, ...]:
    if not section.partition_cfg:
        problems.wrong((_NAME, _PARTS), f"'{_PARTS}' is empty: expected at least one part", _HINT)
    cuts: list[Cut] = []
    for number, content in enumerate(section.partition_cfg):
        for cut in _cut_part(content, (_NAME, _PARTS, number), problems):
            # A part may start with the marks at which the previous part ended.
            if not (cuts and {*cut.names} <= {*cuts[-1].names}):
                cuts.append(cut)
    problems.notes.append(
        f"{_NAME}.{_PARTS}: the artifact contains every part, also parts between and after the "
        "listed ones; enginebay chooses the names of files and tensors"
    )
    return tuple(cuts)


def _cut_part(content: Mapping[str, object], path: KeyPath, problems: Problems) -> list[Cut]:
    known = len(problems)
    part = read_section(PartSection, content, path, problems)
    if len(problems) > known:
        return []
    ends = {"start": part.start, "end": part.end}
    return [
        Cut(_read_marks(names, (*path, key), problems), join_keys((*path, key)), may_be_edge=True)
        for key, names in ends.items()
    ]


def _read_marks(names: tuple[str, ...] | str, path: KeyPath, problems: Problems) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else names
    if not listed:
        problems.wrong(
            path,
            f"'{path[-1]}' is empty: expected a mark",
            f"write {path[-1]}=['MARK:input'], or MARK:output",
        )
    return tuple(dict.fromkeys(_read_mark(name, path, problems) for name in listed))


def _read_mark(name: str, path: KeyPath, problems: Problems) -> str:
    """Return a mark (name of tensors) without MMDeploy's call index: ``nms`` for ``nms[0]``.

    An index other than 0 is an error, which is added to ``problems``.
    """
    call = _CALL.fullmatch(name)
    if call is None:
        return name
    if int(call["number"]):
        problems.wrong(
            path,
            f"'{name}' is a later call of '{call['function']}'; only the first call is supported",
            "mark the tensor in the model: x = enginebay.mark(x, name)",
        )
    return f"{call['function']}{call['side'] or ''}"
