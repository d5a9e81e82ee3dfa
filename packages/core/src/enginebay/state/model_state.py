"""Record, compare and restore the state that a model keeps between forwards."""

from __future__ import annotations

import math
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from enginebay.state.forward_pass import copy_detached
from enginebay.state.holder_snapshots import (
    PLAIN,
    HeldValue,
    HolderSnapshot,
    has_content,
    is_tensor,
    same_content,
    snapshot_surroundings,
    take_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from enginebay.sources import ModelSource

#: Two sums of the same values in a different order differ by less than this fraction of the norm.
_SUM_TOLERANCE = 1e-4


@contextmanager
def unchanged(source: ModelSource) -> Iterator[None]:
    """Restore a model's state after the block; inside, the model may be run and exported.

    The state consists of the attributes of modules, the content of objects and containers among
    these attributes, and the content of all tensors except parameters. No exporter accepts a tensor
    with a gradient history as a constant. Inside the block, each such tensor in the state is
    therefore replaced by a detached copy.
    """
    if source.model is None:
        yield
        return
    state = ModelState(source.module)
    try:
        state.detach()
        yield
    finally:
        state.restore()


class ModelState:
    """A record of a model's state at the time when this object is created.

    Args:
        model: The model.
        fully: Include class attributes, the globals that methods use, and the sum and the norm of
            each parameter (copies would need as much memory as the model).
    """

    def __init__(self, model: nn.Module, *, fully: bool = False) -> None:
        self._model = model
        self._fully = fully
        self._snapshots: list[HolderSnapshot] = []
        self._tensors: list[tuple[str, Tensor, Tensor]] = []
        self._sum_and_norm: list[tuple[str, Tensor, tuple[float, ...]]] = []
        self._record_values(
            HeldValue("", model), list(snapshot_surroundings(model)) if fully else []
        )

    def record_again(self) -> ModelState:
        """Return a new record of the model's state, with the same value of ``fully``."""
        return ModelState(self._model, fully=self._fully)

    def changed(self) -> list[str]:
        """Return the paths of changed values other than parameters: ``encoder.cache['keys']``."""
        valid = [snapshot for snapshot in self._snapshots if snapshot.is_valid()]
        names = [name for snapshot in valid for name in snapshot.changed()]
        names += [name for name, tensor, copy in self._tensors if not same_content(tensor, copy)]
        return list(dict.fromkeys(names))

    def changed_parameters(self) -> list[str]:
        """Return the names of changed parameters, which :meth:`restore` cannot restore."""
        return [
            name
            for name, tensor, sums in self._sum_and_norm
            if not _are_same_sums(_sum_and_norm(tensor), sums)
        ]

    def detach(self) -> None:
        """Replace each tensor that cannot be traced by a detached copy, wherever it is stored."""
        from enginebay.tensors import map_leaves

        copies: dict[int, Tensor] = {}

        def detach_leaf(leaf: Any) -> object:
            if not _is_untraceable(leaf):
                return leaf
            return copies.setdefault(id(leaf), copy_detached(leaf))

        for snapshot in self._snapshots:
            if isinstance(snapshot.holder, set):  # tensors in a set are hardly ever used
                continue
            for key, value in snapshot.items.items():
                leaves = value if isinstance(value, tuple) else (value,)
                if any(map(_is_untraceable, leaves)):
                    snapshot.holder[key] = map_leaves(detach_leaf, value)

    def restore(self) -> None:
        """Restore the state, except the state of lazy modules that a forward has initialised."""
        import torch

        for snapshot in self._snapshots:
            if snapshot.is_valid():
                snapshot.restore()
        for _, tensor, copy in self._tensors:
            if not same_content(tensor, copy):
                # torch refuses to write into a leaf that requires gradients.
                with torch.no_grad():
                    tensor.copy_(copy)

    def _record_values(self, root: HeldValue, surroundings: list[HolderSnapshot]) -> None:
        """Record each value reachable from ``root`` or ``surroundings`` by its shortest path."""
        seen: set[int] = set()
        self._snapshots += surroundings
        waiting = deque([root])
        for snapshot in surroundings:
            waiting.extend(snapshot.held_values())
        while waiting:  # breadth first, so that the first path to a value is its shortest
            held = waiting.popleft()
            if isinstance(held.value, PLAIN) or id(held.value) in seen:
                continue
            seen.add(id(held.value))
            if is_tensor(held.value):
                self._record_tensor(held.name, held.value)
            elif (inner := take_snapshot(held)) is not None:
                if not isinstance(inner.holder, tuple):  # a tuple cannot change, but its items can
                    self._snapshots.append(inner)
                waiting.extend(inner.held_values())

    def _record_tensor(self, name: str, tensor: Tensor) -> None:
        from torch.nn.parameter import is_lazy

        if _is_state(tensor):
            if has_content(tensor) and not tensor.is_inference():  # detach() puts a copy there
                self._tensors.append((name, tensor, copy_detached(tensor)))
        elif self._fully and not is_lazy(tensor):  # the first forward creates its values
            self._sum_and_norm.append((name, tensor, _sum_and_norm(tensor)))


def _sum_and_norm(tensor: Tensor) -> tuple[float, ...]:
    import torch

    try:
        values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        values = values.detach() if values.is_floating_point() else values.detach().float()
        # In float64 this takes twenty times as long.
        norm = torch.linalg.vector_norm(values, dtype=torch.float32)
        return values.sum(dtype=torch.float32).item(), norm.item()
    except (NotImplementedError, RuntimeError):  # a meta tensor, or a dtype that cannot be summed
        return (0.0, 0.0)


def _are_same_sums(after: tuple[float, ...], before: tuple[float, ...]) -> bool:
    return all(
        math.isclose(new, old, rel_tol=0, abs_tol=_SUM_TOLERANCE * before[-1]) or math.isnan(new)
        for new, old in zip(after, before, strict=True)
    )


def _is_state(value: object) -> TypeGuard[Tensor]:
    """Return True for a tensor that is neither a parameter nor an uninitialised lazy tensor."""
    import torch

    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
        return False
    return not torch.nn.parameter.is_lazy(value)


def _is_untraceable(value: object) -> bool:
    """Return True for a state tensor that has a gradient history or is an inference tensor."""
    return _is_state(value) and (value.requires_grad or value.is_inference())
