"""A slow file: another engine, which agrees with the evaluator, is the reference of some probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from enginebay.models import bind
from enginebay.reference import ProbeSettings, file_reference, record_reference
from enginebay.sources import find_model
from enginebay.verification import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from enginebay.verification import RecordedReference

pytestmark = pytest.mark.usefixtures("_slow")


@pytest.fixture(scope="module")
def _slow(loopback: str) -> Iterator[None]:
    """Leave the evaluator no time for more than the example and one probe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reference, "_WITNESS_SECONDS", 0.0)
        patch.setenv("ENGINEBAY_BACKENDS", loopback)
        yield


def _write(path: Path, graph: str, **weights: Any) -> Path:
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 12]> graph {graph}')
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values), name))
    onnx.save(model, path)
    return path


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = "(float[b, 6] x) => (float[b, 4] y) { h = Gemm(x, w, c) y = Tanh(h) }"
    folder = tmp_path_factory.mktemp("file")
    return _write(folder / "net.onnx", graph, w=_normal(6, 4) / 3, c=_normal(4))


@pytest.fixture(scope="module")
def recorded(file: Path, _slow: None) -> RecordedReference:
    model = bind(find_model(file), {"x": _normal(3, 6)})
    return record_reference(model, "another", settings=ProbeSettings())


def test_an_engine_that_agrees_with_the_evaluator_is_the_reference_of_the_other_probes(
    recorded: RecordedReference,
) -> None:
    assert recorded.description == (
        "onnx's reference evaluator, and loopback for some probe inputs"
    )
    basis = recorded.basis
    assert set(basis.witnessed.values()) == {"loopback"}
    assert {*basis.labels} - basis.witnessed.keys() == {"example", "redrawn"}
    assert len(basis.labels) > 4
    assert (
        "onnx's evaluator, which is slow, judged 2 samples (example, redrawn); loopback, which "
        f"agreed there within half of the tolerance, judged the other {len(basis.witnessed)}"
    ) in basis.limits()


def test_an_engine_that_differs_from_the_evaluator_is_the_reference_of_nothing(
    tmp_path: Path,
) -> None:
    # onnx's own evaluator, which this engine is, blends in the batch's statistics.
    graph = """(float[b, 4, 8] x) => (float[b, 4, 8] y)
        { y = BatchNormalization<momentum = 0.9>(x, w, c, c, w) }"""
    path = _write(tmp_path / "norm.onnx", graph, w=abs(_normal(4)), c=_normal(4))
    model = bind(find_model(path), {"x": _normal(2, 4, 8)})
    recorded = record_reference(model, "another", settings=ProbeSettings())
    assert recorded.description == "onnx's reference evaluator"
    assert recorded.basis.witnessed == {}
    assert len(recorded.basis.labels) > 4


def test_the_evaluator_decides_where_the_engine_differs_from_the_other_one(
    recorded: RecordedReference, file: Path
) -> None:
    label, *rest = recorded.basis.witnessed
    number = recorded.basis.labels.index(label)
    right = [{name: each.copy() for name, each in s.outputs.items()} for s in recorded.samples]
    recorded.samples[number].outputs["y"][...] = 7  # by a fault of the other engine
    evidence = Evidence(recorded.samples, right, recorded.basis)
    assert evidence.failed == (label,)
    settled = file_reference.reevaluate_witnessed(file, recorded, evidence)
    assert (settled.failed, [*settled.basis.witnessed]) == ((), rest)
    wrong = [{"y": outputs["y"] + 1} for outputs in right]
    evidence = Evidence(recorded.samples, wrong, recorded.basis)
    settled = file_reference.reevaluate_witnessed(file, recorded, evidence)
    assert settled.failed == recorded.basis.labels
    assert settled.basis.witnessed == {}
