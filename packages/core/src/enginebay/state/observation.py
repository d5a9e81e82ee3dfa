"""Observation of a forward pass: which input-dependent values Python reads, and where.

A value that Python has read can select a branch or become a constant, and then an exported graph is
right for that value only. This file imports torch at its top, since a class derives from torch's.
"""

from __future__ import annotations

import math
import operator
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar
from zlib import crc32

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from enginebay import torch_private
from enginebay.ir import model_line
from enginebay.state.taken_sides import (
    CONDITIONS,
    MAX_KINDS,
    MAX_PICKED,
    SELECTING,
    STEPS,
    TakenSides,
    mark_indices,
    mark_truth,
    read_dim,
    tests_for_nan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from enginebay.tensors import NumpyArray
    from enginebay.torch_private import OpOverload

_T = TypeVar("_T")

_DispatchMode: Any = torch_private.dispatch_mode_class()

#: Operators whose results depend only on the shape of their argument.
_SHAPE_ONLY = frozenset(
    (
        *("zeros_like", "ones_like", "empty_like", "full_like"),
        *("new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"),
    )
)

#: Operators that return indices of values: of equal values, any index is right.
_ORDERING = frozenset(
    ("topk", "sort", "argsort", "argmax", "argmin", "kthvalue", "median", "mode", "max", "min")
)

#: Binary searches, whose results are defined for sorted boundaries only: the boundaries' position.
_BOUNDARIES = {"searchsorted": 0, "bucketize": 1}

#: Tests for equality: integers that are compared with a constant have a special value.
_EQUALITY = frozenset(("eq", "ne", "isin"))

#: Operators whose result changes at a constant, which a random value does not hit.
_COMPARING = _EQUALITY | {"gt", "ge", "lt", "le", "round"}

#: Halves, which are rounded to even numbers.
_TIES = (-0.5, 0.5, 1.5)

#: So many constants or fewer are special values; more are a table.
_MAX_SPECIAL = 64

#: Operators whose result says nothing about the range of its input: the sum of a mask may be an
#: index, and the mask is none.
_REDUCING = frozenset(
    (
        *("sum", "mean", "prod", "cumsum", "count_nonzero", "nonzero", "any", "all"),
        *("argmax", "argmin", "argsort", "eq", "ne", "gt", "ge", "lt", "le", "isin"),
    )
)

#: Operators that read entries of their first argument at indices, and those that look up.
_READING = frozenset(("gather", "index", "index_select"))
_LOOKING_UP = _READING | {"embedding", "scatter"}

#: The largest number of classes of which an output's index is one.
_MAX_CLASSES = 1024

#: Tensor methods that return the values to Python without an operator: torch's own, None if its
#: base class has them.
_METHODS = {name: vars(torch.Tensor).get(name) for name in ("tolist", "numpy", "__dlpack__")}


@dataclass(frozen=True)
class Reading:
    """A value that Python read from a tensor which depends on the inputs.

    Attributes:
        place: File and line of the model: ``folder/net.py:12``.
        value: The value, as text; ``size [3]`` for a size that follows from values, ``by DLPack``
            for a tensor whose values a tracer does not see being read.
    """

    place: str
    value: str


@dataclass
class Observation:
    """The result of observing one forward pass.

    Attributes:
        readings: The values that Python read, in order.
        table_rows: Name of an input that indexes embeddings → row count of the smallest embedding.
        classes: Name of an input that indexes other tensors (index, gather, one-hot) → size of the
            smallest indexed axis.
        special: Name of an input → constants that it is compared with, such as the id of padding,
            and the ties of its rounding.
        boundaries: Names of inputs that a binary search takes as its sorted boundaries.
        orders: True if the forward computes indices by a sort; for equal values, the order of the
            indices is undefined.
        random: True if the forward draws random numbers.
        coarse: The first operator that computes in half precision, and its line of the model:
            ``mm in bfloat16 (net.py:12)``.
        packed: The line of the model that packs padded rows into a nested tensor.
        largest: Size in bytes of the largest tensor that depends on the inputs.
        decisions: Key of a decision (its place, operator and call) → which sides were taken.
    """

    readings: list[Reading] = field(default_factory=list)
    table_rows: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    special: dict[str, set[float]] = field(default_factory=dict)
    boundaries: set[str] = field(default_factory=set)
    orders: bool = False
    random: bool = False
    coarse: str = ""
    packed: str = ""
    largest: int = 0
    decisions: dict[str, TakenSides] = field(default_factory=dict)

    @property
    def below(self) -> dict[str, int]:
        """Input name → exclusive upper bound of the values, for inputs that index a tensor."""
        # The embedding decides: an argmax over the same ids may index a shorter tensor.
        return {**self.classes, **self.table_rows}


class Observer(_DispatchMode):  # type: ignore[misc]  # its base is found at run time
    """Observes the operators of a forward, and tracks the tensors that depend on its inputs.

    The class is a dispatch mode, since some of torch's modules run other code under a function
    mode. A higher-order operator such as ``torch.cond`` counts as one operator.

    Args:
        kept: Keys of decisions whose operands are kept.
        limit: Seconds of processor time after which the forward raises TimeoutError.

    Attributes:
        observation: The result.
        operands: Key of a decision in ``kept`` → name and arguments of its operator.
    """

    # Without this, torch refuses to run torch.cond under a dispatch mode.
    supports_higher_order_operators = True

    def __init__(self, kept: Collection[str] = (), limit: float = math.inf) -> None:
        super().__init__()
        self.observation = Observation()
        self.operands: dict[str, tuple[str, Sequence[Any], Mapping[str, Any]]] = {}
        self._kept = kept
        self._limit = limit
        self._deadline = math.inf
        self._outer = 0
        self._calls: dict[str, int] = {}
        # While a weak reference exists, the address of a freed storage is not reused.
        self._sources: dict[int, tuple[StorageWeakRef, _Sources]] = {}

    @contextmanager
    def watch(self, inputs: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside the block, track the tensors that depend on these inputs."""
        for name, tensor in inputs.items():
            self._mark([tensor], _Sources(frozenset((name,)), frozenset((name,))))
        self._outer = id(sys._getframe(2))  # frame 1 is contextlib's
        # Processor time of this thread: wall time on a busy machine would end right runs.
        self._deadline = thread_time() + self._limit
        with _reporting_methods(self), self:
            yield

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one operator, and record on which inputs its result depends."""
        if thread_time() > self._deadline:
            raise TimeoutError(f"more than {self._limit:g} s of processor time")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tags = getattr(func, "tags", ())  # a higher-order operator has none
        self.observation.random |= torch.Tag.nondeterministic_seeded in tags
        sources = self._sources_of(_flatten((*args, *kwargs.values())))
        name, written, is_view = _schema(func)
        leaves = list(_flatten((result,)))
        if not sources.all or name in _SHAPE_ONLY:
            if not is_view:
                self._note_made(leaves)
            return result
        if name in _REDUCING:
            sources = sources._replace(elementwise=frozenset())
        for leaf in leaves if torch.Tag.dynamic_output_shape not in tags else leaves[:1]:
            if isinstance(leaf, bool | int | float | complex) or _finds_size(name, tags, args):
                self.read(leaf)
        if not self.observation.coarse and (coarse := _describe_coarse(func, name, leaves)):
            place = self._place()
            self.observation.coarse = f"{coarse} ({place})" if place else coarse
        changed = [args[position] for position in written if position < len(args)]
        floats = sources._replace(chosen=frozenset()) if sources.chosen else sources
        # The places of sorted values say nothing about the values.
        values = leaves[:1] if name in _ORDERING else leaves
        self._mark((*values, *_flatten(changed)), floats)
        self._mark(leaves[len(values) :], floats._replace(elementwise=frozenset()))
        # Without a dimension, max and min return no indices. Of equal integers, the first counts.
        is_defined = name in SELECTING and name != "topk" and not _is_float(args[0])
        if (
            name in _ORDERING
            and not is_defined
            and any(getattr(leaf, "dtype", None) == torch.int64 for leaf in leaves)
        ):
            self.observation.orders = True
        if name == "_nested_tensor_from_mask":
            self.observation.packed = self._place()
        if name in _COMPARING:
            self._note_special(name, args, result)
        if name in _BOUNDARIES:
            self.observation.boundaries |= self._sources_of([args[_BOUNDARIES[name]]]).all
        limits = self.observation.table_rows if name == "embedding" else self.observation.classes
        for indices, size in _look_ups(name, args):
            known = self._sources_of([indices])
            if known.chosen:
                self._note_look_up(name, args, indices, size, known.chosen)
                continue  # such an index says nothing about the range of the inputs
            for source in known.elementwise:
                limits[source] = min(limits.get(source, size), size)
        self._follow_choices(name, args, kwargs, leaves, sources)
        return result

    def _note_special(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Record the constants that an input is compared with; for integers, as a decision."""
        values, constants = args[0], _TIES if name == "round" else args[1]
        sources = self._sources_of([values]).elementwise
        if sources and name in _EQUALITY and not _is_float(values):
            # What follows is no decision of its own: most of it is masks of padding.
            self._add(name, args, {}, "condition", mark_truth("any", result))
        if isinstance(constants, torch.Tensor):
            few = constants.numel() <= _MAX_SPECIAL
            numbers = constants.flatten().tolist() if few and not self.depends(constants) else []
        else:
            numbers = [constants] if isinstance(constants, int | float) else [*constants]
        for source in sources:
            known = self.observation.special.setdefault(source, set())
            known.update(number for number in numbers if math.isfinite(number))

    def _follow_choices(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        leaves: Sequence[object],
        sources: _Sources,
    ) -> None:
        """Record the decision that an operator takes, and mark what it returns as chosen."""
        if sources.chosen and name not in _LOOKING_UP and any(map(_is_float, leaves)):
            self._use(sources.chosen, MAX_KINDS, MAX_PICKED)
        if name in STEPS:
            self._add(name, args, kwargs, "condition", mark_truth(name, args[0] > 0))
        discrete = [leaf for leaf in leaves if _is_dense(leaf) and not _is_float(leaf)]
        if not discrete:
            return
        # What a computed index reads is chosen only if it is read from a table.
        read = args[:1] if name in _READING and self.depends(args[0]) else ()
        chosen = self._sources_of(read or _flatten(args)).chosen
        if self._sources_of(x for x in _flatten(args) if _is_float(x)).all:
            chosen |= {""}
        if chosen:
            chosen = self._note_decision(name, args, kwargs, discrete[0], chosen)
            self._mark(discrete, sources._replace(chosen=chosen))

    def _note_decision(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Tensor,
        chosen: frozenset[str],
    ) -> frozenset[str]:
        """Record the sides that an operator took; return the keys of the result's decisions."""
        parents = chosen - {""}
        if name in SELECTING and _is_float(args[0]):
            dim = read_dim(name, args, kwargs)
            if dim is not None and args[0].dim():
                indices = mark_indices(result, args[0].shape[dim])
                key = self._add(name, args, kwargs, "choice", indices, used=False)
                self._sides(*key).picked = result.shape[dim] if name == "topk" else 1
                return key
        elif name == "torchvision::nms":
            suppressed = np.array([True, len(result) < len(args[0])])
            return self._add(name, args, kwargs, "suppression", suppressed)
        elif tests_for_nan(name, args):
            return frozenset()
        elif result.dtype == torch.bool and name in CONDITIONS:
            if choices := [key for key in parents if self._sides(key).kind == "choice"]:
                self._use(choices, None if name in ("eq", "ne") else MAX_KINDS)
                return chosen
            taken = mark_truth(name, result)
            return self._add(name, args, kwargs, "condition", taken, parents=parents)
        return chosen

    def _note_look_up(
        self, name: str, args: Sequence[Any], indices: Tensor, size: int, chosen: frozenset[str]
    ) -> None:
        """Record the rows that a computed index reads, and that the index's choice matters."""
        reference = _storage(args[0])
        is_table = reference is not None and reference.cdata not in self._sources
        # one_hot scatters a single index into each row.
        is_one_hot = name == "scatter" and indices.dim() and indices.shape[args[1]] == 1
        limit = None if is_table or is_one_hot else MAX_KINDS
        keys = chosen - {""}
        self._use(keys, limit, MAX_PICKED if name in _READING and not is_table else None)
        if (limit is None or size <= limit) and all(
            self._sides(key).taken.size != size for key in keys
        ):
            kind = "row" if is_table else "choice"
            self._add(name, args, {}, kind, mark_indices(indices, size), parents=keys)

    def _add(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        kind: str,
        taken: NumpyArray,
        *,
        parents: frozenset[str] = frozenset(),
        used: bool = True,
    ) -> frozenset[str]:
        place = self._place()
        call = self._calls[f"{place} {name}"] = self._calls.get(f"{place} {name}", -1) + 1
        key = f"{place} {name} {call}"
        self.observation.decisions[key] = TakenSides(place, kind, taken, parents, used)
        if key in self._kept:
            self.operands[key] = name, args, kwargs
        return frozenset((key,))

    def _sides(self, key: str) -> TakenSides:
        return self.observation.decisions[key]

    def _use(self, keys: Iterable[str], limit: int | None, picked: int | None = None) -> None:
        """Note that choices matter, unless they have more entries, or pick more, than allowed."""
        for sides in (self._sides(key) for key in keys if key):
            is_small = limit is None or sides.taken.size <= limit
            sides.used |= is_small and (picked is None or sides.picked <= picked)

    def note_outputs(self, outputs: Mapping[str, Tensor]) -> None:
        """Note which decisions are the model's outputs."""
        for name, tensor in outputs.items():
            chosen = self._sources_of([tensor]).chosen
            self._use(chosen, _MAX_CLASSES)
            for key in chosen:
                # Values that are computed from floats without a decision, as by rounding.
                rounded = TakenSides("", "value", np.ones(1, np.bool_), used=False)
                self.observation.decisions.setdefault(
                    key or f" output {name}", rounded
                ).output = name

    def depends(self, tensor: Tensor) -> bool:
        """Return True if a tensor depends on the inputs."""
        return bool(self._sources_of([tensor]).all)

    def read(self, value: object) -> None:
        """Record a value that Python reads, and the line of the model that reads it."""
        if place := self._place():
            if isinstance(value, torch.Tensor):
                text = f"size {[*value.shape]}"
            else:
                text = _abbreviate(value)
            self.observation.readings.append(Reading(place, text))

    def _place(self) -> str:
        """Return the line of the model that runs; empty in a file without Python code."""
        return model_line(sys._getframe(1), self._outer)

    def _note_made(self, values: Iterable[Any]) -> None:
        """Note tensors that the forward makes, which are no tables of the model."""
        for value in values:
            if (reference := _storage(value)) is not None:
                self._sources.setdefault(reference.cdata, (reference, _NO_SOURCES))

    def _mark(self, values: Iterable[Any], sources: _Sources) -> None:
        for value in values:
            if (reference := _storage(value)) is not None:
                size = value.untyped_storage().nbytes()
                self.observation.largest = max(self.observation.largest, size)
                _, known = self._sources.get(reference.cdata, (None, sources))
                self._sources[reference.cdata] = (reference, known.join(sources))

    def _sources_of(self, values: Iterable[object]) -> _Sources:
        sources = _NO_SOURCES
        for value in values:
            if (reference := _storage(value)) is not None and reference.cdata in self._sources:
                sources = sources.join(self._sources[reference.cdata][1])
        return sources


class _Sources(NamedTuple):
    """The names of the inputs on which a tensor depends, and on which without a reduction.

    Attributes:
        all: The names of all inputs.
        elementwise: The names of the inputs without a reduction in between.
        chosen: For discrete values that were computed from floats: the keys of their decisions, and
            an empty key if they were computed without one, as by rounding.
    """

    all: frozenset[str] = frozenset()
    elementwise: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()

    def join(self, other: _Sources) -> _Sources:
        if other is self or other is _NO_SOURCES:
            return self
        if self is _NO_SOURCES:
            return other
        return _Sources(*map(operator.or_, self, other))


_NO_SOURCES = _Sources()


#: The observer of the current thread.
_CURRENT: ContextVar[Observer | None] = ContextVar("_CURRENT", default=None)

#: The active observers of all threads, since the methods are replaced for all of them at once.
_active: list[Observer] = []
_LOCK = threading.Lock()


@contextmanager
def _reporting_methods(observer: Observer) -> Iterator[None]:
    """Report calls of ``tolist`` and ``numpy`` to the observer, since neither runs an operator."""
    token = _CURRENT.set(observer)
    with _LOCK:
        if not _active:
            for name in _METHODS:
                setattr(torch.Tensor, name, _reporting(getattr(torch.Tensor, name)))
        _active.append(observer)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        with _LOCK:
            _active.remove(observer)
            if not _active:
                for name, original in _METHODS.items():
                    delattr(torch.Tensor, name)
                    if original is not None:
                        setattr(torch.Tensor, name, original)


def _reporting(method: Callable[..., _T]) -> Callable[..., _T]:
    def reporting(self: Tensor, *args: object, **kwargs: object) -> _T:
        value = method(self, *args, **kwargs)
        observer = _CURRENT.get()
        # What the observer itself reads is no reading of the model.
        is_own = sys._getframe(1).f_globals.get("__name__", "").startswith("enginebay.state.")
        if observer is not None and not is_own and observer.depends(self):
            observer.read("by DLPack" if method.__name__ == "__dlpack__" else value)
        return value

    return reporting


def _finds_size(name: str, tags: Collection[object], args: Sequence[Any]) -> bool:
    """Return True if the size of an operator's result follows from values; not if from indices."""
    return torch.Tag.dynamic_output_shape in tags and (
        name != "index" or any(getattr(each, "dtype", None) == torch.bool for each in args[1])
    )


def _look_ups(name: str, args: Sequence[Any]) -> Iterator[tuple[Tensor, int]]:
    """Yield each index tensor among an operator's arguments, and the size of the indexed axis."""
    match name:
        case "embedding":
            yield args[1], args[0].shape[0]
        case "gather" | "index_select" | "scatter":  # torch's one-hot scatters
            # A 0-dimensional tensor has one value to index.
            yield args[2], args[0].shape[args[1]] if args[0].dim() else 1
        case "index":
            for indices, size in zip(args[1], args[0].shape, strict=False):
                # A boolean mask is not an index.
                if indices is not None and indices.dtype != torch.bool:
                    yield indices, size


def _describe_coarse(func: Any, name: str, results: Iterable[object]) -> str:
    """Describe an operator that computes in half precision; "" for casts, views and all others."""
    if name == "_to_copy" or getattr(func, "is_view", False):
        return ""
    dtypes = (result.dtype for result in results if isinstance(result, torch.Tensor))
    dtype = next((each for each in dtypes if each in (torch.bfloat16, torch.float16)), None)
    if dtype is None:
        return ""
    return f"{name} in {str(dtype).removeprefix('torch.')}"


# Cached: with _flatten(), this cut the cost of a ResNet-50 forward from 25 to 9 ms.
@cache
def _schema(func: Any) -> tuple[str, tuple[int, ...], bool]:
    """Return an operator's name, the positions of the arguments that it writes to, and if it views.

    The result of a view shares the memory of an argument.
    """
    schema = torch_private.schema_of(func)
    if schema is None:  # a higher-order operator
        return func.name(), (), False
    written = (n for n, argument in enumerate(schema.arguments) if argument.is_write)
    is_view = any(result.alias_info is not None for result in schema.returns)
    return schema.name.removeprefix("aten::").rstrip("_"), tuple(written), is_view


def _is_dense(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested


def _is_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _flatten(values: Iterable[object]) -> Iterator[object]:
    # Not torch's pytree, which takes ten times as long.
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flatten(value)
        else:
            yield value


def _storage(value: object) -> StorageWeakRef | None:
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]  # torch's is untyped
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return None


def _abbreviate(value: object) -> str:
    text = repr(value.tobytes() if isinstance(value, np.ndarray) else value)
    # The checksum distinguishes long values that begin alike.
    return text if len(text) <= 40 else f"{text[:30]}… (crc32 {crc32(text.encode()):08x})"
