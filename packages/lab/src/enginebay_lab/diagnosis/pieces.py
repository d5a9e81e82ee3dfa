"""Pieces of a model, each alone: a call of a module, fed with what it got in PyTorch.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from enginebay_lab.diagnosis.taps import tensors_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors import Call


class Result(NamedTuple):
    """A tensor that a piece computes.

    Attributes:
        tensor: The tensor itself, which the piece may have written into afterwards.
        value: The tensor as it was when it left the piece.
    """

    tensor: Tensor
    value: Tensor


class InnerCall(NamedTuple):
    """A call inside of a piece that is another piece: its result is an input of this one.

    Attributes:
        module: The module that is called.
        result: What it returned, with slots for the tensors.
        tensors: These tensors.
    """

    module: nn.Module
    result: Call
    tensors: tuple[Tensor, ...]


class InnerCalls:
    """The calls that are cut out of a piece: they return tensors that the piece is fed with.

    Args:
        calls: The calls, in order.
    """

    def __init__(self, calls: Sequence[InnerCall] = ()) -> None:
        self._calls = tuple(calls)
        self.begin(())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What they returned in the model."""
        return tuple(tensor for call in self._calls for tensor in call.tensors)

    def shell(self, module: nn.Module) -> nn.Module:
        """A module without these calls, and without the weights of what they call.

        Args:
            module: The piece's module, which stays as it is.
        """
        called = {call.module: StandIn(call.module, self) for call in self._calls}
        return _shell(module, dict(called)) if called else module

    def begin(self, tensors: Sequence[Tensor], *, writes: bool = False) -> list[Result]:
        """Begin a run.

        Args:
            tensors: What the calls return.
            writes: True if the piece may write into what it passes to them.

        Returns:
            What the piece passes to them; filled by the run.
        """
        self._left, self._results = iter(self._calls), iter(tensors)
        self._writes = writes
        self._passed: list[Result] = []
        return self._passed

    def answer(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Record what a call gets, and return what it returned in the model.

        Raises:
            RuntimeError: It is another call than in the model.
        """
        call = next(self._left, None)
        if call is None or call.module is not module:
            raise RuntimeError("the module calls others than in its model")
        for tensor in tensors_in((args, kwargs)):
            self._passed += [Result(tensor, tensor.clone() if self._writes else tensor)]
        (result,), _ = call.result.fill([next(self._results) for _ in call.tensors])
        return result


class StandIn(nn.Module):
    """Stands where a module is that is cut out; what is no call goes to the module itself.

    Args:
        module: The module.
        calls: Answers its calls.
    """

    def __init__(self, module: nn.Module, calls: InnerCalls) -> None:
        super().__init__()
        # In a tuple, so that its weights are none of the piece's.
        self.replaced = (module,)
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        """An attribute of the module."""
        return getattr(vars(self)["replaced"][0], name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returned in the model."""
        return self.calls.answer(self.replaced[0], args, kwargs)


def _shell(module: nn.Module, copies: dict[nn.Module, nn.Module]) -> nn.Module:
    """A copy of a module with others in it; a module without children is shared."""
    if module not in copies:
        copies[module] = module
        if module._modules:
            # By hand: a parametrised module refuses to be copied, an fx module makes a new class.
            copies[module] = shell = object.__new__(type(module))
            children = module._modules.items()
            inside = {name: child and _shell(child, copies) for name, child in children}
            vars(shell).update(vars(module), _modules=inside)
    return copies[module]


class Piece(NamedTuple):
    """A call of a module.

    Attributes:
        path: The module's path.
        number: The number of the call.
        module: The module, without those whose calls are cut out.
        call: Its arguments, with slots for the tensors.
        own: Its tensors.
        leaves: Which tensors are compared: of those that it passes to inner calls, and then of its
            result.
        inner: The calls that are cut out of it.
        writes: True if it may write into tensors that it gets or passes on.
    """

    path: str
    number: int
    module: nn.Module
    call: Call
    own: tuple[Tensor, ...]
    leaves: tuple[int, ...] = ()
    inner: InnerCalls = InnerCalls()
    writes: bool = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that it is fed with: its own tensors, and the results of the inner calls."""
        return (*self.own, *self.inner.tensors)

    def run(self, tensors: Sequence[Tensor], module: nn.Module | None = None) -> list[Result]:
        """Run it.

        Args:
            tensors: In the order of :attr:`tensors`.
            module: What a rewriter has put in its module's place.

        Raises:
            RuntimeError: It makes other inner calls than those that are cut out of it.
        """
        count = len(self.own)
        args, kwargs = self.call.fill(tensors[:count])
        passed = self.inner.begin(tensors[count:], writes=self.writes)
        found = (module or self.module)(*args, **kwargs)
        return [*passed, *(Result(tensor, tensor) for tensor in tensors_in(found))]


class SideBySide(nn.Module):
    """Runs pieces side by side, each on its own inputs: one engine measures them all.

    Args:
        pieces: The pieces; one comes before those around it, so that its path is ``pieces.N``.
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
        return [name for index in range(len(self.calls)) for name in self.names_of(index)]

    def names_of(self, index: int) -> list[str]:
        """The names of those of one piece: ``piece_3_0``."""
        return [f"piece_{index}_{leaf}" for leaf in self.calls[index].leaves]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run every piece, and return the tensors that are compared."""
        return tuple(self._results(iter(tensors)))

    def _results(self, tensors: Iterator[Tensor]) -> Iterator[Tensor]:
        for module, piece in zip(self.pieces, self.calls, strict=True):
            given = [next(tensors) for _ in piece.tensors]
            copies = [one.clone() for one in given] if piece.writes else given
            found = piece.run(copies, module)
            for leaf in piece.leaves:
                value = found[leaf].value
                # Two outputs must not be one tensor, and an output no input.
                yield value.clone() if any(value is known for known in given) else value
                given.append(value)


def ancestors(path: str) -> Collection[str]:
    """The paths of the modules around a module, the model itself left out.

    Example:
        >>> list(ancestors("body.0.conv"))
        ['body', 'body.0']
    """
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
