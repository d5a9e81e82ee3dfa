"""What comes in at the beginning of a deployment: a model, its inputs, what it gives for them.

The reference outputs are taken here, before any rewriter touches the model; otherwise a wrong
rewriter would verify itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from enginebay.errors import EnginebayError, InputError, ModelError
from enginebay.inference import Admission
from enginebay.models import (
    example_inputs,
    find_model,
    open_dimensions,
    range_profiles,
    shapes_of,
    to_profiles,
)
from enginebay.operations.export_model import Patching
from enginebay.tensors import Sample, resize, to_numpy
from enginebay.verification import OnnxReference, reference_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from enginebay.exporters import ExporterName
    from enginebay.ir import IRKind, IRModel
    from enginebay.models import DynamicShapes, ModelSource, Signature
    from enginebay.params import BackendParams, ShapeProfile
    from enginebay.rewriting import RewriteReport, RewriterSet
    from enginebay.tensors import NumpyArray, TensorSpec


class Intake(Protocol):
    """A model that is ready to be exported and compared with.

    Attributes:
        description: What the artifact is held against.
        samples: Inputs with the reference's outputs; with none where nothing can give any.
        why_no_reference: Why there are none.
        rewriting: What was rewritten in the last export; None where nothing could be.
        shapes: The smallest, usual and largest shape of each input.
    """

    description: str
    samples: list[Sample]
    why_no_reference: str
    rewriting: RewriteReport | None
    shapes: dict[str, ShapeProfile]

    def export(
        self,
        kind: IRKind,
        path: Path,
        *,
        exporter: ExporterName | None,
        opset: int | None,
        backend: str,
        rewriters: Sequence[RewriterSet],
        config: Mapping[str, Any] | None,
    ) -> IRModel:
        """Write the IR, with the rewriters for the backend applied where they can be."""
        ...


def take_in(
    model: Any,
    args: Any,
    *,
    backend: str,
    params: BackendParams,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    dynamic_shapes: Mapping[str, Any] | None,
    codebase_config: Mapping[str, Any] | None = None,
) -> Intake:
    """Find the model, bind its example inputs, and record what it gives for them.

    Raises:
        ModelSourceError: ``model`` does not lead to a model.
        InputError: The example inputs do not fit it, or there are none.
        ModelError: Its forward raised.
    """
    source = find_model(model, codebase_config, params.input_shapes or shapes_of(args))
    if source.model is None:
        return _OnnxIntake(source, args, backend, params)
    return _TorchIntake(source, args, params, input_names, output_names, dynamic_shapes)


class _TorchIntake:
    """A model that PyTorch runs."""

    why_no_reference = ""
    rewriting: RewriteReport | None = None

    def __init__(
        self,
        source: ModelSource,
        args: Any,
        params: BackendParams,
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        dynamic_shapes: Mapping[str, Any] | None,
    ) -> None:
        from enginebay.models import read_signature

        self._source = source
        self._module = source.module
        given = example_inputs(args, source, params.input_shapes, input_names)
        if source.ir is not None and source.ir.inputs and not input_names:
            input_names = [spec.name for spec in source.ir.inputs]
        self._signature: Signature = read_signature(
            self._module, given, input_names=input_names, output_names=output_names
        )
        self._dynamic = open_dimensions(
            dynamic_shapes, self._signature, params.min_shapes, params.max_shapes
        )
        self.description = reference_text(source)
        self.samples = list(self._samples())
        usual = {name: array.shape for name, array in self.samples[0].inputs.items()}
        self.shapes = to_profiles(self._dynamic, usual)

    def _samples(self) -> Iterator[Sample]:
        """The example inputs, and the same at the smallest and the largest sizes."""
        inputs, outputs = self._signature.example_inputs, self._signature.example_outputs
        yield _sample(inputs, outputs)
        for sizes in _extremes(self._dynamic, self._signature.inputs):
            resized = {name: resize(tensor, sizes[name]) for name, tensor in inputs.items()}
            yield _sample(resized, self._outputs(resized, sizes))

    def _outputs(
        self, inputs: dict[str, Any], sizes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, Any]:
        """The model's outputs at sizes that nobody handed over: an error must name them."""
        try:
            return dict(self._signature.run(self._module, inputs))
        except ModelError as err:
            shapes = ",".join(f"{name}:{'x'.join(map(str, s))}" for name, s in sizes.items())
            raise ModelError(
                f"at the sizes {shapes}, which should be open, {err}",
                hint="keep the smallest and the largest sizes to what the model takes",
            ) from err

    def export(
        self,
        kind: IRKind,
        path: Path,
        *,
        exporter: ExporterName | None,
        opset: int | None,
        backend: str,
        rewriters: Sequence[RewriterSet],
        config: Mapping[str, Any] | None,
    ) -> IRModel:
        """Export with the rewriters for the backend."""
        from enginebay.exporters import export

        ir = self._source.ir
        if ir is not None and ir.kind == kind:
            return _described(ir, self._signature)
        opset = opset if kind == "onnx" else None
        patch = Patching(backend=backend, ir=kind, rewriters=rewriters, config=config, opset=opset)
        exported = export(
            self._source.model,
            ir=kind,
            path=path,
            exporter=exporter if kind == "onnx" else None,
            opset=opset,
            dynamic_shapes=self._dynamic or None,
            patch=patch,
            signature=self._signature,
        )
        self.rewriting = patch.report
        return exported


class _OnnxIntake:
    """An ONNX file, which PyTorch cannot run."""

    rewriting: RewriteReport | None = None

    def __init__(self, source: ModelSource, args: Any, backend: str, params: BackendParams) -> None:
        assert source.ir is not None
        self._ir = source.ir
        reference = OnnxReference(source.ir.path, backend)
        self.why_no_reference = ""
        inputs = _arrays(example_inputs(args, source, params.input_shapes), source.ir.inputs)
        admission = Admission(source.ir.inputs)
        admission.check_names(inputs)
        admission.check(inputs)
        outputs: dict[str, NumpyArray] = {}
        try:
            outputs = reference.outputs(inputs)
        except EnginebayError as err:
            self.why_no_reference = str(err)
        self.samples = [Sample(inputs, outputs)]
        usual = {name: array.shape for name, array in inputs.items()}
        self.shapes = range_profiles(usual, params.min_shapes, params.max_shapes)
        self.description = reference.description

    def export(self, kind: IRKind, path: Path, **options: Any) -> IRModel:  # noqa: ARG002  # nothing of PyTorch applies to a file
        """The file itself, where the backend takes ONNX."""
        if kind == self._ir.kind:
            return self._ir
        from enginebay.exporters import export

        return export(self._ir, ir=kind, path=path)


def _described(ir: IRModel, signature: Signature) -> IRModel:
    """A foreign TorchScript file does not say what goes in; the signature does."""
    if ir.inputs:
        return ir
    return msgspec.structs.replace(ir, inputs=signature.inputs, outputs=signature.outputs)


def _sample(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sample:
    return Sample(
        {name: to_numpy(value) for name, value in inputs.items()},
        {name: to_numpy(value) for name, value in outputs.items()},
    )


def _arrays(args: Any, specs: Sequence[TensorSpec]) -> dict[str, NumpyArray]:
    """Example inputs of an ONNX file by name."""
    if isinstance(args, Mapping):
        return {str(name): to_numpy(value) for name, value in args.items()}
    values = list(args) if isinstance(args, tuple | list) else [args]
    if len(values) != len(specs):
        raise InputError(
            f"the model takes {len(specs)} inputs ({', '.join(s.name for s in specs)}), "
            f"found {len(values)}"
        )
    return {spec.name: to_numpy(value) for spec, value in zip(specs, values, strict=True)}


def _extremes(
    dynamic: DynamicShapes, specs: Sequence[TensorSpec]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """The shapes with every open dimension at its smallest, then at its largest size."""
    usual = {spec.name: tuple(int(dim) for dim in spec.dims or ()) for spec in specs}
    for bound in ("min", "max"):
        shapes = {
            name: tuple(
                getattr(axes[axis], bound) or size
                if (axes := dynamic.get(name, {})) and axis in axes
                else size
                for axis, size in enumerate(shape)
            )
            for name, shape in usual.items()
        }
        if shapes != usual:
            yield shapes
