"""What a model holds outside of its forwards: taken down, compared, and put back."""

from __future__ import annotations

import math
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.models.forward_pass import copy_detached
from enginebay.models.holder_snapshots import (
    PLAIN,
    Found,
    Place,
    has_content,
    is_tensor,
    place_of,
    places_around,
    same_content,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from enginebay.models.sources import ModelSource

#: The sum of the same numbers in another order differs by less than this part of their norm.
_SAME_SUM = 1e-4


@contextmanager
def unchanged(source: ModelSource) -> Iterator[None]:
    """Run and export a model inside the block; afterwards it is exactly as it was.

    That holds for the attributes of its modules and of the objects in them, the containers in
    these, and the content of its buffers and of other tensors that are no parameters. Inside, a
    tensor that a forward has computed with gradients on and kept is replaced by a copy without: no
    exporter takes such a constant.
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
    """The state of a model when this is made.

    Args:
        model: The model.
        fully: With the data in its classes, in the globals that their methods name, and
            the sums of parameters, whose copies would take the model's memory once more.
    """

    def __init__(self, model: nn.Module, *, fully: bool = False) -> None:
        self._model = model
        self._fully = fully
        self._places: list[Place] = []
        self._tensors: list[tuple[str, Tensor, Tensor]] = []
        self._sums: list[tuple[str, Tensor, tuple[float, ...]]] = []
        self._take_down([Found("", model)], list(places_around(model)) if fully else [])

    def again(self) -> ModelState:
        """The state now, of the same things."""
        return ModelState(self._model, fully=self._fully)

    def changed(self) -> list[str]:
        """Where something but parameters is no longer as it was: ``encoder.cache['keys']``."""
        names = [name for place in self._places if place.is_there() for name in place.changed()]
        names += [name for name, tensor, copy in self._tensors if not same_content(tensor, copy)]
        return list(dict.fromkeys(names))

    def changed_parameters(self) -> list[str]:
        """The parameters that were written into, which :meth:`restore` cannot put back."""
        return [name for name, tensor, sums in self._sums if not _same_sums(_sums(tensor), sums)]

    def detach(self) -> None:
        """Replace what cannot be traced; a tensor that is kept twice by the same copy."""
        from enginebay.tensors import map_leaves

        copies: dict[int, Tensor] = {}

        def replaced(leaf: Any) -> Any:
            return (
                copies.setdefault(id(leaf), copy_detached(leaf)) if _is_untraceable(leaf) else leaf
            )

        for place in self._places:
            if isinstance(place.holder, set):  # nobody looks a tensor up in one
                continue
            for key, value in place.items.items():
                inside = value if isinstance(value, tuple) else (value,)
                if any(map(_is_untraceable, inside)):
                    place.holder[key] = map_leaves(replaced, value)

    def restore(self) -> None:
        """Put everything back, but for lazy modules, which the first forward made others."""
        import torch

        for place in self._places:
            if place.is_there():
                place.restore()
        for _, tensor, copy in self._tensors:
            if not same_content(tensor, copy):
                with torch.no_grad():
                    tensor.copy_(copy)

    def _take_down(self, inside: list[Found], around: list[Place]) -> None:
        """Take down all that can be reached: each thing once, under its shortest name."""
        seen: set[int] = set()
        self._places += around
        waiting = deque([*inside, *(found for place in around for found in place.inside())])
        while waiting:
            found = waiting.popleft()
            if isinstance(found.value, PLAIN) or id(found.value) in seen:
                continue
            seen.add(id(found.value))
            if is_tensor(found.value):
                self._take_down_tensor(found.name, found.value)
            elif (place := place_of(found)) is not None:
                if not isinstance(place.holder, tuple):
                    self._places.append(place)
                waiting.extend(place.inside())

    def _take_down_tensor(self, name: str, tensor: Tensor) -> None:
        from torch.nn.parameter import is_lazy

        if _is_state(tensor):
            if has_content(tensor) and not tensor.is_inference():  # detach() puts a copy there
                self._tensors.append((name, tensor, copy_detached(tensor)))
        elif self._fully and not is_lazy(tensor):  # the first forward makes what is lazy
            self._sums.append((name, tensor, _sums(tensor)))


def _sums(tensor: Tensor) -> tuple[float, ...]:
    """The sum and the norm of a parameter."""
    import torch

    try:
        values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        values = values.detach() if values.is_floating_point() else values.detach().float()
        # In doubles they take twenty times as long.
        norm = torch.linalg.vector_norm(values, dtype=torch.float32)
        return values.sum(dtype=torch.float32).item(), norm.item()
    except (NotImplementedError, RuntimeError):  # it has no values, or none that can be summed
        return (0.0, 0.0)


def _same_sums(found: tuple[float, ...], before: tuple[float, ...]) -> bool:
    return all(
        math.isclose(one, other, rel_tol=0, abs_tol=_SAME_SUM * before[-1]) or one != one != other
        for one, other in zip(found, before, strict=True)
    )


def _is_state(value: Any) -> bool:
    """True for a tensor that is no parameter, and that a lazy module has not yet to make."""
    import torch

    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
        return False
    return not torch.nn.parameter.is_lazy(value)


def _is_untraceable(value: Any) -> bool:
    """True for such a tensor if it has a history, or was made for inference only."""
    return _is_state(value) and (value.requires_grad or value.is_inference())
