"""The one way in: a model, however it was named, with its inputs bound and named.

``deploy``, ``export`` and ``verify --model`` all start from a :class:`BoundModel`. Nothing after
this room asks again where a model came from or what its inputs are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import InputError, ModelError
from enginebay.inference import InputCheck
from enginebay.models.dynamic import from_profiles, to_profiles
from enginebay.models.example_inputs import (
    example_inputs,
    is_made_up,
    open_dimensions,
    range_profiles,
)
from enginebay.models.exported_programs import captured_dimensions, check_captured
from enginebay.models.recorded_calls import RecordedCalls
from enginebay.models.signature import Signature, read_signature
from enginebay.tensors import host_view, to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from enginebay.ir import IRKind, IRModel
    from enginebay.models.dynamic import DynamicShapes
    from enginebay.models.observation import Observer
    from enginebay.models.sources import ModelSource
    from enginebay.params import ShapeProfile, Shapes
    from enginebay.tensors import NumpyArray, TensorSpec

#: Made-up integers are less than this where a model does not show which it takes.
_DIGITS = 10


@dataclass(frozen=True, kw_only=True)
class BoundModel:
    """A model whose inputs are known.

    Attributes:
        source: The model, and what it was called.
        inputs: Names, dtypes and sizes of the example inputs.
        outputs: Names, dtypes and sizes of what comes out for them; of an ONNX file what it says.
        examples: The example inputs by name.
        dynamic: The open dimensions.
        profiles: The smallest, usual and largest shape of each input.
        signature: How PyTorch calls the model; None for an ONNX file, which it cannot run.
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
        """The inputs with a name in the place of each open size; of an ONNX file as it says."""
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
        """Where the model's parameters lie; the CPU where it has none."""
        import torch

        parameters = self.source.module.parameters()
        return next((each.device for each in parameters), torch.device("cpu"))

    @cached_property
    def doubled(self) -> BoundModel:
        """The same with a copy of the model in double precision."""
        module = deepcopy(self.source.module).double()
        return replace(self, source=replace(self.source, model=module))

    @property
    def below(self) -> dict[str, int]:
        """What the integers of an input are less than, where a run showed it."""
        return _below(self.signature) if self.signature else {}

    @property
    def example_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each example input."""
        return {name: array.shape for name, array in self.examples.items()}

    def run(
        self, inputs: Mapping[str, NumpyArray], observer: Observer | None = None
    ) -> dict[str, NumpyArray]:
        """Run the model as it is, without any rewriter, in PyTorch.

        Args:
            inputs: Arrays by name; what is left out is taken from the example.
            observer: Watches the forward.

        Raises:
            ModelError: Its forward raised, or returned another number of tensors.
        """
        assert self.signature is not None
        given = {name: inputs.get(name, example) for name, example in self.examples.items()}
        device = self.device
        tensors = {name: to_torch(array, device) for name, array in given.items()}
        return _arrays(self.signature.run(self.source.module, tensors, observer))

    @contextmanager
    def runner(self) -> Iterator[Callable[[Mapping[str, NumpyArray]], dict[str, NumpyArray]]]:
        """Run the model many times as :meth:`run` does, for a loop over small inputs.

        Yields:
            A function from arrays by name to the outputs by name. It raises ModelError where the
            forward does.
        """
        assert self.signature is not None
        device = self.device
        names = [spec.name for spec in self.outputs]
        with self.signature.runner(self.source.module) as run_module:

            def run(inputs: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
                given = [inputs.get(name, example) for name, example in self.examples.items()]
                results = run_module([to_torch(array, device) for array in given])
                arrays = []
                for tensor in results:
                    view = host_view(tensor)
                    # A copy: the next run may write where this lies.
                    arrays.append((to_numpy(tensor) if view is None else view).copy())
                return dict(zip(names, arrays, strict=True))

            yield run

    def example_outputs(self) -> dict[str, NumpyArray]:
        """The outputs for the example inputs, as PyTorch gave them while the inputs were bound."""
        assert self.signature is not None
        return _arrays(self.signature.example_outputs)

    def file(self, kind: IRKind) -> IRModel | None:
        """The file that the model was read from, if it is of this kind; else None."""
        ir = self.source.ir
        if ir is None or ir.kind != kind:
            return None
        # A foreign TorchScript file does not say what goes in.
        return (
            ir
            if ir.inputs
            else msgspec.structs.replace(ir, inputs=self.inputs, outputs=self.outputs)
        )


def bind(
    source: ModelSource,
    args: Any = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic: Mapping[str, Any] | Sequence[str] | None = None,
    input_shapes: Shapes | None = None,
    min_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
) -> BoundModel:
    """Bind a model's inputs: run it once on its example, and name what goes in and comes out.

    Args:
        source: The model.
        args: Example inputs: a tensor, a tuple of positional arguments, a dict by name, whose
            values may be specs to make up arrays for, or recorded calls; by default the model's
            own, or made-up ones.
        input_names: Instead of the parameter names of ``forward``, or the file's own names.
        output_names: Instead of the keys of the result, or the file's own names.
        dynamic: The open dimensions, as :func:`~enginebay.models.normalise` takes them; by
            default those where the smallest and the largest shapes differ.
        input_shapes: The usual shapes: example inputs are made up at, or stretched to, these.
        min_shapes: The smallest shapes.
        max_shapes: The largest shapes.

    Raises:
        InputError: The example inputs do not fit the model, or there are none.
        ModelError: Its forward raised.
    """
    smallest, largest = min_shapes or {}, max_shapes or {}
    seen = args if isinstance(args, RecordedCalls) else None
    if seen is not None:
        args = seen.example_for(None if source.model is None else source.module)
    given = example_inputs(args, source, input_shapes or {}, input_names)
    if source.model is None:
        if dynamic:
            raise InputError(
                "an ONNX file says itself which dimensions are open, and dynamic opens none of it",
                hint="export the model again with --dynamic; --min-shapes and --max-shapes bound "
                "those that are open",
            )
        return _bind_onnx(source, given, smallest, largest)
    known_inputs, known_outputs = (source.ir.inputs, source.ir.outputs) if source.ir else ((), ())
    read = partial(
        read_signature,
        source.module,
        input_names=input_names or _names(known_inputs),
        output_names=output_names or _names(known_outputs),
    )
    signature = read(given)
    if made_up := [spec for spec in signature.inputs if is_made_up(spec, args, source)]:
        make = partial(example_inputs, args, source, input_shapes or {}, input_names)
        signature = _with_more_integers(signature, made_up, lambda below: read(make(below=below)))
    opened = open_dimensions(dynamic, signature, input_shapes or {}, smallest, largest, seen)
    if source.program is not None:
        captured = captured_dimensions(source.program, signature.inputs, known_inputs)
        check_captured(opened, captured)
        opened = opened or captured
    examples = _arrays(signature.example_inputs)
    return BoundModel(
        source=source,
        inputs=signature.inputs,
        outputs=signature.outputs,
        examples=examples,
        dynamic=opened,
        profiles=to_profiles(opened, {name: array.shape for name, array in examples.items()}),
        signature=signature,
    )


def _with_more_integers(
    signature: Signature,
    made_up: Sequence[TensorSpec],
    read: Callable[[Mapping[str, int]], Signature],
) -> Signature:
    """Read a model with as many integers as it takes: zeros and ones show two rows of a table.

    Args:
        signature: What was read with zeros and ones.
        made_up: The inputs that the caller gave no values of.
        read: Reads the model with integers less than a number, by the inputs' names.
    """
    integers = [spec.name for spec in made_up if spec.dtype.startswith(("int", "uint"))]
    known = {name: size for name, size in _below(signature).items() if name in integers}
    unknown = [name for name in integers if name not in known]
    if unknown:
        with suppress(ModelError):
            found = read({**known, **dict.fromkeys(unknown, _DIGITS)})
            if all(tensor.isfinite().all() for tensor in found.example_outputs.values()):
                note = (
                    f"{', '.join(unknown)}: nothing in the model shows which integers it takes, so "
                    f"0 to {_DIGITS - 1} were made up; give your own with --input NAME=file.npy"
                )
                return replace(found, notes=(*found.notes, note))
    if known:
        with suppress(ModelError):
            return read(known)
    return signature


def _below(signature: Signature) -> dict[str, int]:
    return signature.observation.below if signature.observation else {}


def _bind_onnx(
    source: ModelSource, args: Any, min_shapes: Shapes, max_shapes: Shapes
) -> BoundModel:
    """An ONNX file says itself what goes in; nothing runs here."""
    file = source.ir
    assert file is not None
    examples = _by_name(args, file.inputs)
    input_check = InputCheck(file.inputs)
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


def _by_name(args: Any, specs: Sequence[TensorSpec]) -> dict[str, NumpyArray]:
    if isinstance(args, Mapping):
        return {str(name): to_numpy(value) for name, value in args.items()}
    values = list(args) if isinstance(args, tuple | list) else [args]
    if len(values) != len(specs):
        raise InputError(
            f"the model takes {len(specs)} inputs ({', '.join(s.name for s in specs)}), "
            f"found {len(values)}"
        )
    return {spec.name: to_numpy(value) for spec, value in zip(specs, values, strict=True)}


def _names(specs: Sequence[TensorSpec]) -> list[str] | None:
    return [spec.name for spec in specs] or None


def _arrays(tensors: Mapping[str, Any]) -> dict[str, NumpyArray]:
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}
