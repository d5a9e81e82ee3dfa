"""A model that is raised to a newer opset computes what it did, by ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import version_converter
from onnx.parser import parse_model

from enginebay.authors.files import raise_opset
from enginebay.errors import ConversionError

from .cases import CASES
from .models import build, differences, engine_outputs, versions

if TYPE_CHECKING:
    from pathlib import Path

#: The opsets that bf16, fp8 and int8 need.
TARGETS = (13, 19, 22)

#: What onnx converts wrongly, without an error, if nobody repairs it.
BROKEN = {"Hardmax", "Resize", "Upsample"}


def _wrong(operator: str, convert: Any) -> list[str]:
    wrong = []
    for case in (case for case in CASES if case.operator == operator):
        for opset in versions(operator):
            for target in (target for target in TARGETS if target > opset):
                built = build(case, opset)
                wanted = built and engine_outputs(*built)
                if not built or wanted is None:
                    continue
                try:
                    converted = convert(built[0], target)
                except (ConversionError, RuntimeError):
                    continue  # refused, and so not silently wrong
                found = engine_outputs(converted, built[1])
                texts = differences(found, wanted) if found is not None else []
                wrong += [f"{opset} to {target}, {case.options}: {text}" for text in texts]
    return wrong


def _raise(model: onnx.ModelProto, opset: int, folder: Path) -> onnx.ModelProto:
    raised = raise_opset(model, opset, folder=folder, precision="bf16")
    assert raised.opset_import[0].version == opset
    return raised


@pytest.mark.one_in(12)
@pytest.mark.parametrize("operator", sorted({case.operator for case in CASES} - BROKEN))
def test_an_operator_means_the_same_at_a_newer_opset(operator: str, tmp_path: Path) -> None:
    wrong = _wrong(operator, lambda model, opset: _raise(model, opset, tmp_path))
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("operator", sorted(BROKEN))
def test_an_operator_that_onnx_breaks_is_repaired(operator: str, tmp_path: Path) -> None:
    assert _wrong(operator, version_converter.convert_version)
    wrong = _wrong(operator, lambda model, opset: _raise(model, opset, tmp_path))
    assert not wrong, "\n".join(wrong[:5])


HEAD = '<ir_version: 8, opset_import: ["" : {opset}{more}]> graph'
NESTED = {
    "a branch": """ (float[1, 2, 4, 4] x) => (float[a, b, c, d] y)
        <float[4] s = {1, 1, 1.5, 2}, bool yes = {1}> {
        y = If(yes) <then_branch = t () => (float[a, b, c, d] p) { p = {call} },
            else_branch = e () => (float[a, b, c, d] q) { q = {call} }> }""",
    "a function": """ (float[1, 2, 4, 4] x) => (float[a, b, c, d] y)
        <float[4] s = {1, 1, 1.5, 2}> { y = mine.odds(x, s) }
        <domain: "mine", opset_import: ["" : {opset}]> odds (x, s) => (y) { y = {call} }""",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize(
    ("opset", "call"),
    [
        (9, 'Upsample<mode = "linear">(x, s)'),
        (10, 'Resize<mode = "linear">(x, s)'),
        (12, "Hardmax<axis = 2>(x)"),
        (12, "Softmax<axis = 1>(x)"),
    ],
)
def test_an_operator_inside_means_the_same(
    text: str, opset: int, call: str, target: int, tmp_path: Path
) -> None:
    more = ', "mine" : 1' if "mine" in text else ""
    model = parse_model(
        (HEAD + text).replace("{opset}", str(opset)).replace("{more}", more).replace("{call}", call)
    )
    inputs = {"x": np.random.default_rng(0).random((1, 2, 4, 4), np.float32)}
    wanted = _run(model, inputs)
    assert not list(differences(_run(_raise(model, target, tmp_path), inputs), wanted))


def _run(model: onnx.ModelProto, inputs: dict[str, Any]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4  # the scales are not used by each operator
    return ort.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def test_weights_outside_of_the_file_are_kept(tmp_path: Path) -> None:
    text = " (float[1, 4] x) => (float[1, 4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }"
    model = parse_model((HEAD + text).replace("{opset}", "12").replace("{more}", ""))
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w", size_threshold=0)
    raised = _raise(onnx.load(path, load_external_data=False), 22, tmp_path)
    (found,) = _run(raised, {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(found, [[1, 2, 3, 4]])
