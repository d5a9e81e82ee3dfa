"""Observation of a forward pass: what of it depends on the inputs, operator by operator.

A value that Python has read can select a branch or become a constant, and then an exported graph is
right for that value only. This file imports torch at its top, since a class derives from torch's.
"""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING, Any

import torch

from enginebay import torch_private
from enginebay.ir import model_line
from enginebay.state.decision_recording import DecisionRecorder, is_float_tensor
from enginebay.state.python_readings import Reading, read_at, reporting_methods
from enginebay.state.taken_sides import SELECTING, TakenSides, mark_truth
from enginebay.state.tensor_sources import Sources, TensorSources, flatten
from enginebay.verdict import HalfPrecision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from enginebay.torch_private import OpOverload

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

#: Operators that compute with integers or move them, beside views and those with a tag of torch.
_MOVING = frozenset(("_to_copy", "copy", "cat", "stack", "floor_divide"))

#: Operators whose result says nothing about the range of its input: the sum of a mask may be an
#: index, and the mask is none.
_REDUCING = frozenset(
    (
        *("sum", "mean", "prod", "cumsum", "count_nonzero", "nonzero", "any", "all"),
        *("argmax", "argmin", "argsort", "eq", "ne", "gt", "ge", "lt", "le", "isin"),
    )
)


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
        half_precision: The first operator that computes in half precision.
        packed: The line of the model that packs padded rows into a nested tensor.
        positions: Names of inputs that are not only computed with in 64-bit integers: a size, an
            index or a float may follow from them.
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
    half_precision: HalfPrecision | None = None
    packed: str = ""
    positions: set[str] = field(default_factory=set)
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
        self._sources = TensorSources()
        self._decisions = DecisionRecorder(self._sources, self._place, kept)
        self.observation = Observation(decisions=self._decisions.decisions)
        self.operands = self._decisions.operands
        self._limit = limit
        self._deadline = math.inf
        self._outer = 0

    @contextmanager
    def watch(self, inputs: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside the block, track the tensors that depend on these inputs."""
        for name, tensor in inputs.items():
            self._sources.mark([tensor], Sources(frozenset((name,)), frozenset((name,))))
        self._outer = id(sys._getframe(2))  # frame 1 is contextlib's
        torch_private.import_torch()  # which the first run under a mode would do, in its own time
        # Processor time of this thread: wall time on a busy machine would end right runs.
        self._deadline = thread_time() + self._limit
        with reporting_methods(self), self:
            yield
        self.observation.largest = self._sources.largest

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
        sources = self._sources.find(flatten((*args, *kwargs.values())))
        name, written, is_view = _schema(func)
        leaves = list(flatten((result,)))
        if not sources.all or name in _SHAPE_ONLY:
            if not is_view:
                self._sources.note_made(leaves)
            return result
        if not (is_view or name in _MOVING or torch.Tag.pointwise in tags) or any(
            getattr(leaf, "dtype", None) not in (torch.int64, torch.bool) for leaf in leaves
        ):
            self.observation.positions |= sources.all
        if name in _REDUCING:
            sources = sources._replace(elementwise=frozenset())
        self._note_readings(name, tags, args, leaves)
        if not self.observation.half_precision and (dtype := _half_precision(func, name, leaves)):
            self.observation.half_precision = HalfPrecision(name, dtype, self._place())
        changed = [args[position] for position in written if position < len(args)]
        floats = sources._replace(chosen=frozenset()) if sources.chosen else sources
        # The places of sorted values say nothing about the values.
        values = leaves[:1] if name in _ORDERING else leaves
        self._sources.mark((*values, *flatten(changed)), floats)
        self._sources.mark(leaves[len(values) :], floats._replace(elementwise=frozenset()))
        # Without a dimension, max and min return no indices. Of equal integers, the first counts.
        is_defined = name in SELECTING and name != "topk" and not is_float_tensor(args[0])
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
            self.observation.boundaries |= self._sources.find([args[_BOUNDARIES[name]]]).all
        limits = self.observation.table_rows if name == "embedding" else self.observation.classes
        for indices, size in _look_ups(name, args):
            known = self._sources.find([indices])
            if known.chosen:
                self._decisions.note_look_up(name, args, indices, size, known.chosen)
                continue  # such an index says nothing about the range of the inputs
            for source in known.elementwise:
                limits[source] = min(limits.get(source, size), size)
        self._decisions.follow_choices(name, args, kwargs, leaves, sources)
        return result

    def _note_readings(
        self, name: str, tags: Collection[object], args: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Record the numbers that an operator returns to Python, and the size that it finds."""
        for result in results:
            if isinstance(result, bool | int | float | complex):
                self.read(result)
        if _finds_size(name, tags, args):
            self.read(results[0].shape)

    def _note_special(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Record the constants that an input is compared with; for integers, as a decision."""
        values, constants = args[0], _TIES if name == "round" else args[1]
        sources = self._sources.find([values]).elementwise
        if sources and name in _EQUALITY and not is_float_tensor(values):
            # What follows is no decision of its own: most of it is masks of padding.
            self._decisions.add(name, args, {}, "condition", mark_truth("any", result))
        if isinstance(constants, torch.Tensor):
            few = constants.numel() <= _MAX_SPECIAL
            numbers = constants.flatten().tolist() if few and not self.depends(constants) else []
        else:
            numbers = [constants] if isinstance(constants, int | float) else [*constants]
        for source in sources:
            known = self.observation.special.setdefault(source, set())
            known.update(number for number in numbers if math.isfinite(number))

    def note_outputs(self, outputs: Mapping[str, Tensor]) -> None:
        """Note which decisions are the model's outputs."""
        self._decisions.note_outputs(outputs)

    def depends(self, tensor: Tensor) -> bool:
        """Return True if a tensor depends on the inputs."""
        return bool(self._sources.find([tensor]).all)

    def read(self, value: object) -> None:
        """Record a value that Python reads, and the line of the model that reads it."""
        if place := self._place():
            self.observation.readings.append(read_at(place, value))

    def _place(self) -> str:
        """Return the line of the model that runs; empty in a file without Python code."""
        return model_line(sys._getframe(1), self._outer)


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


def _half_precision(func: Any, name: str, results: Iterable[object]) -> str:
    """Name the dtype of an operator in half precision; "" for casts, views and all others."""
    if name == "_to_copy" or getattr(func, "is_view", False):
        return ""
    dtypes = (result.dtype for result in results if isinstance(result, torch.Tensor))
    dtype = next((each for each in dtypes if each in (torch.bfloat16, torch.float16)), None)
    return str(dtype).removeprefix("torch.") if dtype else ""


# Cached: with flatten(), this cut the cost of a ResNet-50 forward from 25 to 9 ms.
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
