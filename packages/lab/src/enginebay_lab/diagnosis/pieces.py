"""Pieces of a model, each alone: a call of a module, fed with what it got in PyTorch.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from enginebay_lab.diagnosis.taps import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors import Call


class InnerCall(NamedTuple):
    """A call inside of a piece that is another piece: its result is an input of this one.

    Attributes:
        module: The module that is called.
        paths: Where it is in the piece's own module; none where it is not registered there.
        result: What it returned, with slots for the tensors.
        tensors: These tensors.
    """

    module: nn.Module
    paths: tuple[str, ...]
    result: Call
    tensors: tuple[Tensor, ...]


class Piece(NamedTuple):
    """A call of a module.

    Attributes:
        path: The module's path.
        number: The number of the call.
        module: The module.
        call: Its arguments, with slots for the tensors.
        own: Its tensors.
        leaves: Which tensors are compared: of those that it passes to inner calls, and then of its
            result.
        inner: Calls that are cut out of it, in order.
    """

    path: str
    number: int
    module: nn.Module
    call: Call
    own: tuple[Tensor, ...]
    leaves: tuple[int, ...] = ()
    inner: tuple[InnerCall, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that it is fed with: its own tensors, and the results of the inner calls."""
        return (*self.own, *(tensor for call in self.inner for tensor in call.tensors))

    def run(self, module: nn.Module, tensors: Sequence[Tensor]) -> list[Result]:
        """Run it.

        Args:
            module: The module, or what a rewriter has put in its place.
            tensors: In the order of :attr:`tensors`.

        Raises:
            RuntimeError: It makes other inner calls than those that are cut out of it.
        """
        count = len(self.own)
        args, kwargs = self.call.fill(tensors[:count])
        with _cut_out(module, self.inner, tensors[count:]) as passed:
            found = module(*args, **kwargs)
        return [*passed, *(Result(tensor, tensor) for tensor in tensors_in(found))]


class Result(NamedTuple):
    """A tensor that a piece computes.

    Attributes:
        tensor: The tensor itself, which the piece may have written into afterwards.
        value: The tensor as it was when it left the piece.
    """

    tensor: Tensor
    value: Tensor


@contextmanager
def _cut_out(
    module: nn.Module, inner: Sequence[InnerCall], tensors: Sequence[Tensor]
) -> Iterator[list[Result]]:
    """Inside the block the inner calls return these tensors, and what they get is recorded."""
    passed: list[Result] = []
    calls, results = iter(inner), iter(tensors)

    def stand_in(called: nn.Module) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            call = next(calls, None)
            if call is None or call.module is not called:
                raise RuntimeError("the module calls others than in its model")
            given = tensors_in((args, kwargs))
            passed.extend(Result(tensor, tensor.clone()) for tensor in given)
            (result,), _ = call.result.fill([next(results) for _ in call.tensors])
            return result

        return forward

    with ExitStack() as stack:
        for call in {id(call.module): call for call in inner}.values():
            # By its path: a rewriter may have put another module there.
            places = [module.get_submodule(path) for path in call.paths] or [call.module]
            for place in dict.fromkeys(places):
                stack.callback(_put_back, place, vars(place).get("forward"))
                vars(place)["forward"] = stand_in(call.module)
        yield passed


def _put_back(module: nn.Module, forward: Any) -> None:
    if forward is None:
        del vars(module)["forward"]
    else:
        vars(module)["forward"] = forward


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
            # Copies, since a module may write into what it gets.
            found = piece.run(module, [next(tensors).clone() for _ in piece.tensors])
            for leaf in piece.leaves:
                yield found[leaf].value.clone()  # two outputs must not be one tensor


def ancestors(path: str) -> Collection[str]:
    """The paths of the modules around a module, the model itself left out.

    Example:
        >>> list(ancestors("body.0.conv"))
        ['body', 'body.0']
    """
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
