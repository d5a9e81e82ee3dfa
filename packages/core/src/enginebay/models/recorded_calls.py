"""Recorded calls of a model in an application, as its example, open dimensions and data."""

from __future__ import annotations

import reprlib
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from enginebay.errors import InputError
from enginebay.models.dynamic import from_profiles
from enginebay.models.forward_arguments import bind_arguments, forward_parameters, unwrap_compiled
from enginebay.models.forward_pass import copy_detached, run_uncompiled
from enginebay.params import inputs_in
from enginebay.tensors import dtype_name, leaves, to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from enginebay.models.dynamic import DynamicDim, DynamicShapes
    from enginebay.models.forward_arguments import Call
    from enginebay.tensors import NumpyArray

#: The number of stored calls: as many as an artifact is verified on.
_MAX_STORED_CALLS = 64

#: One for all records: a record can be pickled then.
_LOCK = threading.Lock()

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]


@contextmanager
def record(model: Any) -> Iterator[RecordedCalls]:
    """Record how an application calls a model, as the example inputs of a deployment.

    The recorded calls determine the inputs that the artifact must take: see
    :class:`RecordedCalls`. The model computes as before, except that a module compiled by
    ``torch.compile`` runs uncompiled.

    Args:
        model: The module that the application calls, which may be a part of a larger module.

    Raises:
        InputError: It is no ``nn.Module``.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 1)
        >>> with record(model) as seen:
        ...     outputs = [model(torch.ones(rows, 2)) for rows in (1, 4, 3)]
        >>> seen
        <RecordedCalls: 3 of 3 calls of Linear>
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        parts = getattr(model, "__dict__", {}).items()
        modules = [f".{name}" for name, part in parts if isinstance(part, torch.nn.Module)]
        raise InputError(
            f"an object of type {type(model).__name__} cannot be recorded; expected an nn.Module",
            hint=f"it has {', '.join(modules)}: record the one that is called" if modules else None,
        )
    seen = RecordedCalls(model)
    hook = model.register_forward_pre_hook(seen.add, with_kwargs=True, prepend=True)
    try:
        with run_uncompiled():
            yield seen
    finally:
        hook.remove()
        seen.close()


@dataclass(frozen=True)
class _StoredCall:
    """One stored call: its arguments, and copies of its tensors on the CPU."""

    number: int
    call: Call
    tensors: tuple[Tensor, ...]

    @property
    def shapes(self) -> _Shapes:
        return tuple(tuple(tensor.shape) for tensor in self.tensors)


class _TensorKind(str):
    """The dtype and rank of a tensor, as text."""

    __slots__ = ()
    __repr__ = str.__str__


class RecordedCalls:
    """What :func:`record` has seen: ``args`` of ``deploy``, ``export`` and ``preview``.

    A call with the most frequent sizes becomes the example, and sizes that differed between calls
    are open, from the smallest to the largest one. In ``deploy`` the calls are the data as well,
    and probes stay between the least and the greatest number of each input. An explicit argument
    wins: an axis in ``dynamic``, the data, the domain of an input.

    At most 64 calls are stored, with copies of their tensors: a random choice of all. A call with
    the smallest and a call with the largest size of each axis are always stored, even beyond 64. It
    is a sequence of data items, which :class:`enginebay.DataSet` takes too.

    Args:
        model: The model whose calls are recorded.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._is_open = True
        self._count = 0
        self._first: dict[str, Any] = {}
        self._difference = ""
        self._sizes: Counter[_Shapes] = Counter()
        self._stored: dict[int, _StoredCall] = {}
        self._random = Random(0)  # noqa: S311  # no secret

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedCalls:
        """Itself: a copy of the model that the application makes is recorded here as well."""
        return self

    def __repr__(self) -> str:
        kept = f"{len(self._stored)} of {self._count} calls"
        return f"<RecordedCalls: {kept} of {type(self._model).__name__}>"

    def __len__(self) -> int:
        """Return the number of stored calls."""
        return len(self._calls())

    def __getitem__(self, index: int) -> tuple[list[NumpyArray], None]:
        """Return a call as an item of a data set: its inputs in order, without a target."""
        return [to_numpy(tensor) for tensor in self._calls()[index].tensors], None

    @property
    def example(self) -> tuple[Any, ...]:
        """The last call with the most frequent sizes: positional arguments, then a dict."""
        kept = self._usual()
        device = next((each.device for each in self._model.parameters()), "cpu")
        args, kwargs = kept.call.fill([tensor.to(device) for tensor in kept.tensors])
        return (*args, kwargs)

    def example_for(self, model: Any) -> tuple[Any, ...]:
        """Return the example for a model.

        Raises:
            InputError: The calls are those of a different model, or cannot be used.
        """
        if unwrap_compiled(self._model) is not model:
            raise InputError(
                f"the calls were recorded on a different model, a {type(self._model).__name__}",
                hint="pass the module that was recorded; for a copy of it pass seen.example",
            )
        return self.example

    def opened(
        self, names: Sequence[str], given: DynamicShapes, dynamic: Mapping[str, Any]
    ) -> DynamicShapes:
        """Return the axes whose sizes differed between calls, and those that the caller opened.

        Axes that have equal sizes in every call share one name.

        Args:
            names: The names of the inputs, in order.
            given: The axes that the caller opened.
            dynamic: The caller's own value of ``dynamic``, which may also fix an axis.
        """
        every = dict(zip(names, zip(*self._sizes, strict=True), strict=True))
        profiles = {}
        for name, usual in zip(names, self._usual().shapes, strict=True):
            axes = [*zip(*every[name], strict=True)]
            profiles[name] = [*map(min, axes)], usual, [*map(max, axes)]
        seen = from_profiles(profiles)
        said = {
            (name, axis)
            for name, axes in seen.items()
            for axis in axes
            for key, own in dynamic.items()
            if key == name or inputs_in(key, [name])
            if own is None or axis in own or axis - len(every[name][0]) in own
        }
        found = {name: dict(axes) for name, axes in given.items()}
        shared: dict[tuple[int, ...], DynamicDim | None] = {}
        places = [(name, axis) for name, axes in seen.items() for axis in axes]
        for name, axis in sorted(places, key=lambda place: place not in said):
            sizes = tuple(shape[axis] for shape in every[name])
            if (name, axis) in said:
                shared.setdefault(sizes, given.get(name, {}).get(axis))
            elif (dim := shared.setdefault(sizes, seen[name][axis])) is not None:
                found.setdefault(name, {})[axis] = dim
        return found

    def fitting(self, example: Mapping[str, Sequence[int]], dynamic: DynamicShapes) -> Self:
        """Return the calls whose fixed axes have the sizes of the example."""
        closed = [
            (place, axis, size)
            for place, (name, shape) in enumerate(example.items())
            for axis, size in enumerate(shape)
            if axis not in dynamic.get(name, {})
        ]
        other = copy(self)
        other._stored = {
            each.number: each
            for each in self._calls()
            if all(each.shapes[place][axis] == size for place, axis, size in closed)
        }
        return other

    def domain(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the smallest and largest number of each input in the stored calls."""
        found = {}
        for name, *tensors in zip(names, *(each.tensors for each in self._calls()), strict=True):
            arrays = map(to_numpy, tensors)
            numbers = [each for each in arrays if each.size and each.dtype.kind not in "bc"]
            low = min((float(each.min()) for each in numbers), default=0.0)
            high = max((float(each.max()) for each in numbers), default=0.0)
            if low < high:
                found[name] = low, high
        return found

    def add(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a call, as a forward pre-hook of the model."""
        import torch

        is_traced = torch._C._get_tracing_state() is not None
        is_over = not self._is_open or self._difference
        if is_over or is_traced or torch.compiler.is_compiling():
            return
        model = unwrap_compiled(self._model)
        with suppress(InputError):  # no tensor is in it, or the forward is about to refuse it
            call, named = bind_arguments(model, (*args, dict(sorted(kwargs.items()))))
            tensors = [*named.values()]
            kinds = [_TensorKind(f"{dtype_name(each)} of rank {each.ndim}") for each in tensors]
            positional, keywords = call.fill(kinds)  # type: ignore[arg-type]  # any leaf will do
            bound = forward_parameters(model).bind(*positional, **keywords).arguments
            with _LOCK:
                self._add(call, tensors, dict(leaves(bound)))

    def close(self) -> None:
        """End the recording."""
        self._is_open = False

    def _add(self, call: Call, tensors: Sequence[Tensor], form: dict[str, Any]) -> None:
        number, self._count = self._count, self._count + 1
        self._first = self._first or form
        if difference := _difference(self._first, form):
            self._difference = f"{difference} in call {number}"
            return
        shapes = tuple(tuple(tensor.shape) for tensor in tensors)
        self._sizes[shapes] += 1
        if len(self._stored) >= _MAX_STORED_CALLS:
            every = {each.number: each.shapes for each in self._stored.values()} | {number: shapes}
            needed = _extremes(every)
            spare = [each for each in self._stored if each not in needed]
            if number not in needed and (
                not spare or self._random.randrange(self._count) >= _MAX_STORED_CALLS
            ):
                return
            if spare:
                del self._stored[self._random.choice(spare)]
        self._stored[number] = _StoredCall(
            number, call, tuple(copy_detached(each).cpu() for each in tensors)
        )

    def _usual(self) -> _StoredCall:
        return max(self._calls(), key=lambda each: (self._sizes[each.shapes], each.number))

    def _calls(self) -> list[_StoredCall]:
        """Return the stored calls, in order.

        Raises:
            InputError: There are no calls, they differ in more than sizes, or the recording has
                not ended.
        """
        name = type(self._model).__name__
        if self._is_open:
            raise InputError(
                f"the calls of the {name} are still being recorded",
                hint="use them after the with block, not inside",
            )
        if not self._count:
            raise InputError(
                f"nothing has called the {name} with a tensor while it was recorded",
                hint="record the module that the application calls, such as pipeline.model: "
                "it may be a part of this one, or a copy",
            )
        if self._difference:
            raise InputError(
                f"the calls of the {name} differ in more than sizes and values: {self._difference}",
                hint="an artifact takes one form of call: record each form in a with of its own",
            )
        return list(self._stored.values())


def _extremes(calls: Mapping[int, _Shapes]) -> set[int]:
    """Return the numbers of the first calls with the smallest and largest size of each axis."""
    return {
        choose(calls, key=lambda each: calls[each][place][axis])
        for place, shape in enumerate(next(iter(calls.values())))
        for axis in range(len(shape))
        for choose in (min, max)
    }


def _difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe how a call differs from the first: ``'use_cache' is True in call 0, and False``."""
    for path in {**first, **other}:
        if path not in first or path not in other or not _is_same(first[path], other[path]):
            one, found = (
                reprlib.repr(form[path]) if path in form else "missing" for form in (first, other)
            )
            return f"'{path}' is {one} in call 0, and {found}"
    return "" if list(first) == list(other) else "the arguments come in another order"


def _is_same(one: Any, other: Any) -> bool:
    """Return True for equal values, and for objects of one class that cannot be compared."""
    if type(one) is not type(other):
        return False
    if getattr(type(one), "__eq__", None) is object.__eq__:
        return one is other or copy(one) is not one
    with suppress(Exception):
        return bool(one == other)
    return True
