"""The cuts of a model: ``cuts``, and the ``partition_cfg`` of MMDeploy's configs."""

from __future__ import annotations

from typing import Any

import pytest

from enginebay.config import Problems, read_sections
from enginebay.partition import Cut

PARTS = "partition_config.partition_cfg"


def read(**section: Any) -> tuple[tuple[str | Cut, ...], Problems]:
    problems = Problems()
    return read_sections({"partition_config": section}, problems).export.cuts, problems


def cut(place: str, *names: str) -> Cut:
    return Cut(names, f"{PARTS}{place}", may_be_edge=True)


def test_the_parts_of_mmdeploys_config() -> None:
    part = {
        "save_file": "model.onnx",
        "start": ["detector_forward:input"],
        "end": ["yolo_head:input"],
        "output_names": ["pred_maps.0", "pred_maps.1"],
        "dynamic_axes": {"input": {0: "batch"}},
    }
    cuts, problems = read(type="vacc_det", apply_marks=True, partition_cfg=[part])
    assert tuple(cuts) == (
        cut(".0.start", "detector_forward:input"),
        cut(".0.end", "yolo_head:input"),
    )
    assert not problems
    (note,) = problems.notes
    assert note == (
        f"{PARTS}: the artifact contains every part, also parts between and after the listed "
        "ones; enginebay chooses the names of files and tensors"
    )


def test_a_part_that_starts_where_the_last_one_ends() -> None:
    first = {"start": "forward:input", "end": ["feat:output", "nms[0]:input"]}
    cuts, problems = read(partition_cfg=[first, {"start": "nms:input", "end": "forward:output"}])
    assert not problems
    assert tuple(cuts) == (
        cut(".0.start", "forward:input"),
        cut(".0.end", "feat:output", "nms:input"),
        cut(".1.end", "forward:output"),
    )


@pytest.mark.parametrize("section", [{"type": "single_stage"}, {"partition_cfg": [{}]}])
def test_marks_that_are_not_applied_are_not_read(section: dict[str, Any]) -> None:
    cuts, problems = read(apply_marks=False, **section)
    assert (list(cuts), problems, problems.notes) == ([], [], [])


PART = {"start": "a:input", "end": "b:input"}
HINT = "write export_config = dict(cuts=['MARK', …])"


@pytest.mark.parametrize(
    ("section", "path", "message", "hint"),
    [
        (
            {"type": "two_stage"},
            ("type",),
            "MMDeploy's partition 'two_stage' is not available here",
            (
                "write its partition_cfg, a list of dict(start=['MARK:input'], "
                "end=['MARK:output']), or export_config = dict(cuts=['MARK', …])"
            ),
        ),
        (
            {"partition_cfg": []},
            ("partition_cfg",),
            "'partition_cfg' is empty: expected at least one part",
            HINT,
        ),
        (
            {"partition_cfg": PART},
            ("partition_cfg",),
            f"{PART} does not fit {PARTS}: expected list, found dict",
            None,
        ),
        (
            {"partition_cfg": [PART | {"ends": "c"}]},
            ("partition_cfg", 0, "ends"),
            (
                f"'ends' is not a key of {PARTS}.0; available: dynamic_axes, end, "
                "output_names, save_file, start"
            ),
            "did you mean 'end'?",
        ),
        (
            {"partition_cfg": [PART | {"end": 3}]},
            ("partition_cfg", 0, "end"),
            f"3 does not fit {PARTS}.0.end: expected str | list, found int",
            None,
        ),
        (
            {"partition_cfg": [PART, {"start": "c:input"}]},
            ("partition_cfg", 1, "end"),
            "'end' is empty: expected a mark",
            "write end=['MARK:input'], or MARK:output",
        ),
        (
            {"partition_cfg": [PART | {"end": ["nms[1]:input"]}]},
            ("partition_cfg", 0, "end"),
            "'nms[1]:input' is a later call of 'nms'; only the first call is supported",
            "mark the tensor in the model: x = enginebay.mark(x, name)",
        ),
    ],
)
def test_what_cannot_be_mapped(
    section: dict[str, Any], path: tuple[Any, ...], message: str, hint: str | None
) -> None:
    _, (problem,) = read(apply_marks=True, **section)
    assert problem.path == ("partition_config", *path)
    assert (str(problem), problem.hint) == (message, hint)
