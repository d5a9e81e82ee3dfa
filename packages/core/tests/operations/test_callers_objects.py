"""A deployment leaves the caller's objects unchanged, also if they were used before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.models import bind
from enginebay.sources import find_model
from enginebay.state import unchanged

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")

X = torch.arange(8.0).reshape(1, 2, 4)


class Cache:
    """A cache like those of transformers: not a container, and longer after each call."""

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.calls = [0]

    def update(self, keys: torch.Tensor) -> torch.Tensor:
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        self.calls[0] += 1
        return self.keys


class WithCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, cache: Cache, *more: Any) -> torch.Tensor:
        return cache.update(self.linear(x)).sum(1)


class Biased(nn.Module):
    """Caches selected biases, as LeViT does: in a dict, a tuple and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.biases = nn.Parameter(torch.randn(3, 4))
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))
        self.cached: dict[str, torch.Tensor] = {}
        self.pair: tuple[torch.Tensor, ...] = ()
        self.order = ["first"]
        self.names = {"first"}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.cached:
            self.cached["cpu"] = self.last = self.biases[:, [1, 0, 2, 3]]
            self.pair = (self.last, self.last + 1)
            self.order.append("second")
            self.names.add("second")
        self.calls += 1
        return self.linear(x) + self.cached["cpu"].sum(0) + self.last[0] * self.pair[1][0]


def contents(model: nn.Module) -> list[Any]:
    """Return the identity of every attribute and item, and the values of the buffers."""
    entries: list[Any] = []
    for module in model.modules():
        for name, value in vars(module).items():
            entries.append((name, id(value)))
            if isinstance(value, dict):
                entries += [(name, key, id(item)) for key, item in value.items()]
            elif isinstance(value, (list, set)):
                entries.append((name, sorted(map(id, value))))
    return [*entries, *(buffer.tolist() for buffer in model.buffers())]


@pytest.mark.parametrize(
    ("exporter", "used_before"), [("dynamo", True), ("torchscript", True), ("torchscript", False)]
)
def test_cache_argument_is_unchanged_after_deployment(
    tmp_path: Path, exporter: Any, used_before: bool
) -> None:
    model, cache = WithCache(), Cache()
    if used_before:
        model(X, cache)
    keys, calls = cache.keys, list(cache.calls)
    for name in ("first", "second"):
        deployed = eb.deploy(
            model,
            (X, cache),
            backend="loopback",
            work_dir=tmp_path / name,
            export=eb.ExportOptions(exporter=exporter),
        )
        assert deployed.verdict == "verified"
    assert cache.keys is keys
    assert cache.calls == calls


def test_arguments_that_share_an_object_share_its_copy() -> None:
    model, cache = WithCache(), Cache()
    signature = bind(find_model(model), (X, cache, cache)).signature
    assert signature is not None
    (_, first, second), _ = signature.call.fill([X])
    assert first is second is not cache


def test_an_argument_that_cannot_be_copied_is_passed_as_it_is() -> None:
    class Locked(Cache):
        lock = threading.Lock()

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("cannot be copied")

    cache = Locked()
    signature = bind(find_model(WithCache()), (X, cache)).signature
    assert signature is not None
    assert signature.call.fill([X])[0][1] is cache


@pytest.mark.parametrize(
    ("exporter", "ir", "before"),
    [
        ("dynamo", "exported_program", "nothing"),
        ("dynamo", "exported_program", "gradients"),
        ("torchscript", "torchscript", "gradients"),
        ("torchscript", "torchscript", "inference"),
    ],
)
@pytest.mark.one_in(2)
def test_model_with_cached_tensors_is_unchanged_after_deployment(
    tmp_path: Path, exporter: Any, ir: Any, before: str
) -> None:
    model = Biased()
    if before == "gradients":
        model(X[0])
    elif before == "inference":
        with torch.inference_mode():
            model(X[0])
    known = contents(model)
    deployed = eb.deploy(
        model,
        X[0],
        backend="loopback",
        work_dir=tmp_path / "a",
        export=eb.ExportOptions(exporter=exporter),
    )
    assert deployed.verdict == "verified"
    assert contents(model) == known
    eb.export(model, X[0], path=tmp_path / "b", options=eb.ExportOptions(ir=ir))
    assert contents(model) == known
    assert eb.verify(deployed.artifact, None, model).verdict == "verified"
    assert contents(model) == known
    model(X[0]).sum().backward()
    assert (model.biases.grad is None) == (before == "inference")


def test_model_is_restored_after_an_error(tmp_path: Path) -> None:
    class Failing(Biased):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            self.linear = nn.Linear(1, 1)
            del self.order
            raise ValueError("broken")

    model = Failing()
    known = contents(model)
    with pytest.raises(eb.errors.ModelError):
        eb.deploy(model, X[0], backend="loopback", work_dir=tmp_path / "a")
    assert contents(model) == known


def test_lazy_module_stays_initialised_after_binding() -> None:
    model = nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d())
    source = find_model(model)
    with unchanged(source):
        bind(source, torch.ones(3, 4))
    assert model(torch.ones(3, 4)).shape == (3, 2)
