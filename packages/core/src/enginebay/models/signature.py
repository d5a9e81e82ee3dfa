"""Signature of a model: its inputs and outputs by name, and the arguments of its forward.

Inputs get the names of the parameters of ``forward``, outputs the keys of the returned dict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from enginebay import torch_private
from enginebay.errors import InputError, ModelError, first_line
from enginebay.ir import format_raising_line
from enginebay.models.forward_arguments import Call, bind_arguments, find_misspelled_input
from enginebay.sources import forward_parameters
from enginebay.state import copy_detached, evaluation, output_tensors
from enginebay.tensors import TensorSpec, choose_unused_name, is_cache, rename_tensors, specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor, nn

    from enginebay.state import Observation, Observer

_T = TypeVar("_T")

#: The hint for a function that builds a model from arguments.
_FACTORY = (
    "a function with arguments is used as the model; pass the name of a function that takes no "
    "arguments and returns the model"
)


@dataclass(frozen=True)
class Signature:
    """A model's inputs and outputs, recorded in one forward pass.

    Attributes:
        inputs: Names, dtypes and sizes of the example inputs.
        outputs: Names, dtypes and sizes of the outputs for the example inputs.
        example_inputs: Detached copies of the example inputs, by name.
        example_outputs: Detached copies of the outputs for the example inputs, by name.
        output_paths: The paths of all tensors in the value that ``forward`` returns.
        positions: The position of each output among ``output_paths``.
        call: The arguments of ``forward``, with a placeholder (slot) for each input.
        notes: Messages for the user about constant arguments and left-out outputs.
        observation: What was observed in the pass, such as the values that Python code read.
        returns_only_tensors: True if ``forward`` returns no number, text or None.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    example_inputs: dict[str, Tensor]
    example_outputs: dict[str, Tensor]
    output_paths: tuple[str, ...]
    positions: tuple[int, ...]
    call: Call
    notes: tuple[str, ...] = ()
    observation: Observation | None = None
    returns_only_tensors: bool = True

    def run(
        self,
        model: nn.Module,
        inputs: Mapping[str, Tensor],
        observer: Observer | None = None,
        *,
        gradients: bool = False,
    ) -> dict[str, Tensor]:
        """Run one forward pass in evaluation mode; return outputs by name.

        Args:
            model: The model.
            inputs: The inputs by name.
            observer: Observes the forward pass.
            gradients: True to compute values from which autograd leads back to the inputs. The
                outputs are detached in any case.

        Raises:
            InputError: An input is missing or unknown.
            ModelError: The forward raised, or returned more or fewer outputs than for the example.
        """
        names = [spec.name for spec in self.inputs]
        if set(names) != set(inputs):
            raise InputError(
                f"wrong inputs: expected {', '.join(names)}, found {', '.join(inputs)}"
            )
        ordered = {name: inputs[name] for name in names}
        module = torch_private.unwrap_compiled_module(model)
        result, _ = _forward(module, self.call, ordered, observer, gradients=gradients)
        tensors = self._choose_outputs(result)
        named = {spec.name: each for spec, each in zip(self.outputs, tensors, strict=True)}
        if observer:
            observer.note_outputs(named)
        return {name: copy_detached(tensor) for name, tensor in named.items()}

    @contextmanager
    def runner(self, model: nn.Module) -> Iterator[Callable[[Sequence[Tensor]], list[Tensor]]]:
        """Prepare the model for many runs: evaluation mode is set only once.

        Yields:
            A function from the inputs to the outputs, both in order. The outputs may share memory
            with the model's own tensors, which the next run may overwrite.
        """
        import torch

        module = torch_private.unwrap_compiled_module(model)

        def run(inputs: Sequence[Tensor]) -> list[Tensor]:
            tensors = list(inputs)
            for index in self.call.mutated:
                tensors[index] = copy_detached(tensors[index])
            args, kwargs = self.call.fill(tensors)
            with torch.no_grad():
                result = _call_model(module, args, kwargs)
            # A fast path for most models, which matters in loops over small items.
            if len(self.outputs) == 1 and isinstance(result, torch.Tensor):
                return [result]
            return self._choose_outputs(result)

        with torch.inference_mode(mode=False), evaluation(module):
            yield run

    def _choose_outputs(self, result: object) -> list[Tensor]:
        tensors = output_tensors(result, self.output_paths, caches=self.call.caches)
        return [tensors[position] for position in self.positions]


def read_signature(
    model: nn.Module,
    args: object,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    expected_outputs: Sequence[str] | None = None,
    timeout: float = math.inf,
) -> Signature:
    """Run a model once on its example inputs, and name its inputs and outputs.

    Args:
        model: The model. Its parameters, its mode and the example inputs stay unchanged.
        args: The example inputs: a tensor; a tuple or list of positional arguments, whose last
            entry may be a dict of keyword arguments; or a dict by parameter name. Arguments may be
            nested; values other than tensors and NumPy arrays stay constant.
        input_names: One name per input tensor; by default the parameter names.
        output_names: One name per output tensor; by default the keys of the result.
        expected_outputs: Names of the outputs to choose, by name or, if there are as many, in
            order; the tensors of caches are outputs if these are expected.
        timeout: Seconds of processor time that the run may take.

    Raises:
        InputError: The example inputs do not match ``forward``, or the names are invalid.
        ModelError: The forward raised, or returned no tensor.
    """
    from enginebay.state import Observer

    call, inputs = bind_arguments(torch_private.unwrap_compiled_module(model), args)
    copies = {name: copy_detached(tensor) for name, tensor in inputs.items()}
    inputs = rename_tensors("input", copies, input_names)
    observer = Observer(limit=timeout)
    try:
        result, mutated = _forward(
            torch_private.unwrap_compiled_module(model), call, inputs, observer
        )
    except ModelError as err:
        # TorchScript loses the message of an error that is raised while it is observed.
        if str(err.__cause__).rstrip().endswith("Error:"):
            _forward(torch_private.unwrap_compiled_module(model), call, inputs)
        # Checked only now: a model may take a dict whose key resembles the parameter's name.
        if isinstance(args, Mapping) and call.args and isinstance(call.args[0], Mapping):
            if misspelled := find_misspelled_input(model, args):
                raise misspelled from err
            names = ", ".join(map(repr, args))
            err.hint = (
                f"forward{forward_parameters(model)} has no parameter {names}, "
                "so the dict was passed as one argument; use the names of the parameters"
            )
        elif hasattr(model, "function_name"):
            err.hint = _FACTORY
        raise
    named, notes = _name_outputs(result, inputs, output_names, caches=call.caches)
    chosen = {name: name for name in named}
    if expected_outputs is not None:
        if (found := _match_names(expected_outputs, named)) is None:
            named, _ = _name_outputs(result, inputs, None, caches=True)
            found = _match_names(expected_outputs, named)
            call = replace(call, caches=True)
        if found is None:
            raise InputError(
                f"the model returns {', '.join(named)}; expected outputs: "
                f"{', '.join(expected_outputs)}",
                hint="pass the model that was exported, or one that returns a dict of these names",
            )
        chosen = found
    outputs = {name: named[own][1] for name, own in chosen.items()}
    own_names = [*named]
    return Signature(
        inputs=specs(inputs),
        outputs=specs(outputs),
        example_inputs=inputs,
        example_outputs=outputs,
        output_paths=tuple(path for path, _ in named.values()),
        positions=tuple(own_names.index(own) for own in chosen.values()),
        call=replace(call, mutated=mutated),
        notes=(*call.notes, *notes),
        observation=observer.observation,
        returns_only_tensors=_has_only_tensors(result),
    )


def _forward(
    model: nn.Module,
    call: Call,
    inputs: Mapping[str, Tensor],
    observer: Observer | None = None,
    *,
    gradients: bool = False,
) -> tuple[object, frozenset[int]]:
    """Run the forward on copies of the inputs; return the result, and indices of mutated inputs."""
    import torch

    copy = torch.clone if gradients else copy_detached
    # The caller may be in inference mode, whose tensors cannot be traced.
    with torch.inference_mode(mode=False), torch.set_grad_enabled(gradients), evaluation(model):
        tensors = [copy(tensor) for tensor in inputs.values()]
        versions = [*map(torch_private.version_of, tensors)]  # torch counts in-place writes
        args, kwargs = call.fill(tensors)
        named = dict(zip(inputs, tensors, strict=True))
        with observer.watch(named) if observer else nullcontext():
            result = _call_model(model, args, kwargs)
        written = map(torch_private.version_of, tensors)
        changed = [a != b for a, b in zip(versions, written, strict=True)]
    return result, frozenset(index for index, yes in enumerate(changed) if yes)


def _call_model(model: nn.Module, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    try:
        return model(*args, **kwargs)
    except KeyboardInterrupt:
        raise
    except BaseException as err:  # SystemExit as well: a model that exits has computed nothing
        message = f"the model's forward raised {type(err).__name__}: {first_line(err)}"
        raise ModelError(f"{message}{format_raising_line(err)}") from err


def _name_outputs(
    result: object, inputs: Iterable[str], names: Sequence[str] | None, *, caches: bool
) -> tuple[dict[str, tuple[str, Tensor]], list[str]]:
    """Return output name → (path, tensor), and notes about values that are not tensors."""
    import torch

    from enginebay.tensors import output_leaves

    outputs: dict[str, tuple[str, Tensor]] = {}
    notes: list[str] = []
    # A graph needs two names where an input and an output have the same key.
    taken = set() if names else set(inputs)
    for path, leaf in output_leaves(result, caches=caches):
        # In ONNX decoders, `present` of one step is `past_key_values` of the next.
        name = path.replace("past_key_values.", "present.", 1) if caches else path
        if isinstance(leaf, torch.Tensor):
            unused = choose_unused_name(
                f"{name}_out" if name in taken else name, {*outputs, *taken}
            )
            outputs[unused] = path, copy_detached(leaf)
        elif leaf is not None:
            notes.append(_describe_left_out(name, leaf))
    if not outputs:
        kind = type(result).__name__
        message = f"the model's forward returned no tensor; it returned a {kind}"
        raise ModelError(message, hint=_FACTORY if isinstance(result, torch.nn.Module) else None)
    return _check_distinct(rename_tensors("output", outputs, names), set(inputs)), notes


def _match_names(expected: Sequence[str], own: Iterable[str]) -> dict[str, str] | None:
    """Return expected name → own name: the same, or in the same place; None if neither fits."""
    own = list(own)
    if set(expected) <= set(own):
        return {name: name for name in expected}
    return dict(zip(expected, own, strict=True)) if len(expected) == len(own) else None


def _has_only_tensors(result: object) -> bool:
    import torch

    from enginebay.tensors import output_leaves

    return all(isinstance(leaf, torch.Tensor) for _, leaf in output_leaves(result))


def _describe_left_out(name: str, leaf: object) -> str:
    note = f"output '{name}' is of type {type(leaf).__name__}, not a tensor, and is left out"
    return f"{note}; pass a cache as an input to make it an output" if is_cache(leaf) else note


def _check_distinct(outputs: dict[str, _T], inputs: set[str]) -> dict[str, _T]:
    both = [name for name in outputs if name in inputs]
    if both:
        message = f"an input and an output have the same name '{both[0]}'; expected different names"
        raise InputError(message, hint="change input_names or output_names")
    return outputs
