"""State that a model changes between runs is found, named and restored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import NotVerifiedError
from enginebay.state import ModelState
from enginebay.state.holder_snapshots import snapshot_surroundings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.linspace(-1, 2, 8).view(2, 4)
SEEN: dict[str, torch.Tensor] = {}
TOTAL = 0.0


class Layer:
    """A plain object in a model, like the layers of a cache."""

    def __init__(self) -> None:
        self.last: torch.Tensor | None = None


class Keeping(nn.Module):
    """Adds a value of earlier inputs, stored in a place that a test chooses."""

    shared: float = 0.0

    def __init__(self, keep: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(()))
        self.scale = nn.Parameter(torch.ones(()))
        self.kept: dict[str, Any] = {}
        self.list: list[Any] = []
        self.number = 0.0
        self.helper = SimpleNamespace(layers=[Layer()])
        self.keep = keep

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.keep(self, x)


def in_a_buffer(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.mean.mul_(0.5).add_(x.mean())
    return model.mean


def in_the_data_of_a_buffer(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.mean.data.copy_(model.mean * 0.5 + x.mean())
    return model.mean


def in_a_parameter(model: Any, x: torch.Tensor) -> torch.Tensor:
    if model.number == 0:
        model.number = 1
        model.scale.data.copy_(x.abs().max())
    return model.scale * x


def in_a_dict(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model.kept.setdefault("first", x.mean())


def in_a_list(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.list.append(x.mean())
    return sum(model.list, torch.zeros(()))


def in_a_number(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.number += float(x.mean()) + 1
    return model.number * x


def in_a_helper(model: Any, x: torch.Tensor) -> torch.Tensor:
    (layer,) = model.helper.layers
    layer.last = x.mean() if layer.last is None else layer.last
    return layer.last


def in_the_class(model: Any, x: torch.Tensor) -> torch.Tensor:
    type(model).shared += float(x.mean()) + 1
    return x * type(model).shared


class WithGlobals(Keeping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global TOTAL
        TOTAL += float(x.mean()) + 1
        return self.inner(x) * TOTAL


class WithGlobalDict(Keeping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + remember(x)


def remember(x: torch.Tensor) -> torch.Tensor:
    return SEEN.setdefault("first", x.mean())


def nothing(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x


CASES: dict[str, tuple[nn.Module, str]] = {
    "a buffer": (Keeping(in_a_buffer), "mean"),
    "a buffer's data": (Keeping(in_the_data_of_a_buffer), "mean"),
    "a parameter": (Keeping(in_a_parameter), "scale"),
    "a dict": (Keeping(in_a_dict), "kept['first']"),
    "a list": (Keeping(in_a_list), "list[0]"),
    "a number": (Keeping(in_a_number), "number"),
    "a helper": (Keeping(in_a_helper), "helper.layers[0].last"),
    "a class": (Keeping(in_the_class), "Keeping.shared"),
    "a global number": (WithGlobals(nothing), f"{__name__}.TOTAL"),
    "a global dict": (WithGlobalDict(nothing), f"{__name__}.SEEN['first']"),
    "a child": (nn.Sequential(nn.Identity(), Keeping(in_a_dict)), "1.kept['first']"),
}


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.one_in(8)
@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("case", CASES)
def test_state_that_changes_the_next_run_is_reported(case: str, tmp_path: Path) -> None:
    model, place = CASES[case]
    SEEN.clear()
    deployed = eb.deploy(
        *(model, X),
        backend="loopback",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(allow_unverified=True),
    )
    assert deployed.verdict == "unverified"
    assert deployed.verification is not None
    assert f"in {place}" in deployed.verification.reason
    assert deployed.verification.reason.endswith("; an engine stores none")


def slowly_in_a_buffer(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = x - model.mean
    model.mean.mul_(1 - 1e-5).add_(x.mean() * 1e-5)
    return y


def slowly_in_a_number(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.number += 1e-6
    return x * (1 + model.number)


def only_with_nan(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = x + model.mean * 0
    model.mean.copy_(x.mean())
    return y


def from_the_longest_input_on(model: Any, x: torch.Tensor) -> torch.Tensor:
    if len(x) > max(model.number, 4):
        model.number = len(x)
    return x * max(model.number, 4)


def from_the_largest_value_on(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.mean.copy_(torch.maximum(model.mean, x.abs().max() - 2))
    return x + model.mean


RARE_CASES = {
    "a slow mean": (slowly_in_a_buffer, "mean"),
    "a slow number": (slowly_in_a_number, "number"),
    "NaN": (only_with_nan, "mean"),
    "longer inputs": (from_the_longest_input_on, "number"),
    "larger values": (from_the_largest_value_on, "mean"),
}


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("case", RARE_CASES)
def test_state_that_matters_after_many_or_rare_runs_is_reported(case: str, tmp_path: Path) -> None:
    keep, place = RARE_CASES[case]
    model = Keeping(keep).eval()
    with torch.no_grad():
        expected = model(X)
    deployed = eb.deploy(
        *(model, X),
        backend="loopback",
        work_dir=tmp_path / "out",
        dynamic={"x": {0: "batch"}},
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(allow_unverified=True),
    )
    reason = f"unverified: the outputs depend on earlier runs: the model stores values in {place};"
    assert deployed.verification.summary().startswith(reason)
    with eb.load(deployed.artifact) as wrapper:
        assert torch.allclose(wrapper(X), expected, atol=1e-4)  # nothing that the probes have left


def counting(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.number += 1
    model.kept["table"] = torch.arange(4) / 4.0
    model.list = [x]
    model.mean.fill_(2)
    return model.kept["table"] + model.mean


@pytest.mark.usefixtures("loopback")
def test_state_without_effect_on_outputs_is_verified(tmp_path: Path) -> None:
    deployed = eb.deploy(Keeping(counting), X, backend="loopback", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"


@pytest.mark.usefixtures("loopback")
def test_random_outputs_are_reported_as_not_deterministic(tmp_path: Path) -> None:
    def noisy(model: Any, x: torch.Tensor) -> torch.Tensor:
        model.number += 1
        return torch.rand_like(x)

    deployed = eb.deploy(
        *(Keeping(noisy), X),
        backend="loopback",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(allow_unverified=True),
    )
    assert deployed.verdict == "unverified"
    assert deployed.verification is not None
    assert deployed.verification.reason.startswith("the model is not deterministic")


BUFFERS: dict[str, Callable[[], torch.Tensor]] = {
    "NaN": lambda: torch.tensor([float("nan"), 1.0]),
    "complex": lambda: torch.tensor([1 + 2j]),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "CSR": lambda: torch.eye(3).to_sparse_csr(),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "no values": lambda: torch.empty(3, device="meta"),
    "none at all": lambda: torch.empty(0),
    "bool": lambda: torch.tensor([True]),
    "8 bits": lambda: torch.ones(3).to(torch.float8_e4m3fn),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*[Nn]ested", "ignore:.*quant")
@pytest.mark.parametrize("kind", BUFFERS)
def test_buffers_of_every_kind_are_restored(kind: str) -> None:
    model, tensor = nn.Module(), BUFFERS[kind]()
    model.register_buffer("buffer", tensor)
    model.inside = {"deep": [(tensor,)]}  # type: ignore[assignment]  # anything may be there
    state = ModelState(model, fully=True)
    assert state.changed() == []
    model.register_buffer("buffer", torch.ones(2))
    assert state.changed() == ["buffer"]
    state.restore()
    assert model.buffer is tensor


class Making(dict[str, type]):
    """A dict of classes that returns instances, like tables of activations."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


def test_dict_that_instantiates_its_values_is_unchanged() -> None:
    model = nn.Module()
    model.table = Making(linear=nn.Linear)  # type: ignore[assignment]  # anything may be there
    state = ModelState(model, fully=True)
    assert state.changed() == []
    state.restore()
    assert dict.__getitem__(model.table, "linear") is nn.Linear  # type: ignore[arg-type]


def test_change_of_an_imaginary_part_is_found() -> None:
    model = nn.Module()
    model.register_parameter("weight", nn.Parameter(torch.tensor([1 + 2j])))
    state = ModelState(model, fully=True)
    with torch.no_grad():
        model.weight += 1j
    assert state.changed_parameters() == ["weight"]


def test_lazy_initialisation_is_not_a_state_change() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()).eval()
    state = ModelState(model, fully=True)
    model(X)
    assert state.changed() == []


def test_changed_memory_layout_is_not_a_parameter_change() -> None:
    model = nn.Linear(300, 200)
    state = ModelState(model, fully=True)
    model.weight.data = model.weight.data.t().contiguous().t()
    assert state.changed() == state.changed_parameters() == []
    with torch.no_grad():
        model.weight[0, 0] += 1e-2
    assert state.changed_parameters() == ["weight"]


@pytest.mark.slow
@pytest.mark.usefixtures("loopback")
def test_parameters_are_checked_only_for_deployments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm, shapes = torch.linalg.vector_norm, []

    def counted(values: torch.Tensor, **options: Any) -> torch.Tensor:
        shapes.append(values.shape)
        return norm(values, **options)

    monkeypatch.setattr(torch.linalg, "vector_norm", counted)
    model = Keeping(lambda model, x: x)
    eb.export(model, X, path=tmp_path / "model.onnx")
    assert shapes == []
    with pytest.raises(NotVerifiedError, match="the outputs depend on earlier runs"):
        eb.deploy(Keeping(in_a_buffer), X, backend="loopback", work_dir=tmp_path / "out")
    assert shapes.count((4, 4)) == 3  # before, after, and after restoring


def scaled_by_total(x: torch.Tensor) -> torch.Tensor:
    return x * TOTAL


class Another(Keeping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled_by_total(x)


class Third(Keeping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled_by_total(x)


def test_globals_shared_by_classes_are_captured_once() -> None:
    model = nn.ModuleList([Another(counting), Third(counting)])
    names = [name for place in snapshot_surroundings(model) for name in place.items]
    assert names.count("TOTAL") == 1


class Managed(type):
    """A metaclass, like that of managers of shared objects."""


class Shared(metaclass=Managed):
    """A class that a model stores as an attribute."""

    scale = 2.0


class KeepsAClass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kind = Shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.kind.scale


def test_class_stored_in_a_model_is_not_a_state_change() -> None:
    assert ModelState(KeepsAClass()).changed() == []
