"""Some cases of ONNX's backend test suite; ``nox -s onnx-suite`` runs them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import derived  # tests is not a package on sys.path
from .cases import load_cases
from .engines import BARE
from .run import lost_cases, run_all

#: ONNX Runtime with a crash at Neg and a wrong Relu.
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
def test_wrapper_passes_every_case_of_its_engine(engine: str) -> None:
    names = sorted(load_cases())[::200]
    outcomes = run_all(engine, names)
    assert sum(outcome == "pass" for (_, way), outcome in outcomes.items() if way == "bare") >= 6
    assert lost_cases(outcomes) == {}


@pytest.mark.slow
def test_wrong_output_and_crash_are_lost_cases_and_end_no_run() -> None:
    names = ["node/test_abs", "node/test_neg", "node/test_relu", "node/test_exp"]
    with derived("brittle", BROKEN):
        outcomes = run_all("onnxruntime", names, backend="brittle")
    lost = lost_cases(outcomes)
    assert list(lost) == ["node/test_neg", "node/test_relu"]
    assert "SIGSEGV" in lost["node/test_neg"]
    assert lost["node/test_relu"].startswith("AssertionError: ")
    assert outcomes["node/test_exp", "wrapped"] == "pass"
