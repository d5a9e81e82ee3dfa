"""Recording of an application's calls of a model, which serve as example inputs and data."""

from __future__ import annotations

import reprlib
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from enginebay import torch_private
from enginebay.errors import InputError
from enginebay.models.dynamic import from_profiles, name_sums
from enginebay.models.forward_arguments import bind_arguments
from enginebay.params import inputs_in
from enginebay.sources import forward_parameters
from enginebay.state import copy_detached, run_uncompiled
from enginebay.tensors import dtype_name, leaves, to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from enginebay.models.forward_arguments import Call
    from enginebay.params import DynamicDim, DynamicShapes
    from enginebay.tensors import NumpyArray

#: The number of stored calls: as many as an artifact is verified on.
_MAX_STORED_CALLS = 64

#: One lock for all objects, since an object with its own lock cannot be pickled.
_LOCK = threading.Lock()

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]


@contextmanager
def record(model: object) -> Iterator[RecordedCalls]:
    """Record an application's calls of a model, to deploy the model for the recorded inputs.

    :class:`RecordedCalls` describes how the calls are used. The model computes as before, except
    that a module compiled by ``torch.compile`` runs uncompiled.

    Args:
        model: The ``nn.Module`` that the application calls; it may be a submodule.

    Raises:
        InputError: The model is not an ``nn.Module``.

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
            hint=f"record the module that is called: {' or '.join(modules)}" if modules else None,
        )
    seen = RecordedCalls(model)
    # Before all other hooks, which may replace the arguments that the application passed.
    hook = model.register_forward_pre_hook(seen.add, with_kwargs=True, prepend=True)
    try:
        with run_uncompiled():
            yield seen
    finally:
        hook.remove()
        seen.close()


@dataclass(frozen=True)
class _StoredCall:
    """A recorded call: its index, its arguments, and copies of their tensors on the CPU."""

    number: int
    call: Call
    tensors: tuple[Tensor, ...]

    @property
    def shapes(self) -> _Shapes:
        return tuple(tuple(tensor.shape) for tensor in self.tensors)


class _TensorKind(str):
    """The dtype and rank of a tensor as text, which messages show without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class RecordedCalls:
    """The recorded calls of a model, which ``deploy``, ``export`` and ``preview`` take as ``args``.

    A call with the most frequent sizes becomes the example. Axes whose sizes differ between calls
    are dynamic, from the smallest to the largest recorded size. ``deploy`` also uses the calls as
    data, and generates further inputs with values between the smallest and the largest recorded
    value of each input. The arguments ``dynamic`` and ``data`` of ``deploy``, and the domain of an
    input, take precedence over the recorded calls.

    At most 64 randomly chosen calls are stored, with copies of their tensors. A call with the
    smallest and a call with the largest size of each axis are always stored, even beyond 64. The
    object is a sequence of data items, which :class:`enginebay.DataSet` accepts.

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
        """Return this object, so that calls of a copy of the model are recorded here as well."""
        return self

    def __repr__(self) -> str:
        calls = f"{len(self._stored)} of {self._count} calls"
        return f"<RecordedCalls: {calls} of {type(self._model).__name__}>"

    def __len__(self) -> int:
        """Return the number of stored calls."""
        return len(self._calls())

    def __getitem__(self, index: int) -> tuple[list[NumpyArray], None]:
        """Return a call as an item of a data set: its inputs in order, without a target."""
        return [to_numpy(tensor) for tensor in self._calls()[index].tensors], None

    @property
    def example(self) -> tuple[object, ...]:
        """The arguments of a call with the most frequent sizes.

        The last item of the tuple is a dict of the keyword arguments.
        """
        usual = self._usual()
        device = next((weight.device for weight in self._model.parameters()), "cpu")
        args, kwargs = usual.call.fill([tensor.to(device) for tensor in usual.tensors])
        return (*args, kwargs)

    def example_for(self, model: object) -> tuple[object, ...]:
        """Return the example, if the calls were recorded on this model.

        Raises:
            InputError: The calls were recorded on a different model, or cannot be used.
        """
        if torch_private.unwrap_compiled_module(self._model) is not model:
            raise InputError(
                f"the calls were recorded on a different model, of type "
                f"{type(self._model).__name__}",
                hint="pass the recorded module; to use a copy of the module, pass the recording's "
                "'example' as the inputs",
            )
        return self.example

    def opened(
        self, names: Sequence[str], requested: DynamicShapes, dynamic: Mapping[str, Any]
    ) -> DynamicShapes:
        """Return the dynamic axes: the requested axes, and axes whose sizes differ between calls.

        Two axes that have equal sizes in every call share one dimension, and an axis whose size is
        the sum of two others in every call is their sum: the mask of a decoder's step.

        Args:
            names: The names of the inputs, in order.
            requested: The axes that the caller made dynamic.
            dynamic: The caller's argument ``dynamic``. An axis that it mentions is never made
                dynamic because of the recorded sizes; None as the dimension fixes the axis.
        """
        every = dict(zip(names, zip(*self._sizes, strict=True), strict=True))
        profiles = {}
        for name, usual in zip(names, self._usual().shapes, strict=True):
            axes = [*zip(*every[name], strict=True)]
            profiles[name] = [*map(min, axes)], usual, [*map(max, axes)]
        varying = from_profiles(profiles)
        decided = {  # by the caller
            (name, axis)
            for name, axes in varying.items()
            for axis in axes
            for key, own in dynamic.items()
            if key == name or inputs_in(key, [name])
            if own is None or axis in own or axis - len(every[name][0]) in own
        }
        opened = {name: dict(axes) for name, axes in requested.items()}
        shared: dict[tuple[int, ...], DynamicDim | None] = {}
        differing = [(name, axis) for name, axes in varying.items() for axis in axes]
        # The caller's axes first, so that other axes with the same sizes share their dimensions.
        for name, axis in sorted(differing, key=lambda item: item not in decided):
            sizes = tuple(shape[axis] for shape in every[name])
            if (name, axis) in decided:
                shared.setdefault(sizes, requested.get(name, {}).get(axis))
            elif (dim := shared.setdefault(sizes, varying[name][axis])) is not None:
                opened.setdefault(name, {})[axis] = dim
        named = {dim.name: sizes for sizes, dim in shared.items() if dim is not None}
        own = {dim.name for axes in requested.values() for dim in axes.values()}
        return name_sums(opened, named, own)

    def fitting(self, example: Mapping[str, Sequence[int]], dynamic: DynamicShapes) -> Self:
        """Return the calls in which each fixed axis has the same size as in the example."""
        closed = [
            (n, axis, size)
            for n, (name, shape) in enumerate(example.items())
            for axis, size in enumerate(shape)
            if axis not in dynamic.get(name, {})
        ]
        other = copy(self)
        other._stored = {
            call.number: call
            for call in self._calls()
            if all(call.shapes[n][axis] == size for n, axis, size in closed)
        }
        return other

    def domain(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the smallest and largest stored value of each input, unless the two are equal.

        Inputs of booleans or complex numbers are left out.
        """
        domain = {}
        for name, *tensors in zip(names, *(call.tensors for call in self._calls()), strict=True):
            arrays = map(to_numpy, tensors)
            real = [array for array in arrays if array.size and array.dtype.kind not in "bc"]
            low = min((float(array.min()) for array in real), default=0.0)
            high = max((float(array.max()) for array in real), default=0.0)
            if low < high:
                domain[name] = low, high
        return domain

    def add(self, _: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Record a call; ``record`` registers this method as a forward pre-hook of the model."""
        import torch

        # Exporters run hooks too, with fake tensors instead of the application's inputs.
        is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]  # untyped
        is_over = not self._is_open or self._difference
        if is_over or is_traced or torch.compiler.is_compiling():
            return
        model = torch_private.unwrap_compiled_module(self._model)
        with suppress(InputError):  # it has no tensor, or the forward is about to reject it
            # Sorted, since an application may pass keywords in any order.
            call, named = bind_arguments(model, (*args, dict(sorted(kwargs.items()))))
            tensors = [*named.values()]
            kinds = [_TensorKind(f"{dtype_name(t)} of rank {t.ndim}") for t in tensors]
            positional, keywords = call.fill(kinds)  # type: ignore[arg-type]  # any leaf will do
            bound = forward_parameters(model).bind(*positional, **keywords).arguments
            with _LOCK:
                self._add(call, tensors, dict(leaves(bound)))

    def close(self) -> None:
        """End the recording."""
        self._is_open = False

    def _add(self, call: Call, tensors: Sequence[Tensor], form: dict[str, object]) -> None:
        number, self._count = self._count, self._count + 1
        self._first = self._first or form
        if difference := _describe_difference(self._first, form):
            self._difference = f"{difference} in call {number}"
            return
        shapes = tuple(tuple(tensor.shape) for tensor in tensors)
        self._sizes[shapes] += 1
        if len(self._stored) >= _MAX_STORED_CALLS:
            every = {n: stored.shapes for n, stored in self._stored.items()} | {number: shapes}
            needed = _find_extreme_calls(every)
            spare = [n for n in self._stored if n not in needed]
            # Reservoir sampling: each call so far is stored with the same probability.
            if number not in needed and (
                not spare or self._random.randrange(self._count) >= _MAX_STORED_CALLS
            ):
                return
            if spare:
                del self._stored[self._random.choice(spare)]
        # Copied only now, since most calls are not stored.
        self._stored[number] = _StoredCall(
            number, call, tuple(copy_detached(tensor).cpu() for tensor in tensors)
        )

    def _usual(self) -> _StoredCall:
        return max(self._calls(), key=lambda call: (self._sizes[call.shapes], call.number))

    def _calls(self) -> list[_StoredCall]:
        """Return the stored calls in order, or raise InputError if they cannot be used."""
        name = type(self._model).__name__
        if self._is_open:
            raise InputError(
                f"the calls of the {name} are still being recorded",
                hint="use the calls after the with block, not inside",
            )
        if not self._count:
            raise InputError(
                f"nothing has called the {name} with a tensor while it was recorded",
                hint="record the module that the application calls, such as pipeline.model; the "
                "application may call a submodule, or a copy",
            )
        if self._difference:
            raise InputError(
                f"the calls of the {name} differ in more than sizes and values: {self._difference}",
                hint="an artifact supports only one combination of arguments: record each "
                "combination in a separate with block",
            )
        return list(self._stored.values())


def _find_extreme_calls(calls: Mapping[int, _Shapes]) -> set[int]:
    return {
        choose(calls, key=lambda call: calls[call][n][axis])
        for n, shape in enumerate(next(iter(calls.values())))
        for axis in range(len(shape))
        for choose in (min, max)
    }


def _describe_difference(first: Mapping[str, object], other: Mapping[str, object]) -> str:
    """Describe how the arguments of a call differ from those of the first; "" if they are equal.

    Both mappings are path → value. The message that quotes the result adds ``in call N``.
    """
    for path in {**first, **other}:
        if path not in first or path not in other or not _is_same(first[path], other[path]):
            values = [
                reprlib.repr(form[path]) if path in form else "missing" for form in (first, other)
            ]
            return f"'{path}' is {' in call 0, and '.join(values)}"
    return "" if list(first) == list(other) else "the arguments come in another order"


def _is_same(one: object, other: object) -> bool:
    """Return True if two values are equal, or have the same class and cannot be compared."""
    if type(one) is not type(other):
        return False
    if getattr(type(one), "__eq__", None) is object.__eq__:
        return one is other or copy(one) is not one
    with suppress(Exception):
        return bool(one == other)
    return True
