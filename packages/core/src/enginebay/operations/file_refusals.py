"""What to do if an engine refuses a model's ONNX file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError, EnginebayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.ir import IRModel
    from enginebay.tensors import NumpyArray


@contextmanager
def explain_refusal(
    file: IRModel | None, backend: str, inputs: Mapping[str, NumpyArray] | None = None
) -> Iterator[None]:
    """Say what is wrong with a file that an engine refuses, or else which engine runs it.

    Args:
        file: The user's file; nothing is said about other kinds than ONNX.
        backend: The engine's backend.
        inputs: Example inputs; without them, no other engine is tried.

    Raises:
        ConversionError: An engine refused the file, or onnx's checker finds a fault.
    """
    try:
        yield
    except ConversionError as err:
        if file is None or file.kind != "onnx":
            raise
        import onnx

        from enginebay.ir import find_fault

        if fault := find_fault(file.path):
            name = file.path.name
            text = f"'{name}' is not valid by onnx {onnx.__version__}: {fault}"
            raise ConversionError(text) from err
        if inputs and (other := _find_engine(file, backend, inputs)):
            runs = f"--backend {other}, which runs this file"
            err.hint = f"{err.hint}; or {runs}" if err.hint else runs
        raise


def _find_engine(file: IRModel, refused_by: str, inputs: Mapping[str, NumpyArray]) -> str:
    """Return the first installed backend that runs the file; "" if none does."""
    from enginebay.backend import load_hooks
    from enginebay.plugins import installed_backends
    from enginebay.reference import run_file

    for name in installed_backends():
        if name == refused_by:
            continue
        try:
            run_file(load_hooks(name), file.path, [inputs])
        except EnginebayError:
            continue
        return name
    return ""
