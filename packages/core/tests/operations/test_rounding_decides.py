"""Examples on which rounding, or the order of equal values, decides a model's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import NotVerifiedError
from enginebay.reference.perturbed_decisions import PerturbedDecisions
from enginebay.reference.perturbed_rounding import PerturbedRounding
from enginebay.verification import engine_verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")


class Engine(nn.Module):
    """A model whose trace, which the engine runs, computes a different function."""

    def __init__(self, model: Callable[[Any], Any], engine: Callable[[Any], Any]) -> None:
        super().__init__()
        self.model, self.engine = model, engine

    def forward(self, x: torch.Tensor) -> Any:
        return (self.engine if torch.jit.is_tracing() else self.model)(x)


def deploy(model: nn.Module, x: torch.Tensor, backend: str, folder: Path) -> eb.Deployment:
    return eb.deploy(
        model,
        x,
        backend=backend,
        work_dir=folder / "out",
        export={"exporter": "torchscript"},
        verify={"allow_unverified": True},
    )


STEPPED = torch.linspace(-1, 1, 32).reshape(2, 16)
STEP = float(STEPPED.exp()[0, 5]) / 2.5  # a number is halfway between two steps


def quantised(x: torch.Tensor, off: float = 0.0) -> torch.Tensor:
    return (x.exp() * (1 + off) / STEP).round() * STEP


#: The engine's rounding, which takes this number to the other step.
OFF = 2.0**-21 if quantised(STEPPED)[0, 5] < 2.5 * STEP else -(2.0**-21)


def test_step_decided_by_rounding_alone_is_unverified(loopback: str, tmp_path: Path) -> None:
    model = Engine(quantised, lambda x: quantised(x, OFF))
    deployed = deploy(model, STEPPED, loopback, tmp_path)
    reason = deployed.verification.reason
    assert deployed.verdict == "unverified"
    assert reason.startswith(
        "rounding alone decides what the model returns on the example: the model itself"
    )
    assert "1 of 32 elements differ" in reason
    assert reason.endswith("may differ (--compare), or pass a tolerance (--rtol)")
    again = eb.verify(deployed.artifact)
    assert (again.verdict, again.reason) == ("unverified", reason)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(lambda x: quantised(x, OFF) + 0.01, id="more places"),
        pytest.param(lambda x: quantised(x, 30 * OFF) * 1.5, id="other steps"),
        pytest.param(lambda x: quantised(x, OFF).clamp(max=2 * STEP), id="other values"),
    ],
)
def test_errors_larger_than_a_step_are_a_mismatch(
    loopback: str, tmp_path: Path, engine: Any
) -> None:
    with pytest.raises(NotVerifiedError):
        deploy(Engine(quantised, engine), STEPPED, loopback, tmp_path)


def multiply(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return x @ weights


def convolve(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return nn.functional.conv1d(x[..., None], weights.T[..., None])[..., 0]


def multiply_each(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (x[:, None] @ weights.expand(len(x), *weights.shape))[:, 0]


class SmallColumn(nn.Module):
    """Sums, and a last column of small differences of sums; the engine has another order."""

    def __init__(self, operation: Any, wrong: Any = None) -> None:
        super().__init__()
        self.operation, self.wrong = operation, wrong
        random = torch.Generator().manual_seed(0)
        self.weights = nn.Parameter(torch.randn(256, 128, generator=random) / 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rest = self.operation(x, self.weights[:, -1:] * (1 - 2.0**-10))
        is_engine = torch.jit.is_tracing()
        dims = (0,) if is_engine else ()
        if is_engine and self.wrong == "input":
            x = x * (1 + 2.0**-12)
        if is_engine and self.wrong == "half":
            x = x.half().float()
        sums = self.operation(x.flip(1) if is_engine else x, self.weights.flip(dims))
        small = sums[:, -1:] - rest
        if is_engine and self.wrong == "column":
            small = small * 1.01
        if is_engine and self.wrong == "last row":
            small = small + torch.linspace(0, 2e-5, 8)[:, None]
        return torch.cat([sums[:, :-1], small], 1)


OPERATIONS = pytest.mark.parametrize("operation", [multiply, convolve, multiply_each])
SPREAD = torch.randn(8, 256, generator=torch.Generator().manual_seed(1))


@OPERATIONS
def test_elements_whose_rounding_exceeds_their_tolerance_are_judged_by_it(
    loopback: str, tmp_path: Path, operation: Any
) -> None:
    deployed = deploy(SmallColumn(operation), SPREAD, loopback, tmp_path)
    verification = deployed.verification
    (output,) = verification.outputs
    assert verification.verdict == "verified"
    assert 0 < output.rounded_count <= 8
    ((_, text),) = [field for field in verification.fields() if field[0] == "rounding"]
    assert f"{output.rounded_count} of 1024 elements differ by up to " in text
    assert verification.basis is not None
    assert not verification.basis.undecided
    again = eb.verify(deployed.artifact)
    assert (again.verdict, again.outputs) == ("verified", verification.outputs)


@OPERATIONS
@pytest.mark.parametrize("wrong", ["column", "last row", "input", "half"])
def test_rounding_of_some_elements_excuses_no_wrong_engine(
    loopback: str, tmp_path: Path, operation: Any, wrong: str
) -> None:
    model = SmallColumn(operation, wrong)
    try:
        deployed = deploy(model, SPREAD, loopback, tmp_path)
    except NotVerifiedError:
        return
    assert deployed.verdict == "unverified"


def test_samples_that_rounding_decides_are_judged_without_further_runs_of_the_engine(
    loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(x: torch.Tensor) -> torch.Tensor:
        return (x.exp() * 1e5 + x) - x.exp() * 1e5

    runs = []
    trial = engine_verdict.run_trial
    monkeypatch.setattr(
        engine_verdict, "run_trial", lambda *args, **kw: runs.append(args) or trial(*args, **kw)
    )
    engine = Engine(cancelled, lambda x: x * 1)
    deployed = deploy(engine, torch.randn(2, 8), loopback, tmp_path)
    assert deployed.verification.basis is not None
    assert len(deployed.verification.basis.undecided) > 1
    assert len(runs) == 1


def best(x: torch.Tensor) -> torch.Tensor:
    return x.relu().topk(6).indices


def best_of_reversed(x: torch.Tensor) -> torch.Tensor:
    return 15 - best(x.flip(-1))


def test_different_order_of_equal_values_is_unverified(loopback: str, tmp_path: Path) -> None:
    x = torch.zeros(2, 16)
    x[:, 3:6] = torch.tensor([3.0, 1, 2])
    deployed = deploy(Engine(best, best_of_reversed), x, loopback, tmp_path)
    assert deployed.verdict == "unverified"
    assert "another order of equal values" in deployed.verification.reason
    with pytest.raises(NotVerifiedError):  # no order of equal values puts the least first
        deploy(
            Engine(best, lambda x: best(-x)), torch.randn(2, 16).abs() + 1, loopback, tmp_path / "b"
        )


def test_saturated_functions_do_not_excuse_a_wrong_engine(loopback: str, tmp_path: Path) -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        is_used = (x.abs() * 100 + 100).sigmoid()
        return (x + (1 - is_used) * torch.finfo(x.dtype).min).softmax(-1)

    engine = Engine(masked, lambda x: masked(x) * 1.01)
    with pytest.raises(NotVerifiedError):
        deploy(engine, torch.randn(2, 8), loopback, tmp_path)


def test_model_is_copied_to_double_precision_only_once(
    loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(x: torch.Tensor) -> torch.Tensor:
        return (x.exp() * 1e5 + x) - x.exp() * 1e5

    copied, double = [], nn.Module.double
    monkeypatch.setattr(nn.Module, "double", lambda self: copied.append(self) or double(self))
    engine = Engine(cancelled, lambda x: x * 1)
    verification = deploy(engine, torch.randn(2, 8), loopback, tmp_path).verification
    assert verification.basis is not None
    assert len(verification.basis.undecided) > 1
    assert len(copied) == 1


def test_wrong_engine_of_an_integer_model_is_a_mismatch(loopback: str, tmp_path: Path) -> None:
    table = torch.randn(10, 4)

    def gated(ids: torch.Tensor) -> torch.Tensor:
        keep = torch.sigmoid(table[ids] + 100)  # 1, also in double precision
        return table[ids] - (1 - keep) * 1e30

    with pytest.raises(NotVerifiedError):
        deploy(Engine(gated, lambda ids: gated(ids) * 1.1), torch.arange(10), loopback, tmp_path)


def test_counts_of_chosen_indices_are_not_perturbed() -> None:
    scores = torch.rand(24, 4)
    with PerturbedRounding(2.0**-20, seed=0):
        chosen = scores.softmax(-1).argmax(-1)
        rows = torch.histc(chosen.float(), 4, 0, 3).cumsum(0)
    assert torch.equal(rows, rows.round())


def test_rounding_is_recognised_without_double_precision(
    loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def difference(x: torch.Tensor, off: float = 0.0) -> torch.Tensor:
        return (x.exp() * 1000 + off) - x.exp() * 1000

    monkeypatch.setattr(nn.Module, "double", None)
    engine = Engine(difference, lambda x: difference(x, 2.0**-12))
    assert deploy(engine, torch.randn(2, 8), loopback, tmp_path).verdict == "unverified"


def test_randomness_on_a_probe_is_reported_as_not_deterministic(
    loopback: str, tmp_path: Path
) -> None:
    class Jumping(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.rand_like(x)

    deployed = deploy(Jumping(), torch.zeros(2, 8), loopback, tmp_path)
    assert deployed.verdict == "unverified"
    assert deployed.verification.reason.startswith("the model is not deterministic, a second run")


def test_perturbed_decisions_change_only_ties() -> None:
    x = torch.randn(4, 32)
    tied = torch.tensor([2.0, 1, 2, 0, 2])
    with PerturbedDecisions(2**-16, seed=0) as mode:
        assert torch.equal(x.exp() @ x.mT, x.exp() @ x.mT)
        assert not mode.decides
        assert torch.equal(tied.round(), tied)
        values, indices = tied.topk(3)
        assert torch.equal(values, tied[:3].new_full((3,), 2))
        assert set(indices.tolist()) == {0, 2, 4}
        assert tied.sort(stable=True).indices.tolist() == [3, 1, 0, 2, 4]
        assert {int(tied.argmax(0)) for _ in range(30)} == {0, 2, 4}
        assert {int(tied.max(0).indices) for _ in range(30)} == {0, 2, 4}
        assert {int(tied.int().argmax(0)) for _ in range(30)} == {0}
        angles = torch.atan2(torch.zeros(30), -torch.ones(30))
        assert set(angles.sign().tolist()) == {-1.0, 1.0}
        assert mode.decides


def quantise_tensor(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, 0.5, 128, 0, 255)


def quantise_by_tensors(x: torch.Tensor) -> torch.Tensor:
    scale, zero = torch.tensor([0.5]), torch.tensor([128], dtype=torch.int32)
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)


def quantise_channels(x: torch.Tensor) -> torch.Tensor:
    scales, zeros = torch.full((4,), 0.5), torch.full((4,), 128, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, 0, 255)


def quantise_away(x: torch.Tensor) -> torch.Tensor:
    """Steps of 0.5 as other engines take them: ties away from zero."""
    return ((x * 2).abs() + 0.5).floor() * x.sign() / 2


QUANTISED = [quantise_tensor, quantise_by_tensors, quantise_channels]


@pytest.mark.parametrize("quantise", QUANTISED)
def test_steps_of_a_fake_quantisation_may_round_ties_to_either_side(
    loopback: str, tmp_path: Path, quantise: Any
) -> None:
    def average(x: torch.Tensor) -> torch.Tensor:  # of steps: half of them are ties
        return ((x * 2).round() / 2).reshape(4, 8, 2).mean(-1)

    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0)).abs() + 0.25
    right = Engine(lambda x: quantise(average(x)), lambda x: quantise_away(average(x)))
    wrong = Engine(right.model, lambda x: quantise_away(average(x)) + 0.5)
    with pytest.raises(NotVerifiedError):
        deploy(wrong, x, loopback, tmp_path / "wrong")
    assert deploy(right, x, loopback, tmp_path).verdict in ("verified", "unverified")


def multiply_in_half(dtype: torch.dtype) -> Any:
    def run(x: torch.Tensor, off: float = 0.0) -> torch.Tensor:
        weights = torch.linspace(-1, 1, x.shape[-1] * 3).reshape(-1, 3)
        return (x.to(dtype) @ weights.to(dtype)).float() * (1 + off)

    return run


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, "--rtol 0.0625"), (torch.float16, "--rtol 0.0078")]
)
def test_mismatch_names_the_operator_in_half_precision(
    loopback: str, tmp_path: Path, dtype: torch.dtype, tolerance: str
) -> None:
    run = multiply_in_half(dtype)
    engine = Engine(run, lambda x: run(x, 0.001))
    with pytest.raises(NotVerifiedError) as caught:
        deploy(engine, SPREAD, loopback, tmp_path)
    name = str(dtype).removeprefix("torch.")
    (cause,) = caught.value.verdict.causes()
    assert f"the model computes mm in {name} (operations/test_rounding_decides.py:" in cause
    assert tolerance in cause


@pytest.mark.parametrize("size", [1e-9, 1.0])
def test_output_near_zero_is_named(loopback: str, tmp_path: Path, size: float) -> None:
    deployed = deploy(Engine(*[lambda x: x * size] * 2), SPREAD, loopback, tmp_path)
    text = "output 'output' lies between -"
    assert any(text in each for each in deployed.verification.warnings) == (size < 1)


def test_hint_of_a_wrong_branch_is_to_select_in_the_graph(loopback: str, tmp_path: Path) -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    with pytest.raises(NotVerifiedError) as caught:
        deploy(Engine(choose, choose), SPREAD.abs(), loopback, tmp_path)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("select with torch.where or torch.cond at operations/test_")
    assert "bisect" not in caught.value.hint
    (cause,) = caught.value.verdict.causes()
    assert cause.endswith("for one branch only: select with torch.where or torch.cond there")
