"""Reading of TorchScript files and exported programs as IRs, without running code from the file.

``torch.jit.load`` never runs Python code. ``torch.export.load`` would unpickle any object, evaluate
size expressions as Python, and call any function whose name is in the file. This module lets torch
unpickle only tensors, and checks the expressions and functions first.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.environment import require
from enginebay.errors import ModelSourceError, first_line
from enginebay.ir.file_description import KEY, FileDescription, read_description
from enginebay.ir.model import IRModel
from enginebay.ir.muted_output import quiet
from enginebay.ir.program_check import check_program, find_torch_version
from enginebay.ir.torch_archive import check_archive
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from enginebay.params import IRKind

_WEIGHTS_ONLY_VARIABLE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def read_torchscript(path: str | Path) -> tuple[torch.jit.ScriptModule, IRModel]:
    """Load a TorchScript file onto the CPU.

    Returns:
        The module and the IR. The IR has no inputs and outputs if another tool wrote the file,
        since TorchScript does not record shapes.

    Raises:
        ModelSourceError: The file is missing, damaged or not TorchScript.
    """
    path = _check_path(path, "torchscript")  # says what to install without torch
    import torch

    extra = {KEY: ""}
    with quiet(), _readable_errors(path, "TorchScript"):
        # "cpu": a module that was saved on a GPU would otherwise need a GPU here too.
        module = torch.jit.load(path, "cpu", extra)  # type: ignore[no-untyped-call]  # torch's
    return module, _build_ir(
        path, "torchscript", read_description(extra[KEY], path) or FileDescription()
    )


def read_exported_program(path: str | Path) -> tuple[torch.export.ExportedProgram, IRModel]:
    """Load an exported program.

    Returns:
        The program and the IR. If another tool wrote the file, the names of the inputs are those
        in the graph, and the name of an output is its path in the value that the program returns.

    Raises:
        ModelSourceError: The file is missing, damaged or not an exported program.
    """
    path = _check_path(path, "exported_program")  # says what to install without torch
    import torch

    extra = {KEY: ""}
    with quiet(), _readable_errors(path, "an exported program"), _tensors_only():
        check_program(path)
        with _other_versions(path):
            program = torch.export.load(path, extra_files=extra)
    description = read_description(extra[KEY], path) or FileDescription(*program_specs(program))
    return program, _build_ir(path, "exported_program", description)


def program_specs(
    program: torch.export.ExportedProgram,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    symbols: Mapping[str, str] | None = None,
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the specs of an exported program's inputs and of its outputs.

    Args:
        program: The program.
        input_names: The names of the input tensors; by default their names in the graph.
        output_names: The names of the output tensors; by default their paths in the returned value.
        symbols: torch's symbol of a dynamic size, such as ``s27`` → the user's name.
    """
    signature = program.graph_signature
    inputs = _example_tensors(program, {str(name): name for name in signature.user_inputs})
    outputs = _example_tensors(program, _name_outputs(program, signature.user_outputs))
    symbols = symbols or {}
    return _build_specs(inputs, input_names, symbols), _build_specs(outputs, output_names, symbols)


def _name_outputs(
    program: torch.export.ExportedProgram, outputs: Sequence[object]
) -> dict[str, object]:
    """Return path in the value that the program returns → the output of the graph at this path."""
    from enginebay.tensors import output_leaves

    result = torch_private.unflatten_tree(outputs, program.call_spec.out_spec)
    return dict(output_leaves(result))


def _example_tensors(
    program: torch.export.ExportedProgram, names: Mapping[str, object]
) -> dict[str, torch.Tensor]:
    """Return the example tensors of the named nodes; nodes without a tensor are left out."""
    import torch

    by_node = {node.name: node.meta.get("val") for node in program.graph.nodes}
    values = {name: by_node.get(node) for name, node in names.items()}
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def _build_specs(
    tensors: Mapping[str, torch.Tensor], names: Sequence[str] | None, symbols: Mapping[str, str]
) -> tuple[TensorSpec, ...]:
    from enginebay.tensors import dtype_name

    named = zip(names or tensors, tensors.values(), strict=True)
    return tuple(
        TensorSpec(name, dtype_name(value), _name_dims(value, symbols)) for name, value in named
    )


def _name_dims(value: torch.Tensor, symbols: Mapping[str, str]) -> tuple[int | str, ...]:
    def name_size(size: int | torch.SymInt) -> int | str:
        # A dynamic size may be an expression: "2*s27 + 1".
        text = re.sub(r"[A-Za-z_]\w*", lambda match: symbols.get(match[0], match[0]), str(size))
        return int(text) if text.isdecimal() else text

    return tuple(name_size(size) for size in value.shape)


def _check_path(path: str | Path, kind: IRKind) -> Path:
    require("torch")
    path = Path(path).absolute()
    check_archive(path, kind)
    return path


def _build_ir(path: Path, kind: IRKind, description: FileDescription) -> IRModel:
    return IRModel(
        kind=kind,
        path=path,
        files=(path,),
        inputs=description.inputs,
        outputs=description.outputs,
        example_shapes=description.example_shapes,
    )


@contextmanager
def _readable_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except ModelSourceError:
        raise
    # torch's parsers raise many types: RuntimeError, KeyError, zipfile's and pickle's errors …
    except Exception as err:
        message = f"'{path}' is damaged or not {what} that torch can read: {first_line(err)}"
        raise ModelSourceError(message) from err


@contextmanager
def _other_versions(path: Path) -> Iterator[None]:
    """Say so if another version of torch has written the program that this one cannot read."""
    import torch

    try:
        yield
    except Exception as err:
        written = find_torch_version(path)
        if written in ("unknown", torch.__version__):
            raise
        own = written.partition("+")[0]
        raise ModelSourceError(
            f"'{path}' was written by torch {written}, and torch {torch.__version__} cannot read "
            f"it: {first_line(err)}",
            hint=f"export the model again with this torch, or pip install torch=={own}",
        ) from err


@contextmanager
def _tensors_only() -> Iterator[None]:
    # torch.export.load passes weights_only=False to torch.load; only this variable overrides it.
    before = os.environ.get(_WEIGHTS_ONLY_VARIABLE)
    os.environ[_WEIGHTS_ONLY_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_WEIGHTS_ONLY_VARIABLE]
        else:
            os.environ[_WEIGHTS_ONLY_VARIABLE] = before
