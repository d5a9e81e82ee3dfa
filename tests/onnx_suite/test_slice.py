"""A slice of ONNX's own backend test suite; ``nox -s onnx-suite`` runs all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import derived  # tests are no package on sys.path
from .cases import load_cases
from .engines import BARE
from .run import lost_cases, run_all

#: ONNX Runtime, but a session that ends its process at Neg and is wrong at Relu.
BROKEN = """
def change(outputs):
    return [output + 1 for output in outputs]

@eb.hookimpl
def build_wrapper(request):
    import onnx
    (node,) = onnx.load(request.directory / request.files[0]).graph.node
    if node.op_type == "Neg":
        os.kill(os.getpid(), signal.SIGSEGV)
    inner = plugin.build_wrapper(request)
    return Wrapper(inner) if node.op_type == "Relu" else inner
"""


@pytest.fixture(autouse=True)
def _importable_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", BARE)
def test_our_wrapper_loses_nothing_of_its_engine(engine: str) -> None:
    names = sorted(load_cases())[::100]
    found = run_all(engine, names)
    assert sum(outcome == "pass" for (_, way), outcome in found.items() if way == "bare") >= 12
    assert lost_cases(found) == {}


def test_a_wrong_number_and_a_crash_are_lost_cases_and_end_nothing() -> None:
    names = ["node/test_abs", "node/test_neg", "node/test_relu", "node/test_exp"]
    with derived("brittle", BROKEN):
        found = run_all("onnxruntime", names, backend="brittle")
    lost = lost_cases(found)
    assert list(lost) == ["node/test_neg", "node/test_relu"]
    assert "SIGSEGV" in lost["node/test_neg"]
    assert lost["node/test_relu"].startswith("AssertionError: ")
    assert found["node/test_exp", "wrapped"] == "pass"
