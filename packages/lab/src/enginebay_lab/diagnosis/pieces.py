"""Pieces of a model: submodels that each run one call of a module.

Imported only when torch is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from enginebay_lab.diagnosis.intermediate_outputs import find_tensors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors.sources import Call


class ComputedTensor(NamedTuple):
    """A tensor that a piece (submodel) returns, or passes to a submodule that is not run.

    Attributes:
        tensor: The tensor object. If it was passed to a submodule, the piece may have changed it in
            place since then.
        value: A tensor with the values that were returned or passed, before any such change.
    """

    tensor: Tensor
    value: Tensor


class InnerCall(NamedTuple):
    """A submodule call that a piece (submodel) does not run: the piece gets the result as an input.

    Attributes:
        module: The called module.
        result: The call's result in the model, with a placeholder for each tensor.
        tensors: The tensors of the result.
    """

    module: nn.Module
    result: Call
    tensors: tuple[Tensor, ...]


class InnerCalls:
    """Replays the submodule calls that a piece (submodel) does not run.

    The piece gets the results of these calls as inputs.

    Args:
        calls: The recorded calls, in the order in which the piece makes them.
    """

    def __init__(self, calls: Sequence[InnerCall] = ()) -> None:
        self._calls = tuple(calls)
        self.begin_run(())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the recorded calls returned when the whole model ran."""
        return tuple(tensor for call in self._calls for tensor in call.tensors)

    def strip_module(self, module: nn.Module) -> nn.Module:
        """Return a copy of a module in which stand-ins replace the submodules that are not run.

        Args:
            module: The piece's module, which is not changed; the copy shares the weights.
        """
        stand_ins = {call.module: StandIn(call.module, self) for call in self._calls}
        return _copy_with(module, dict(stand_ins)) if stand_ins else module

    def begin_run(self, tensors: Sequence[Tensor], *, writes: bool = False) -> list[ComputedTensor]:
        """Begin a run of the piece (submodel), in which the recorded calls return ``tensors``.

        The recorded calls are the submodule calls that the piece does not run.

        Args:
            tensors: The tensors to return: the results of all recorded calls, in order.
            writes: True if the piece may change in place an argument of a recorded call.

        Returns:
            An empty list, to which the run appends each tensor argument of the recorded calls.
        """
        self._remaining, self._results = iter(self._calls), iter(tensors)
        self._writes = writes
        self._passed: list[ComputedTensor] = []
        return self._passed

    def replay_call(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Store a call's tensor arguments; return the call's result without running the module.

        Raises:
            RuntimeError: The next recorded call is a call of another module.
        """
        call = next(self._remaining, None)
        if call is None or call.module is not module:
            raise RuntimeError(
                "run separately, the module calls different submodules than in the whole model"
            )
        for tensor in find_tensors((args, kwargs)):
            self._passed += [ComputedTensor(tensor, tensor.clone() if self._writes else tensor)]
        (result,), _ = call.result.fill([next(self._results) for _ in call.tensors])
        return result


class StandIn(nn.Module):
    """Replaces a module: returns stored results, and has the attributes of the replaced module.

    Args:
        module: The replaced module.
        calls: The submodule calls of the piece (submodel), with the stored results.
    """

    def __init__(self, module: nn.Module, calls: InnerCalls) -> None:
        super().__init__()
        # In a tuple: torch would register a plain attribute, and with it the module's weights.
        self.replaced = (module,)
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the replaced module."""
        # If `replaced` is not set yet, self.replaced would call this method again, without end.
        return getattr(vars(self)["replaced"][0], name)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Return the stored result of the replaced module's next call."""
        return self.calls.replay_call(self.replaced[0], args, kwargs)


def _copy_with(module: nn.Module, copies: dict[nn.Module, nn.Module]) -> nn.Module:
    """Return a copy of a module in which some submodules are replaced.

    ``copies`` maps each of these submodules to the replacement. Other submodules with children are
    copied too; submodules without children are shared with the original module.
    """
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
    """A submodel that runs one call of a module without the rest of the model.

    Attributes:
        path: The module's path; empty for the model itself.
        number: The index of the call among the module's calls, from 0.
        module: The module, in which stand-ins replace the submodules that are not run.
        call: The arguments, with a placeholder for each tensor.
        own_tensors: The tensors of the arguments.
        leaves: The tensors to compare, as indices into the list that :meth:`run` returns.
        inner: The calls of submodules that the piece does not run.
        writes: True if the piece may change in place one of its inputs, or an argument of a call
            in ``inner``.
    """

    path: str
    number: int
    module: nn.Module
    call: Call
    own_tensors: tuple[Tensor, ...]
    leaves: tuple[int, ...] = ()
    # Pieces without inner calls share this object: pieces run one after the other.
    inner: InnerCalls = InnerCalls()
    writes: bool = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All input tensors: the arguments' tensors, then those that ``inner`` calls return."""
        return (*self.own_tensors, *self.inner.tensors)

    def run(
        self, tensors: Sequence[Tensor], module: nn.Module | None = None
    ) -> list[ComputedTensor]:
        """Run the piece on input tensors.

        Args:
            tensors: The inputs, in the order of :attr:`tensors`.
            module: The module to run instead of :attr:`module`, such as a rewritten copy.

        Returns:
            The tensors that the piece passes to calls in :attr:`inner`, then the tensors of the
            result.

        Raises:
            RuntimeError: The module does not make the calls in :attr:`inner` in the same order.
        """
        count = len(self.own_tensors)
        args, kwargs = self.call.fill(tensors[:count])
        passed = self.inner.begin_run(tensors[count:], writes=self.writes)
        result = (module or self.module)(*args, **kwargs)
        return [*passed, *(ComputedTensor(tensor, tensor) for tensor in find_tensors(result))]


class SideBySide(nn.Module):
    """A model that combines several pieces (submodels), so that one engine can run all of them.

    Args:
        pieces: The pieces to run; a called module comes before the module that calls it.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__()
        # named_modules() lists a module under its first path, which is pieces.N for each of them.
        self.pieces = nn.ModuleList(piece.module for piece in pieces)
        self.calls = tuple(pieces)
        # Not eval(), which would also change the modes of the pieces' modules.
        self.training = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The input tensors of all pieces, in order."""
        return tuple(tensor for piece in self.calls for tensor in piece.tensors)

    @property
    def names(self) -> list[str]:
        """The names of the outputs of all pieces, in order."""
        return [name for index in range(len(self.calls)) for name in self.piece_output_names(index)]

    def piece_output_names(self, index: int) -> list[str]:
        """Return the output names of one piece, such as ``piece_3_0`` for output 0 of piece 3."""
        return [f"piece_{index}_{leaf}" for leaf in self.calls[index].leaves]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run each piece on its part of the tensors, and return the outputs of all pieces."""
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
    """Return the paths of a module's parents, the outermost first, without the model itself.

    Example:
        >>> list(parent_paths("body.0.conv"))
        ['body', 'body.0']
    """
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
