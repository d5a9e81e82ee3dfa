"""An exporter of transformers whose programs are artifacts of Enginebay, each with its verdict.

Importing this module registers it with transformers, under the format ``enginebay``.
"""

from __future__ import annotations

import copy
import inspect
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.utils import _pytree as pytree

import enginebay as eb
from enginebay.authors.arrays import is_torch, output_leaves, to_torch
from enginebay.authors.artifacts import use_artifact
from enginebay.errors import (
    ArtifactError,
    EnginebayError,
    ExportError,
    InputError,
    ModelError,
    UsageError,
    first_line,
)
from enginebay_transformers import upstream
from enginebay_transformers.laws import Part, find_breaches
from enginebay_transformers.open_axes import open_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

_CPU = torch.device("cpu")
#: The file of a saved export that names its programs.
_THEIRS = "export.json"
_SHORTER = "use a sample with fewer tokens than the window"
_PADDING = "use a sample in which a row is padded on the left, with zeros in attention_mask there"
_DOWNLOAD = "ExportedModel.from_pretrained(huggingface_hub.snapshot_download(REPOSITORY))"


@dataclass
class EnginebayConfig(upstream.ExportConfigMixin):  # type: ignore[misc]  # a class without types
    """How an :class:`EnginebayExporter` deploys a model: arguments of :func:`enginebay.deploy`.

    Attributes:
        backend: The backend; by default the installed one if there is only one, or ``onnxruntime``.
        dynamic: True to open the batch, the tokens and the past of a cache; or the ``dynamic`` of
            :func:`enginebay.deploy`, such as ``{"pixel_values": {0: "batch"}}``.
        precision: The backend's parameter ``precision``, such as ``fp16`` or ``int8``.
        params: The backend's other parameters.
        data: Items to calibrate int8 with, and to verify on.
        export: Fields of :class:`enginebay.ExportOptions`.
        verify: Fields of :class:`enginebay.VerifyOptions`.

    Example:
        >>> EnginebayConfig(backend="openvino", dynamic=True).export_format
        'enginebay'
    """

    export_format: str = "enginebay"
    backend: str | None = None
    dynamic: Any = False
    precision: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    export: Mapping[str, Any] = field(default_factory=dict)
    verify: Mapping[str, Any] = field(default_factory=dict)
    quantizer: ClassVar[None] = None  # export_for_generation reads it


class _OwnedArtifact(eb.Artifact, frozen=True, weakref=True):
    """An artifact in a temporary folder, which is removed with this object."""


class EnginebayRunner(upstream.ModelRunner):  # type: ignore[misc]
    """Runs an artifact as transformers runs an exported program; ``wrapper`` is the engine."""

    def __init__(self, metadata: Any, wrapper: eb.Wrapper) -> None:
        super().__init__(metadata)
        self.wrapper = wrapper
        order = _list_leaves(self.out_spec)
        computed = [n for n in order if n not in self.out_constants]
        named = dict(zip(computed, wrapper.output_names, strict=True))
        self._output_names = [named[n] for n in sorted(named)]
        hidden = self.out_constants.keys() - {*order}
        self.out_constants |= {n: torch.tensor(self.out_constants[n]) for n in hidden}

    @property
    def device(self) -> torch.device:
        """Where the inputs and outputs are: in the host's memory, or on the engine's GPU."""
        return torch.device(self.wrapper.native_device or "cpu")

    @classmethod
    def from_program(
        cls, program: eb.Artifact, metadata: Any, device: object = None, strict: bool = False
    ) -> EnginebayRunner:
        """Load the artifact; ``device`` and ``strict`` as in :func:`enginebay.load`."""
        name = None if device is None else str(device)
        return cls(metadata, eb.load(program, device=name, strict=strict))

    def __call__(
        self,
        share_inputs: bool = True,  # noqa: ARG002
        share_outputs: bool = False,  # noqa: ARG002
        **kwargs: Any,
    ) -> Any:
        """Run the artifact, without copies where its engine needs none.

        Args:
            share_inputs: Ignored: an input is copied only if its engine cannot read it in place.
            share_outputs: Ignored: later calls never change the outputs of earlier calls.
            kwargs: The model's arguments, tensors as torch's or NumPy's.

        Returns:
            What the model returns, with torch tensors.

        Raises:
            InputError: An input is missing or does not fit, or a value is constant in the artifact.
        """
        for name, traced in self.metadata.in_constants.items():
            value = kwargs.get(name, traced)
            if hasattr(value, "shape") or value != traced:
                message = f"'{name}' is {traced!r} in the artifact, found {value!r}"
                raise InputError(message, hint="export the model again with this argument")
        feed: dict[str, Any] = {
            name: leaf for name, leaf in output_leaves(kwargs) if hasattr(leaf, "shape")
        }
        outputs = self.wrapper.run(feed)
        values = [outputs[name] for name in self._output_names]
        return self.unflatten([v if is_torch(v) else to_torch(v, _CPU) for v in values])


class EnginebayExporter(upstream.HfExporter):  # type: ignore[misc]
    """Deploys a model of transformers: the program is an :class:`enginebay.Artifact`.

    The methods are those of transformers' exporters. The artifact was compared with the unpatched
    model, as :func:`enginebay.deploy` does it; the verdict is in ``exported.program.manifest``.
    """

    export_format = "enginebay"
    config_class = EnginebayConfig
    program_suffix = ".enginebay"

    def export_program(
        self, model: Any, sample_inputs: Mapping[str, Any], config: EnginebayConfig
    ) -> tuple[eb.Artifact, Any]:
        """Deploy a model to a temporary folder, which is removed with the artifact.

        Raises:
            EnginebayError: As :func:`enginebay.deploy`, such as ``NotVerifiedError``.
        """
        if any(parameter.is_meta for parameter in model.parameters()):
            message = "the model's weights are on the device meta, which has no values"
            raise UsageError(message, hint="load them: from_pretrained, or load_state_dict")
        inputs = _prepare_caches(model, dict(sample_inputs), dynamic=bool(config.dynamic))
        outputs = _run(model, inputs)
        dynamic = open_axes(inputs) if config.dynamic is True else config.dynamic or None
        folder = tempfile.mkdtemp(prefix="enginebay-export-")
        try:
            artifact = eb.deploy(
                model,
                inputs,
                backend=config.backend,
                work_dir=Path(folder, "artifact"),
                precision=config.precision,
                dynamic=dynamic,
                data=config.data,
                params=config.params,
                export=config.export,
                verify=config.verify,
            ).artifact
            metadata = _describe(model, inputs, outputs)
        except BaseException as err:
            shutil.rmtree(folder)
            if config.dynamic is True and isinstance(err, EnginebayError):
                err.add_note(f"dynamic=True means dynamic={dynamic}; name fewer axes to open")
            raise
        program = _OwnedArtifact(artifact.path, artifact.manifest)
        weakref.finalize(program, shutil.rmtree, folder, ignore_errors=True)
        return program, metadata

    def export_for_generation(
        self, model: Any, sample_inputs: Mapping[str, Any], config: Any, **options: Any
    ) -> Any:
        """Deploy each part of a model that generates, as transformers divides it.

        Raises:
            EnginebayError: A part is refused; a note names it.
            ExportError: The parts cannot generate what the model generates, with the reasons.
        """
        parts = upstream.decompose_for_generation(model, sample_inputs, **options)
        for name, (module, inputs) in parts.items():
            takes_mask = "attention_mask" in inspect.signature(module.forward).parameters
            if type(module) is type(model) and takes_mask and inputs.get("attention_mask") is None:
                message = f"'{name}' would have no attention_mask, since the sample has no padding"
                raise UsageError(message, hint=_PADDING)
        try:
            exported = super().export_for_generation(model, sample_inputs, config, **options)
        except RuntimeError as err:
            if not isinstance(err.__cause__, EnginebayError):
                raise
            err.__cause__.add_note(str(err))
            raise err.__cause__ from None
        found = [
            Part.of(component.program, name, *parts[name])
            for name, component in exported.components.items()
        ]
        usual = model.generation_config
        model.generation_config = options.get("generation_config") or usual
        try:
            breaches = find_breaches(model, sample_inputs, found)
        finally:
            model.generation_config = usual
        if breaches:
            raise ExportError("\n".join(breaches))
        return exported

    @classmethod
    def save_program(cls, program: eb.Artifact, path: str | Path) -> None:
        """Copy the artifact to ``path``, a folder that must not exist."""
        place = Path(path)
        use_artifact(program, lambda artifact: shutil.copytree(artifact.path, place))
        # save_pretrained has everything written to a temporary folder first, and then moves it over
        # what is there; a folder cannot be moved over another.
        target = place.parent.parent
        if place.parent.name.startswith(tempfile.gettempprefix()) and (target / _THEIRS).is_file():
            shutil.rmtree(target / place.name, ignore_errors=True)

    @classmethod
    def load_program(cls, path: str | Path) -> eb.Artifact:
        """Open the artifact at ``path``, and check its files.

        Raises:
            ArtifactError: There is no artifact, or it is damaged.
        """
        if not Path(path).exists():
            message = f"'{path}' does not exist, and of the Hub no folder is loaded file by file"
            raise ArtifactError(message, hint=_DOWNLOAD)
        return eb.open_artifact(path)

    @classmethod
    def program_files(cls, filename: str) -> list[str]:  # noqa: ARG003
        """Return no file: those of an artifact depend on its engine."""
        return []


def _run(model: Any, inputs: Mapping[str, Any]) -> Any:
    try:
        with torch.no_grad():
            return model(**copy.deepcopy(inputs))
    except Exception as err:
        message = f"the model's forward raised {type(err).__name__}: {first_line(err)}"
        raise ModelError(message) from err


def _prepare_caches(model: Any, inputs: dict[str, Any], *, dynamic: bool) -> dict[str, Any]:
    """Return the inputs, with an empty cache if the model makes one: only then is it an output.

    A layer with a window counts its tokens in an integer, which an export would hold constant. A
    layer of a dynamic cache keeps all tokens instead; the model's mask has the window, too.
    """
    parameters = inspect.signature(model.forward).parameters
    name = next((name for name in ("cache", "past_key_values") if name in parameters), None)
    if name is None:
        return inputs
    if inputs.get(name) is None:
        made = output_leaves(_run(model, inputs), caches=False)
        cache = next((leaf for _, leaf in made if isinstance(leaf, upstream.Cache)), None)
        if cache is None:
            return inputs
        if type(cache) is upstream.DynamicCache:
            inputs[name] = type(cache)(config=model.config.get_text_config(decoder=True))
        elif type(cache) is upstream.EncoderDecoderCache:
            inputs[name] = type(cache)(upstream.DynamicCache(), upstream.DynamicCache())
        else:
            message = f"the model returns a {type(cache).__name__}, and the sample has none"
            raise UsageError(message, hint="pass one in the sample, or use_cache=False")
    if dynamic and type(inputs[name]) is upstream.DynamicCache and any(inputs[name].is_sliding):
        wide = upstream.DynamicCache()
        for number, layer in enumerate(inputs[name].layers):
            if layer.is_initialized:
                if layer.get_seq_length() != layer.keys.shape[-2]:
                    raise UsageError("the cache lacks tokens before its window", hint=_SHORTER)
                wide.update(layer.keys, layer.values, number)
        inputs[name] = wide
    upstream.register_pytree_node(type(inputs[name]))
    return inputs


def _describe(model: Any, inputs: Mapping[str, Any], outputs: Any) -> Any:
    """Return the metadata of a component."""
    (_, in_spec), (leaves, out_spec) = map(pytree.tree_flatten, (((), inputs), outputs))
    program = SimpleNamespace(call_spec=SimpleNamespace(in_spec=in_spec, out_spec=out_spec))
    metadata = upstream.build_export_metadata(model, inputs, program, ["torch"])
    upstream.record_output_structure(metadata, outputs)
    # A cache holds tensors of its own, such as the size of its window, which are no outputs.
    hidden = {*range(len(leaves))} - {*_list_leaves(out_spec)}
    metadata.out_constants += [[n, leaves[n].tolist()] for n in sorted(hidden)]
    return metadata


def _list_leaves(spec: Any) -> list[int]:
    """Return the numbers of a structure's leaves, in the order of the artifact's outputs."""
    numbers = [torch.tensor(n) for n in range(spec.num_leaves)]
    found = output_leaves(pytree.tree_unflatten(numbers, spec))
    return [int(n) for _, n in found if isinstance(n, torch.Tensor)]


upstream.register_backend(EnginebayExporter, EnginebayRunner)
