"""TorchScript and exported-program files as IRs, without unpickling anything.

``torch.jit.load`` never runs Python code from the file. ``torch.export.load`` would unpickle custom
objects and example inputs; here it may read tensors only. It would evaluate the size expressions in
the file as Python and call any function that it names, so these are checked before.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.environment import require
from enginebay.errors import ModelSourceError, first_line
from enginebay.ir.file_description import KEY, Description, read_description
from enginebay.ir.model import IRKind, IRModel
from enginebay.ir.noise import quiet
from enginebay.ir.program_check import check_program
from enginebay.ir.torch_archive import check_archive
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

_FORCE_SAFE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def read_torchscript(path: str | Path) -> tuple[torch.jit.ScriptModule, IRModel]:
    """Load a TorchScript file onto the CPU.

    Returns:
        The module, and the IR. A file that Enginebay did not write has no inputs and outputs in
        its IR: TorchScript does not keep their shapes.

    Raises:
        ModelSourceError: The file is missing, damaged, or something else than TorchScript.
    """
    import torch

    path = _checked(path, "torchscript")
    extra = {KEY: ""}
    with quiet(), _readable(path, "TorchScript"):
        module = torch.jit.load(path, "cpu", extra)  # type: ignore[no-untyped-call]  # torch's
    return module, _ir(path, "torchscript", read_description(extra[KEY], path) or Description())


def read_exported_program(path: str | Path) -> tuple[torch.export.ExportedProgram, IRModel]:
    """Load an exported program.

    Returns:
        The program, and the IR. The names are those of the program's graph where Enginebay did
        not write the file.

    Raises:
        ModelSourceError: The file is missing, damaged, or something else than an exported program.
    """
    import torch

    path = _checked(path, "exported_program")
    extra = {KEY: ""}
    with quiet(), _readable(path, "an exported program"), _tensors_only():
        check_program(path)
        program = torch.export.load(path, extra_files=extra)
    description = read_description(extra[KEY], path) or Description(*program_specs(program))
    return program, _ir(path, "exported_program", description)


def program_specs(
    program: torch.export.ExportedProgram,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    symbols: Mapping[str, str] | None = None,
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the inputs and outputs of an exported program.

    Args:
        program: The program.
        input_names: Instead of the graph's names of its input tensors.
        output_names: Instead of the graph's names of its output tensors.
        symbols: Names for the sizes that torch calls ``s0``, ``s27`` …
    """
    signature = program.graph_signature
    inputs = _tensors(program, {str(name): name for name in signature.user_inputs})
    outputs = _tensors(program, _by_key(program, signature.user_outputs))
    symbols = symbols or {}
    return _specs(inputs, input_names, symbols), _specs(outputs, output_names, symbols)


def _by_key(program: torch.export.ExportedProgram, outputs: Sequence[Any]) -> dict[str, Any]:
    """The graph's outputs by the keys of what the model returned."""
    from torch.utils import _pytree as pytree

    from enginebay.tensors import output_leaves

    result = pytree.tree_unflatten(list(outputs), program.call_spec.out_spec)
    return dict(output_leaves(result))


def _tensors(program: torch.export.ExportedProgram, names: Mapping[str, Any]) -> dict[str, Any]:
    """The example values of those that are tensors: inputs and outputs may be constants too."""
    import torch

    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    found = {name: values.get(node) for name, node in names.items()}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def _specs(
    tensors: Mapping[str, Any], names: Sequence[str] | None, symbols: Mapping[str, str]
) -> tuple[TensorSpec, ...]:
    from enginebay.tensors import dtype_name

    named = zip(names or tensors, tensors.values(), strict=True)
    return tuple(
        TensorSpec(name, dtype_name(value), _dims(value, symbols)) for name, value in named
    )


def _dims(value: torch.Tensor, symbols: Mapping[str, str]) -> tuple[int | str, ...]:
    def dim(size: Any) -> int | str:
        text = re.sub(r"[A-Za-z_]\w*", lambda found: symbols.get(found[0], found[0]), str(size))
        return int(text) if text.isdecimal() else text

    return tuple(dim(size) for size in value.shape)


def _checked(path: str | Path, kind: IRKind) -> Path:
    require("torch")
    path = Path(path).absolute()
    check_archive(path, kind)
    return path


def _ir(path: Path, kind: IRKind, description: Description) -> IRModel:
    return IRModel(
        kind=kind,
        path=path,
        files=(path,),
        inputs=description.inputs,
        outputs=description.outputs,
        example_shapes=description.example_shapes,
    )


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except ModelSourceError:
        raise
    # torch raises what its parsers raise: RuntimeError, KeyError, zipfile's and pickle's errors …
    except Exception as err:
        message = f"'{path}' is damaged or not {what} that torch can read: {first_line(err)}"
        raise ModelSourceError(message) from err


@contextmanager
def _tensors_only() -> Iterator[None]:
    before = os.environ.get(_FORCE_SAFE)
    os.environ[_FORCE_SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FORCE_SAFE]
        else:
            os.environ[_FORCE_SAFE] = before
