"""Errors and doubts that a comparison on the example alone would miss."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ArtifactError, InputError, NotVerifiedError, UsageError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Deploy = Callable[..., eb.Deployment]

ONES = torch.ones(2, 4)


class Function(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.fixture
def deploy(tmp_path: Path, loopback: str) -> Deploy:
    def deploy(
        function: Any,
        args: Any,
        backend: str = loopback,
        export: Any = None,
        verify: Any = None,
        **more: Any,
    ) -> eb.Deployment:
        return eb.deploy(
            Function(function),
            args,
            backend=backend,
            work_dir=tmp_path / "out",
            export={"exporter": "torchscript", **(export or {})},
            verify={"allow_unverified": True, **(verify or {})},
            **more,
        )

    return deploy


@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
def test_a_baked_in_branch_is_a_mismatch_that_names_the_line(deploy: Deploy) -> None:
    with pytest.raises(NotVerifiedError) as caught:
        deploy(lambda x: x * 2 if x.sum() > 0 else x - 100, ONES)
    message = str(caught.value)
    assert "on the probe 'the other sign'" in message
    assert "Python reads values at operations/test_doubtful_verdicts.py:" in message
    assert "for one branch only: select with torch.where or torch.cond there" in message
    assert "--domain" not in message


def test_unverified_artifact_is_published_only_on_request(deploy: Deploy, tmp_path: Path) -> None:
    with pytest.raises(NotVerifiedError, match="no output changes between the 6 samples") as caught:
        deploy(lambda x: x * 0, ONES, verify={"allow_unverified": False})
    assert caught.value.verdict.verdict == "unverified"
    assert caught.value.hint == "--allow-unverified publishes the artifact with this verdict"
    assert not (tmp_path / "out").exists()
    assert deploy(lambda x: x * 0, ONES).verdict == "unverified"
    assert deploy(
        lambda x: x * 0,
        ONES,
        overwrite=True,
        verify={"allow_mismatch": True, "allow_unverified": False},
    )


@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
def test_branch_untaken_by_samples_warns_at_deploy_and_verify(deploy: Deploy) -> None:
    with pytest.warns(eb.VerdictWarning, match=r"test_doubtful_verdicts\.py:\d+: Python reads"):
        deployed = deploy(lambda x: x - 1 if x.max() > 1e6 else x + 1, ONES)
    assert deployed.verdict == "verified"
    (warning,) = deployed.verification.warnings
    assert "(False in all samples)" in warning
    with pytest.warns(eb.VerdictWarning):
        again = eb.verify(deployed.artifact)
    assert again.warnings == (warning,)


def test_engine_fallback_warns_at_deploy_and_verify(deploy: Deploy, fallen: str) -> None:
    with pytest.warns(eb.VerdictWarning, match="no turbo here"):
        deployed = deploy(torch.relu, torch.randn(2, 4), backend=fallen)
    assert deployed.verdict == "verified"
    assert deployed.verification.warnings == ("no turbo here",)
    assert "; no turbo here" in deployed.verification.summary()
    with pytest.warns(eb.VerdictWarning, match="no turbo here"):
        eb.verify(deployed.artifact)


@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
def test_without_probes_the_verdict_is_on_the_example_alone(deploy: Deploy) -> None:
    with pytest.warns(eb.VerdictWarning):
        deployed = deploy(lambda x: x * 2 if x.sum() > 0 else x - 100, ONES, verify={"probes": 0})
    assert deployed.verification.summary().startswith(
        "verified against the PyTorch model, unpatched on 1 output, the example alone; "
    )


def test_probes_of_larger_batches_contain_different_rows(deploy: Deploy) -> None:
    wrong = eb.RewriterSet(backend="loopback")
    wrong.function(f"{__name__}.target")(lambda ctx, x: x[:1].expand_as(x) + x.mean(0))
    with pytest.raises(NotVerifiedError, match="on the probe 'batch=4'"):
        deploy(
            lambda x: target(x),
            torch.randn(1, 4),
            export={"rewriters": [wrong]},
            dynamic={"x": {0: ("batch", 1, 16)}},
        )


def target(x: torch.Tensor) -> torch.Tensor:
    return x + x


def test_random_model_is_unverified(deploy: Deploy) -> None:
    deployed = deploy(lambda x: x + torch.rand_like(x), ONES)
    assert deployed.verdict == "unverified"
    assert deployed.verification.reason.startswith("the model is not deterministic, a second run")


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * 0 + 3, "no output changes between the 6 samples"),
        (lambda x: x / 0 * 0, "the model returns nothing but NaN and infinity"),
    ],
)
def test_constant_or_non_finite_outputs_are_unverified(
    deploy: Deploy, function: Any, reason: str
) -> None:
    deployed = deploy(function, ONES)
    assert deployed.verdict == "unverified"
    assert deployed.verification.reason.startswith(reason)


def test_probes_with_only_non_finite_outputs_are_dropped(deploy: Deploy) -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)

    deployed = deploy(picky, ONES.clone())
    assert deployed.verdict == "verified"
    basis = deployed.verification.basis
    assert basis is not None
    assert basis.dropped == ("zeros: the model returns nothing but NaN and infinity",)


def test_domain_bounds_the_probes_and_is_recorded(deploy: Deploy) -> None:
    deployed = deploy(torch.sqrt, torch.rand(2, 4), verify={"domain": {"x": (0, 1)}})
    assert all(
        0 <= s.inputs["x"].min() <= s.inputs["x"].max() <= 1 for s in deployed.artifact.samples()
    )
    assert deployed.verification.extent().endswith("within x=0,1")
    manifest = json.loads((deployed.artifact.path / "manifest.json").read_text())
    assert manifest["verification"]["basis"]["domain"] == {"x": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"domain": {"y": (0, 1)}},
            InputError,
            "the domain has bounds for 'y', which is not an input",
        ),
        (
            {"domain": {"x": (1, 0)}},
            InputError,
            "invalid domain 1:0 of 'x': expected",
        ),
        (
            {"domain": {"x": (2, 3)}},
            InputError,
            "the example of 'x' has values from 1.0 to 1.0, outside",
        ),
        ({"probes": -1}, UsageError, "invalid number of probe inputs -1: expected"),
    ],
)
def test_invalid_domain_or_probe_count_is_refused(
    deploy: Deploy, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        deploy(torch.relu, ONES, verify=options)
    assert str(caught.value).startswith(message)


def test_verify_draws_new_probes_only_for_a_given_model(deploy: Deploy) -> None:
    deployed = deploy(torch.relu, torch.randn(2, 4))
    assert eb.verify(deployed.artifact).samples == deployed.verification.samples == 6
    again = eb.verify(deployed.artifact, reference=(Function(torch.relu), torch.randn(2, 4)))
    assert again.verdict == "verified"
    assert again.basis is not None
    assert again.basis.labels[-1] == "a thousandth anew"


def test_a_receipt_that_claims_a_coarser_precision_is_a_mismatch(tmp_path: Path) -> None:
    module = (
        "import msgspec\n"
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "to_backend, check_env = loopback.to_backend, loopback.check_env\n"
        "class Coarse(LoopbackWrapper):\n"
        "    @property\n"
        "    def receipt(self):\n"
        "        return msgspec.structs.replace(super().receipt, precision='int8')\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='coarse', irs=('onnx',), params=LoopbackParams)\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request):\n"
        "    return Coarse(request)\n"
    )
    with (
        temporary_backend("coarse", module),
        pytest.raises(NotVerifiedError, match="computed in int8, but fp32 was requested"),
    ):
        eb.deploy(nn.ReLU(), ONES, backend="coarse", work_dir=tmp_path / "out")


def test_generated_integers_cover_the_embedding_table(loopback: str, tmp_path: Path) -> None:
    ids = eb.TensorSpec("input", "int64", (1, 64))
    deployed = eb.deploy(
        nn.Embedding(50, 4), {"input": ids}, backend=loopback, work_dir=tmp_path / "out"
    )
    values = deployed.artifact.samples()[0].inputs["input"]
    assert np.unique(values).size > 20
    assert 0 <= values.min() <= values.max() < 50


@pytest.mark.parametrize(
    ("function", "greatest", "note"),
    [
        (lambda x: nn.functional.one_hot(x, 30).float(), 29, False),
        (lambda x: x * 2, 9, True),
        (lambda x: torch.log(3 - x.float()), 1, False),  # NaN from 4 on
    ],
    ids=["classes", "digits", "zeros and ones"],
)
@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
def test_generated_integers_stay_in_the_accepted_range(
    deploy: Deploy, function: Any, greatest: int, note: bool
) -> None:
    spec = eb.TensorSpec("x", "int64", (1, 200))
    deployed = deploy(function, {"x": spec})
    assert deployed.artifact.samples()[0].inputs["x"].max() == greatest
    assert note == any(
        "x: the range of integers that the model accepts is unknown" in text
        for text in deployed.notes
    )


def test_extreme_probes_find_overflow_on_request(deploy: Deploy) -> None:
    def unstable(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sum(1).log() if torch.jit.is_tracing() else x.logsumexp(1)

    x = torch.rand(2, 4)
    assert deploy(unstable, x).verdict == "verified"
    with pytest.raises(NotVerifiedError, match="large floats"):
        deploy(unstable, x, overwrite=True, verify={"probes_extreme": True})


class Planes(nn.Module):
    """Zeros make planes of equal values; the norm returns their rounding errors, 300 times larger.

    An engine rounds differently from PyTorch: the trace is off by the spacing of float32.
    """

    def __init__(self, wrong: Callable[[torch.Tensor, torch.Tensor], Any] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convs = nn.ModuleList([nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)])
        self.register_buffer("errors", torch.randn(8, 8) * 2**-23)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> Any:
        y = x
        for conv in self.convs:
            y = conv(y)
            y = y * (1 + self.errors) if torch.jit.is_tracing() else y
            y = nn.functional.instance_norm(y)
        return self.wrong(x, y) if self.wrong and torch.jit.is_tracing() else y


PLANES = torch.linspace(-1, 2, 128).reshape(1, 2, 8, 8).sin()
BY_ROUNDING = tuple(
    f"{label}: rounding alone decides what the model returns" for label in ("zeros", "a thousandth")
)


def deploy_planes(
    folder: Path, model: Planes, backend: str, args: torch.Tensor = PLANES
) -> eb.Deployment:
    return eb.deploy(
        model,
        args,
        backend=backend,
        work_dir=folder / "out",
        export={"exporter": "torchscript"},
        verify={"allow_unverified": True},
    )


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
def test_probe_decided_by_rounding_is_dropped(loopback: str, tmp_path: Path) -> None:
    deployed = deploy_planes(tmp_path, Planes(), loopback)
    assert deployed.verdict == "verified"
    basis = deployed.verification.basis
    assert basis is not None
    assert basis.dropped == BY_ROUNDING
    assert "zeros" not in basis.labels
    assert deployed.verification.samples == 4
    assert len([s for s in deployed.artifact.samples() if s.kind != "non_finite"]) == 4
    assert eb.verify(deployed.artifact).verdict == "verified"
    again = eb.verify(deployed.artifact, reference=(Planes(), PLANES))
    assert again.verdict == "verified"
    assert again.basis is not None
    assert again.basis.dropped[0] == BY_ROUNDING[0].replace("zeros", "zeros anew")


@pytest.mark.parametrize(
    ("wrong", "given"),
    [
        pytest.param(lambda x, y: y + 1e-3, {}, id="everywhere"),
        pytest.param(
            lambda x, y: torch.where(x.abs().sum() == 0, 1e4 * y, y), {}, id="more than rounding"
        ),
        pytest.param(
            lambda x, y: torch.where(x.abs().sum() == 0, torch.nan, y), {}, id="not a number"
        ),
        pytest.param(
            lambda x, y: y + 1e-3, {"args": torch.zeros(1, 2, 8, 8)}, id="beside the example"
        ),
    ],
)
def test_errors_larger_than_rounding_are_a_mismatch(
    loopback: str, tmp_path: Path, wrong: Any, given: Any
) -> None:
    with pytest.raises(NotVerifiedError):
        deploy_planes(tmp_path, Planes(wrong), loopback, **given)


def test_wrong_engine_of_a_stable_model_is_a_mismatch(deploy: Deploy) -> None:
    def slips(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ x.mT) * (1.001 if torch.jit.is_tracing() else 1.0)

    with pytest.raises(NotVerifiedError):
        deploy(slips, torch.randn(2, 4))


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Return the numbers; in a trace, every fourth is off by a rounding error."""
    first = (torch.arange(x.numel()) % 4 == 0).reshape(x.shape)
    return x * (1 - 2**-23 * first) if torch.jit.is_tracing() else x


class Remainder(nn.Module):
    """The difference of two numbers, which for zeros is only their rounding error.

    The trace rounds as engines do, and adds a mistake for zeros.
    """

    def __init__(self, pair: Callable[[torch.Tensor], Any], mistake: float = 0.0) -> None:
        super().__init__()
        self.pair = pair
        self.mistake = mistake

    def forward(self, x: torch.Tensor) -> Any:
        larger, smaller = self.pair(x)
        if not torch.jit.is_tracing():
            return larger - smaller
        difference = larger - rounded(smaller)
        return torch.where(x.abs().sum() == 0, difference + self.mistake, difference)


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(lambda x: (1, (x.clamp(min=0) + 0.1) / (x.square() + 0.1)), id="quotient"),
        pytest.param(lambda x: (1, x.exp()), id="difference"),
        pytest.param(lambda x: (0, rounded(x.exp()) @ torch.tensor([4.0, -1, -2, -1])), id="sum"),
        pytest.param(lambda x: (0, x.tanh() + 2**-24 * torch.jit.is_tracing()), id="tanh"),
    ],
)
def test_cancellation_excuses_only_the_rounding_of_its_operands(
    pair: Any, loopback: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {
        "args": torch.randn(2, 4),
        "backend": loopback,
        "export": {"exporter": "torchscript"},
    }
    deployed = eb.deploy(Remainder(pair), work_dir=tmp_path / "right", **given)
    assert deployed.verdict == "verified"
    assert deployed.verification.basis is not None
    assert BY_ROUNDING[0] in deployed.verification.basis.dropped
    with pytest.raises(NotVerifiedError, match="on the probe 'zeros'"):
        eb.deploy(Remainder(pair, 1e-3), work_dir=tmp_path / "wrong", **given)


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
def test_probe_decided_by_rounding_is_dropped_in_simulation(ahead: str, tmp_path: Path) -> None:
    simulation = deploy_planes(tmp_path, Planes(), ahead).verification.simulation
    assert simulation is not None
    assert (simulation.failed, simulation.samples) == ((), 4)


def test_dropped_probe_does_not_hide_an_error_on_another(loopback: str, tmp_path: Path) -> None:
    def wrong(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x.abs().max() > 2, y + 1e-2, y)  # only with ten times the spread

    with pytest.raises(NotVerifiedError, match="on the probe 'ten times the spread'") as caught:
        deploy_planes(tmp_path, Planes(wrong), loopback)
    basis = caught.value.verdict.basis
    assert basis.dropped[0] == BY_ROUNDING[0]


def test_more_labels_than_samples_are_an_error_that_names_the_file(deploy: Deploy) -> None:
    artifact = deploy(torch.relu, torch.randn(2, 4)).artifact
    where = artifact.path / "manifest.json"
    manifest = json.loads(where.read_text("utf-8"))
    manifest["verification"]["basis"]["labels"].append("one more")
    where.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(ArtifactError, match=r"samples\.npz\" has 7 samples, and the manifest has"):
        eb.verify(artifact.path)


@pytest.mark.parametrize("given", [{"rtol": float("nan")}, {"rtol": -1.0}, {"atol": float("inf")}])
def test_an_invalid_tolerance_is_refused_before_the_export(given: dict, tmp_path: Path) -> None:
    def untouched() -> nn.Module:
        raise AssertionError("the model was built")

    with pytest.raises(UsageError, match="expected a number of at least 0"):
        eb.deploy(untouched, torch.ones(1), work_dir=tmp_path / "out", verify=given)
