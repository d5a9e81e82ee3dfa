"""ONNX's reference evaluator computes what the operators define."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from enginebay.errors import ModelError
from enginebay.evaluator import child_runs, evaluator_outputs
from enginebay.evaluator.child_runs import run_evaluator
from enginebay.evaluator.onnx_evaluator import make_evaluator, reference_outputs
from enginebay.models import bind
from enginebay.reference import ProbeSettings, record_reference
from enginebay.sources import find_model
from enginebay.tensors import Sample, load_samples, save_samples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("length", [3, 63, 64, 200])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_are_gathered_on_an_axis_of_any_length(
    length: int, axis: int, tmp_path: Path
) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 17]> g (float[n, k] x, int64[n, k] i) =>
        (float[n, k] y) {{ y = GatherElements<axis = {axis}>(x, i) }}"""
    onnx.save(parse_model(text), tmp_path / "gather.onnx")
    x = np.arange(3.0 * length, dtype=np.float32).reshape(length, 3)
    indices = np.random.default_rng(0).integers(-x.shape[axis], x.shape[axis], x.shape)
    found = reference_outputs(tmp_path / "gather.onnx", {"x": x, "i": indices})["y"]
    rows, columns = np.indices(x.shape)
    expected = x[indices, columns] if axis == 0 else x[rows, indices]
    assert np.array_equal(found, expected)


def _save_scaled(folder: Path) -> Path:
    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[3] x, float s) => (float[3] y)
        { y = Mul(x, s) }"""
    onnx.save(parse_model(text), folder / "scaled.onnx")
    return folder / "scaled.onnx"


@pytest.mark.parametrize(("budget", "all_or_first"), [(1e-9, False), (1e-9, True), (60, True)])
def test_the_first_probe_of_a_slow_file_changes_all_inputs(
    budget: float, all_or_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [Sample({"x": np.float32([n, 1, 2]), "s": np.float32(n)}, {}) for n in range(4)]
    save_samples(tmp_path / "given.npz", given)
    files = tmp_path / "given.npz", tmp_path / "found.npz"
    monkeypatch.setattr(child_runs, "_limit_memory", lambda: None)
    reasons = run_evaluator(_save_scaled(tmp_path), *files, [None] * 4, 2, budget, all_or_first)
    found = load_samples(tmp_path / "found.npz")
    assert [each.outputs["y"].tolist() for each in found][2] == [4, 2, 4]
    if budget > 1:
        assert reasons == [""] * 4
        return
    # The example, an item, and the first probe.
    assert [bool(reason) for reason in reasons] == [False, False, False, True]
    assert reasons[-1] == "onnx's evaluator has taken too long for the probe inputs before"


def test_the_first_probe_of_a_file_changes_all_inputs(tmp_path: Path) -> None:
    example = {"x": np.float32([1, 2, 3]), "s": np.float32(0.5)}
    model = bind(find_model(_save_scaled(tmp_path)), example)
    recorded = record_reference(model, "none", settings=ProbeSettings())
    assert recorded.basis.labels[:2] == ("example", "redrawn")


def test_a_file_that_needs_too_much_memory_has_no_exact_reference(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]> g (int64[1] n) => (float y)
        { all = ConstantOfShape(n) y = ReduceSum<keepdims = 0>(all) }"""
    onnx.save(parse_model(text), tmp_path / "large.onnx")
    with pytest.raises(ModelError, match="Unable to allocate"):
        evaluator_outputs(tmp_path / "large.onnx", [{"n": np.int64([2**40])}])


def test_a_probe_of_which_an_output_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[4] x) => (float[4] y, float[4] z)
        { y = Log(x) z = Neg(x) }"""
    onnx.save(parse_model(text), tmp_path / "log.onnx")
    model = bind(find_model(tmp_path / "log.onnx"), {"x": np.float32([1, 2, 3, 4])})
    recorded = record_reference(model, "none", settings=ProbeSettings())
    assert "the other sign: the file returns no number as 'y'" in recorded.basis.dropped
    assert all(np.isfinite(each.outputs["z"]).all() for each in recorded.samples)


def test_a_result_that_no_node_needs_any_more_takes_no_memory() -> None:
    import tracemalloc

    steps = " ".join(f"h{number + 1} = Neg(h{number})" for number in range(40))
    model = parse_model(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[n] h0) => (float[n] h40, float[n] h7, '
        f"bool[m] mask) {{ {steps} rest, mask = Dropout(h3) }}"
    )
    evaluator = make_evaluator(model)
    x = np.arange(1e5, dtype=np.float32)
    tracemalloc.start()
    last, seventh, mask = evaluator.run(None, {"h0": x})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * x.nbytes  # onnx: 40 times
    assert np.array_equal(last, x)
    assert np.array_equal(seventh, -x)
    assert mask.all()
