"""A model from any source, bound to example inputs, with names for its inputs and outputs.

``deploy``, ``export`` and ``verify --model`` all start from a :class:`BoundModel`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import InputError, ModelError
from enginebay.inference import InputCheck
from enginebay.models.dynamic import check_sums, from_profiles, to_profiles
from enginebay.models.example_inputs import (
    example_inputs,
    is_generated,
    open_dimensions,
    range_profiles,
)
from enginebay.models.exported_programs import captured_dimensions, check_captured
from enginebay.models.recorded_calls import RecordedCalls
from enginebay.models.signature import Signature, read_signature
from enginebay.sources import forward_parameters
from enginebay.tensors import host_view, to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch
    from torch import Tensor

    from enginebay.ir import IRModel
    from enginebay.params import DynamicShapes, IRKind, ShapeProfile, Shapes
    from enginebay.sources import ModelSource
    from enginebay.state import Observer
    from enginebay.tensors import NumpyArray, TensorSpec

#: Exclusive bound of generated integers if a run of the model does not reveal one.
_DEFAULT_INTEGER_BOUND = 10


@dataclass(frozen=True, kw_only=True)
class BoundModel:
    """A loaded model, the specs of its inputs and outputs, and an example array for each input.

    Attributes:
        source: The model and its name.
        inputs: Specs of the example inputs.
        outputs: Specs of the outputs for the example inputs; for an ONNX file, the file's specs.
        examples: Input name → example array.
        dynamic: Input name → axis → dynamic dimension.
        profiles: Input name → smallest, usual and largest shape.
        signature: The model's signature in PyTorch; None for an ONNX file.
    """

    source: ModelSource
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    examples: dict[str, NumpyArray]
    dynamic: DynamicShapes
    profiles: dict[str, ShapeProfile]
    signature: Signature | None = None

    @property
    def open_inputs(self) -> tuple[TensorSpec, ...]:
        """The input specs, in which each dynamic size is replaced by the name of its dimension."""
        if self.signature is None:
            return self.inputs
        return tuple(
            msgspec.structs.replace(
                spec,
                dims=tuple(
                    dim.name if (dim := self.dynamic.get(spec.name, {}).get(axis)) else size
                    for axis, size in enumerate(spec.dims or ())
                ),
            )
            for spec in self.inputs
        )

    @property
    def device(self) -> torch.device:
        """The device of the model's weights; the CPU for a model without weights."""
        import torch

        parameters = self.source.module.parameters()
        return next((parameter.device for parameter in parameters), torch.device("cpu"))

    # Cached: otherwise each sample on which rounding may decide would copy the model.
    @cached_property
    def doubled(self) -> BoundModel:
        """A copy of this object whose model has float64 weights."""
        module = deepcopy(self.source.module).double()
        return replace(self, source=replace(self.source, model=module))

    @property
    def below(self) -> dict[str, int]:
        """Input name → exclusive upper bound of the values, for inputs that index a tensor.

        An input whose example lies beyond the bound is no index: one is computed from it.
        """
        bounds = _integer_bounds(self.signature) if self.signature else {}
        return {
            name: limit
            for name, limit in bounds.items()
            if self.examples[name].max(initial=0) < limit
        }

    @property
    def is_quantised(self) -> bool:
        """True if the model is a file of torch with operators that compute in 8 bits."""
        program = self.source.program
        if program is not None:
            return any("quantized" in str(node.target) for node in program.graph.nodes)
        graph = getattr(self.source.model, "inlined_graph", None)
        return graph is not None and any("quantized" in node.kind() for node in graph.nodes())

    @property
    def special(self) -> dict[str, list[float]]:
        """Name of an input → constants that the model compares it with."""
        observation = self.signature.observation if self.signature else None
        found = observation.special if observation else {}
        return {name: sorted(values) for name, values in found.items()}

    @property
    def ascending(self) -> frozenset[str]:
        """Names of the inputs that a binary search takes as sorted boundaries."""
        observation = self.signature.observation if self.signature else None
        return frozenset(observation.boundaries if observation else ())

    @property
    def example_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each example input."""
        return {name: array.shape for name, array in self.examples.items()}

    def run(
        self, inputs: Mapping[str, NumpyArray], observer: Observer | None = None
    ) -> dict[str, NumpyArray]:
        """Run the original model, without rewriters, in PyTorch.

        Args:
            inputs: Input name → array; missing inputs are taken from the example.
            observer: Observes the forward pass.

        Raises:
            ModelError: The forward raised, or returned more or fewer tensors than for the example.
        """
        assert self.signature is not None
        arrays = {name: inputs.get(name, example) for name, example in self.examples.items()}
        device = self.device
        tensors = {name: to_torch(array, device) for name, array in arrays.items()}
        return _to_arrays(self.signature.run(self.source.module, tensors, observer))

    @contextmanager
    def runner(self) -> Iterator[Callable[[Mapping[str, NumpyArray]], dict[str, NumpyArray]]]:
        """Prepare the model once for many runs, each with less overhead than :meth:`run`.

        Yields:
            A function that takes input arrays by name, and returns output arrays by name. The
            function raises ModelError if the forward raises.
        """
        assert self.signature is not None
        device = self.device
        names = [spec.name for spec in self.outputs]
        with self.signature.runner(self.source.module) as run_module:

            def run(inputs: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
                ordered = [inputs.get(name, example) for name, example in self.examples.items()]
                results = run_module([to_torch(array, device) for array in ordered])
                arrays = []
                for tensor in results:
                    view = host_view(tensor)
                    # A copy, since the next run may overwrite this memory.
                    arrays.append((to_numpy(tensor) if view is None else view).copy())
                return dict(zip(names, arrays, strict=True))

            yield run

    def example_outputs(self) -> dict[str, NumpyArray]:
        """Return the outputs that :func:`bind` computed in PyTorch for the example inputs."""
        assert self.signature is not None
        return _to_arrays(self.signature.example_outputs)

    def _takes_only_tensors(self) -> bool:
        """True if the forward takes the inputs as they are, and returns nothing but tensors."""
        assert self.signature is not None
        parameters = forward_parameters(self.source.module).parameters
        return (
            self.signature.returns_only_tensors
            and self.signature.call.is_plain
            and len(parameters) == len(self.inputs)
        )

    def file(self, kind: IRKind) -> IRModel | None:
        """Return the model's file as an IR of this kind; None if there is no such file."""
        ir = self.source.ir
        if ir is None or ir.kind != kind:
            return None
        # An engine can call a file only with its tensors, in order.
        if kind == "torchscript" and not self._takes_only_tensors():
            return None
        # A TorchScript file that Enginebay did not write contains no specs.
        return (
            ir
            if ir.inputs
            else msgspec.structs.replace(ir, inputs=self.inputs, outputs=self.outputs)
        )


def bind(
    source: ModelSource,
    args: object = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    expected_outputs: Sequence[str] | None = None,
    dynamic: Mapping[str, object] | Sequence[str] | None = None,
    input_shapes: Shapes | None = None,
    min_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    timeout: float = math.inf,
) -> BoundModel:
    """Bind a model to example inputs: run the model once, and name its inputs and outputs.

    An ONNX file is not run, since the file contains the names and specs.

    Args:
        source: The model.
        args: Example inputs: a tensor, a tuple of positional arguments, a dict by name, or recorded
            calls. A spec in the dict stands for a generated array. By default the model's own
            example; without one, generated arrays.
        input_names: Names of the inputs; by default the names in the file, or the parameters of
            ``forward``.
        output_names: Names of the outputs; by default the names in the file, or the keys of the
            dict that ``forward`` returns.
        expected_outputs: Names of the outputs to choose, by name or, if there are as many, in
            order; None for all.
        dynamic: Dynamic dimensions, as :func:`~enginebay.models.dynamic.normalise` accepts them;
            by default the axes whose sizes in ``min_shapes`` and ``max_shapes`` differ.
        input_shapes: Input name → shape of the generated example, or new shape of the model's own
            example.
        min_shapes: Input name → smallest shape.
        max_shapes: Input name → largest shape.
        timeout: Seconds of processor time that the run may take.

    Raises:
        InputError: The example inputs are missing, or do not match the model.
        ModelError: The forward raised.
    """
    smallest, largest = min_shapes or {}, max_shapes or {}
    recorded = args if isinstance(args, RecordedCalls) else None
    if recorded is not None:
        args = recorded.example_for(None if source.model is None else source.module)
    inputs = example_inputs(args, source, input_shapes or {}, input_names)
    if source.model is None:
        if dynamic:
            raise InputError(
                "'dynamic' cannot be combined with an ONNX file, which defines dynamic dimensions",
                hint="export the model again with --dynamic; limit the sizes of dynamic dimensions "
                "with --min-shapes and --max-shapes",
            )
        return _bind_onnx(source, inputs, smallest, largest)
    known_inputs, known_outputs = (source.ir.inputs, source.ir.outputs) if source.ir else ((), ())
    read = partial(
        read_signature,
        source.module,
        input_names=input_names or _spec_names(known_inputs),
        output_names=output_names or _spec_names(known_outputs),
        expected_outputs=expected_outputs,
        timeout=timeout,
    )
    signature = read(inputs)
    if generated := [spec for spec in signature.inputs if is_generated(spec, args, source)]:
        make = partial(example_inputs, args, source, input_shapes or {}, input_names)
        signature = _widen_integers(signature, generated, lambda below: read(make(below=below)))
    opened = open_dimensions(dynamic, signature, input_shapes or {}, smallest, largest, recorded)
    if source.program is not None:
        captured = captured_dimensions(source.program, signature.inputs, known_inputs)
        check_captured(opened, captured)
        opened = opened or captured
    examples = _to_arrays(signature.example_inputs)
    check_sums(opened, {name: array.shape for name, array in examples.items()})
    return BoundModel(
        source=source,
        inputs=signature.inputs,
        outputs=signature.outputs,
        examples=examples,
        dynamic=opened,
        profiles=to_profiles(opened, {name: array.shape for name, array in examples.items()}),
        signature=signature,
    )


def _widen_integers(
    signature: Signature,
    generated: Sequence[TensorSpec],
    read: Callable[[Mapping[str, int]], Signature],
) -> Signature:
    """Run the model again with larger generated integers, and return the new signature.

    Return ``signature`` if no integer input was generated, or if the model rejects larger integers.
    """
    # The first example has only zeros and ones, which use only two rows of an embedding.
    integers = [spec.name for spec in generated if spec.dtype.startswith(("int", "uint"))]
    known = {name: size for name, size in _integer_bounds(signature).items() if name in integers}
    unknown = [name for name in integers if name not in known]
    if unknown:
        with suppress(ModelError):  # a model may reject larger integers, as a lookup table does
            widened = read({**known, **dict.fromkeys(unknown, _DEFAULT_INTEGER_BOUND)})
            if all(tensor.isfinite().all() for tensor in widened.example_outputs.values()):
                note = (
                    f"{', '.join(unknown)}: the range of integers that the model accepts is "
                    f"unknown, so 0 to {_DEFAULT_INTEGER_BOUND - 1} were generated; pass your own "
                    "with --input NAME=file.npy"
                )
                return replace(widened, notes=(*widened.notes, note))
    if known:
        with suppress(ModelError):
            return read(known)
    return signature


def _integer_bounds(signature: Signature) -> dict[str, int]:
    return signature.observation.below if signature.observation else {}


def _bind_onnx(
    source: ModelSource, args: object, min_shapes: Shapes, max_shapes: Shapes
) -> BoundModel:
    file = source.ir
    assert file is not None
    examples = _name_arguments(args, file.inputs)
    input_check = InputCheck(file.inputs, is_file=True)
    input_check.check_names(examples)
    input_check.check(examples)
    usual = {name: array.shape for name, array in examples.items()}
    profiles = range_profiles(usual, min_shapes, max_shapes)
    return BoundModel(
        source=source,
        inputs=file.inputs,
        outputs=file.outputs,
        examples=examples,
        dynamic=from_profiles({name: (p.min, p.opt, p.max) for name, p in profiles.items()}),  # type: ignore[misc]  # no size is None: the usual ones are all known
        profiles=profiles,
    )


def _name_arguments(args: Any, specs: Sequence[TensorSpec]) -> dict[str, NumpyArray]:
    if isinstance(args, Mapping):
        return {str(name): to_numpy(value) for name, value in args.items()}
    values = list(args) if isinstance(args, tuple | list) else [args]
    if len(values) != len(specs):
        raise InputError(
            f"expected {len(specs)} inputs ({', '.join(s.name for s in specs)}), "
            f"found {len(values)}"
        )
    return {spec.name: to_numpy(value) for spec, value in zip(specs, values, strict=True)}


def _spec_names(specs: Sequence[TensorSpec]) -> list[str] | None:
    return [spec.name for spec in specs] or None


def _to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NumpyArray]:
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}
