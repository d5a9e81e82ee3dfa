"""A folder that ``ExportedModel.save_pretrained`` of transformers wrote, read without torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay.authors.files import read_ir
from enginebay.commands import Result, Table
from enginebay.errors import ArtifactError, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: Name of an input → its sizes; an open one is a text.
Sizes: TypeAlias = dict[str, tuple[int | str, ...]]

#: The version of ``export.json`` that transformers 5.24 writes.
_SCHEMA = 1


@dataclass(frozen=True)
class ExportedComponent:
    """A file of the folder.

    Attributes:
        name: Its name in ``export.json``, such as ``decode``.
        file: The file's name.
        architecture: The class of the module that was exported.
        arguments: The arguments of ``forward`` with which it was traced.
        sizes: For ONNX, the sizes of the inputs.
        outputs: For ONNX, the names of the outputs.
    """

    name: str
    file: str
    architecture: str
    arguments: tuple[str, ...]
    sizes: Sizes
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ExportedFolder(Result):
    """The content of a folder.

    Attributes:
        path: The folder.
        format: The format of its files: ``onnx``, ``openvino``, ``executorch`` or ``dynamo``.
        transformers: The version of transformers that exported it.
        numbers: The integers in ``config.json``, such as ``num_hidden_layers``, by path.
        components: The files.
    """

    path: str
    format: str
    transformers: str
    numbers: dict[str, int]
    components: tuple[ExportedComponent, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield a line about the folder, and a table of its components."""
        yield f"{self.format}, exported by transformers {self.transformers}"
        rows = [
            (each.name, each.file, " ".join(each.arguments), _list_open_axes(each))
            for each in self.components
        ]
        yield Table(("COMPONENT", "FILE", "ARGUMENTS", "OPEN AXES"), rows)


def read_folder(folder: str | Path) -> ExportedFolder:
    """Read a folder that ``ExportedModel.save_pretrained`` wrote, without its weights.

    Raises:
        UsageError: The folder is no such folder.
        ArtifactError: Its ``export.json`` is damaged or of another schema, or a file is missing.

    Example:
        >>> print(read_folder("exported"))  # doctest: +SKIP
        onnx, exported by transformers 5.24.0
        COMPONENT  FILE        ARGUMENTS                 OPEN AXES
        model      model.onnx  input_ids attention_mask  input_ids:0,1 attention_mask:0,1
    """
    path = Path(folder)
    if not (path / "export.json").is_file():
        raise UsageError(
            f"'{folder}' is not an exported model: it has no export.json",
            hint="pass the folder that ExportedModel.save_pretrained of transformers wrote",
        )
    again = "export the model again with the installed transformers"
    try:
        manifest = json.loads((path / "export.json").read_bytes())
        if (schema := manifest["schema_version"]) != _SCHEMA:
            text = (
                f"'{folder}' has schema {schema}; expected schema {_SCHEMA}, of transformers 5.24"
            )
            raise ArtifactError(text, hint=again)
        entries = manifest["components"]
        components = [
            ExportedComponent(
                name, entry["file"], str(about.get("architecture")), tuple(about["kwargs"]), {}, ()
            )
            for name, entry in entries.items()
            for about in [entry["metadata"]]
        ]
        versions = {e["metadata"]["packages"]["transformers"] for e in entries.values()}
        config = path / "config.json"
        numbers = dict(list_numbers(json.loads(config.read_bytes()))) if config.exists() else {}
        found = ExportedFolder(
            str(folder), manifest["export_format"], ", ".join(versions), numbers, ()
        )
    except (ValueError, LookupError, TypeError, AttributeError) as err:
        raise ArtifactError(f"'{folder}' is damaged: {one_line(err)}", hint=again) from err
    for each in components:
        if Path(each.file).name != each.file or not (path / each.file).is_file():
            text = f"'{folder}' lacks the file '{each.file}' of its component '{each.name}'"
            raise ArtifactError(text, hint=again)
    if found.format == "onnx":
        components = [_read_tensors(path, each) for each in components]
    return replace(found, components=tuple(components))


def list_numbers(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the path and the value of each integer in a config.

    Example:
        >>> [*list_numbers({"vocab_size": 50, "tie": True, "text_config": {"layers": 2}})]
        [('vocab_size', 50), ('text_config.layers', 2)]
    """
    for name, value in config.items():
        if isinstance(value, dict):
            yield from list_numbers(value, f"{prefix}{name}.")
        elif type(value) is int:
            yield f"{prefix}{name}", value


def _read_tensors(folder: Path, component: ExportedComponent) -> ExportedComponent:
    ir = read_ir(folder / component.file)
    sizes = {
        # torch writes some fixed sizes as texts.
        spec.name: tuple(int(dim) if str(dim).isdecimal() else dim for dim in spec.dims or ())
        for spec in ir.inputs
    }
    return replace(component, sizes=sizes, outputs=tuple(spec.name for spec in ir.outputs))


def _list_open_axes(component: ExportedComponent) -> str:
    axes = {
        name: ",".join(str(axis) for axis, size in enumerate(sizes) if isinstance(size, str))
        for name, sizes in component.sizes.items()
    }
    return " ".join(f"{name}:{which}" for name, which in axes.items() if which) or "-"
