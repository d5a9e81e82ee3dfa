"""Pieces of a model: a piece is one call of a module, run alone on PyTorch's tensors.

Imported only when torch is used: the class requires it at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from enginebay_lab.diagnosis.intermediate_outputs import find_tensors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors import Call


class ComputedTensor(NamedTuple):
    """A tensor that a piece computes.

    Attributes:
        tensor: The tensor itself, which the piece may have changed in place afterwards.
        value: The tensor's value when it left the piece.
    """

    tensor: Tensor
    value: Tensor


class InnerCall(NamedTuple):
    """A call inside a piece that is a separate piece: its result is an input of the outer piece.

    Attributes:
        module: The module that is called.
        result: The call's result in the model, with slots for the tensors.
        tensors: The tensors of the result.
    """

    module: nn.Module
    result: Call
    tensors: tuple[Tensor, ...]


class InnerCalls:
    """The calls that are cut out of a piece: the piece gets their results as inputs.

    Args:
        calls: The calls, in order.
    """

    def __init__(self, calls: Sequence[InnerCall] = ()) -> None:
        self._calls = tuple(calls)
        self.begin_run(())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the calls returned in the model."""
        return tuple(tensor for call in self._calls for tensor in call.tensors)

    def strip_module(self, module: nn.Module) -> nn.Module:
        """Return a copy of a module without the called modules and their weights.

        Args:
            module: The piece's module, which is not changed.
        """
        stand_ins = {call.module: StandIn(call.module, self) for call in self._calls}
        return _copy_with(module, dict(stand_ins)) if stand_ins else module

    def begin_run(self, tensors: Sequence[Tensor], *, writes: bool = False) -> list[ComputedTensor]:
        """Begin a run of the piece.

        Args:
            tensors: The tensors that the recorded calls return, in place of running them.
            writes: True if the piece may change its calls' arguments in place.

        Returns:
            A list, empty at first: the run adds each tensor that the piece passes to a call.
        """
        self._remaining, self._results = iter(self._calls), iter(tensors)
        self._writes = writes
        self._passed: list[ComputedTensor] = []
        return self._passed

    def replay_call(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Record a call's arguments, and return the call's result in the model.

        Raises:
            RuntimeError: The model does not make this call at this point.
        """
        call = next(self._remaining, None)
        if call is None or call.module is not module:
            raise RuntimeError("the module's inner calls differ from those in its model")
        for tensor in find_tensors((args, kwargs)):
            self._passed += [ComputedTensor(tensor, tensor.clone() if self._writes else tensor)]
        (result,), _ = call.result.fill([next(self._results) for _ in call.tensors])
        return result


class StandIn(nn.Module):
    """Replaces a module that is cut out: calls are replayed, attributes are the module's own.

    Args:
        module: The module.
        calls: The recorded calls.
    """

    def __init__(self, module: nn.Module, calls: InnerCalls) -> None:
        super().__init__()
        # In a tuple: torch would register a plain attribute, and with it the module's weights.
        self.replaced = (module,)
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the replaced module."""
        return getattr(vars(self)["replaced"][0], name)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Return the replaced module's result in the model."""
        return self.calls.replay_call(self.replaced[0], args, kwargs)


def _copy_with(module: nn.Module, copies: dict[nn.Module, nn.Module]) -> nn.Module:
    """Copy a module with replacements inside; modules without children are shared."""
    if module not in copies:
        copies[module] = module
        if module._modules:
            # Without copy(): a parametrized module refuses it, and an fx module makes a new class.
            copies[module] = copied = object.__new__(type(module))
            children = module._modules.items()
            inside = {name: child and _copy_with(child, copies) for name, child in children}
            vars(copied).update(vars(module), _modules=inside)
    return copies[module]


class Piece(NamedTuple):
    """A call of a module.

    Attributes:
        path: The module's path.
        number: The number of the call.
        module: The module, without the modules whose calls are cut out.
        call: The arguments, with slots for the tensors.
        own_tensors: The tensors of the arguments.
        leaves: The indices of the compared tensors, among the tensors that it passes to inner
            calls, followed by those of its result.
        inner: The calls that are cut out of it.
        writes: True if it may change tensors in place that it gets or passes on.
    """

    path: str
    number: int
    module: nn.Module
    call: Call
    own_tensors: tuple[Tensor, ...]
    leaves: tuple[int, ...] = ()
    inner: InnerCalls = InnerCalls()
    writes: bool = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All inputs: its own tensors, and the results of the inner calls."""
        return (*self.own_tensors, *self.inner.tensors)

    def run(
        self, tensors: Sequence[Tensor], module: nn.Module | None = None
    ) -> list[ComputedTensor]:
        """Run the piece.

        Args:
            tensors: The inputs, in the order of :attr:`tensors`.
            module: The module that a rewriter has put in place of the piece's own.

        Raises:
            RuntimeError: Its inner calls differ from those that are cut out of it.
        """
        count = len(self.own_tensors)
        args, kwargs = self.call.fill(tensors[:count])
        passed = self.inner.begin_run(tensors[count:], writes=self.writes)
        result = (module or self.module)(*args, **kwargs)
        return [*passed, *(ComputedTensor(tensor, tensor) for tensor in find_tensors(result))]


class SideBySide(nn.Module):
    """Runs pieces side by side, each on its own inputs, so that one engine runs all of them.

    Args:
        pieces: The pieces, inner ones before those around them, so that each has a path
            ``pieces.N``.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__()
        self.pieces = nn.ModuleList(piece.module for piece in pieces)
        self.calls = tuple(pieces)
        self.training = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The inputs of every piece."""
        return tuple(tensor for piece in self.calls for tensor in piece.tensors)

    @property
    def names(self) -> list[str]:
        """The names of all tensors that are compared."""
        return [name for index in range(len(self.calls)) for name in self.piece_output_names(index)]

    def piece_output_names(self, index: int) -> list[str]:
        """Return the names of one piece's compared tensors: ``piece_3_0``."""
        return [f"piece_{index}_{leaf}" for leaf in self.calls[index].leaves]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run every piece, and return the tensors that are compared."""
        return tuple(self._run_pieces(iter(tensors)))

    def _run_pieces(self, tensors: Iterator[Tensor]) -> Iterator[Tensor]:
        for module, piece in zip(self.pieces, self.calls, strict=True):
            known = [next(tensors) for _ in piece.tensors]
            copies = [tensor.clone() for tensor in known] if piece.writes else known
            results = piece.run(copies, module)
            for leaf in piece.leaves:
                value = results[leaf].value
                # The outputs must be distinct tensors, and none of them an input.
                yield value.clone() if any(value is other for other in known) else value
                known.append(value)


def parent_paths(path: str) -> Collection[str]:
    """Return the paths of the modules around a module, without the model itself.

    Example:
        >>> list(parent_paths("body.0.conv"))
        ['body', 'body.0']
    """
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
