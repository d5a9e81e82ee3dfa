"""Source lines of the user's model, found in call stacks and tracebacks."""

from __future__ import annotations

import re
import sys
import warnings
from itertools import takewhile
from pathlib import Path
from traceback import walk_stack, walk_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

#: Torch calls the others when it exports: their lines are not the model's either.
_LIBRARIES = ("torch", "numpy", "enginebay", "onnx", "onnx_ir", "onnxscript", "sympy")


def model_line(frame: FrameType, outer: int = 0) -> str:
    """Return the model's line in the call stack of a frame, such as ``folder/net.py:12``.

    This is the innermost line outside Enginebay, torch, NumPy and the export libraries; empty if
    there is no such line. Lines of the frame whose id is ``outer``, and of its callers, do not
    count: they call the model.
    """
    return _find_line(takewhile(lambda step: id(step[0]) != outer, walk_stack(frame)))


def format_raising_line(err: BaseException) -> str:
    """Return where a model or a rewriter raised an error, as in ``" (folder/net.py:12)"``.

    For a rewriter, this includes its target: ``', in the function rewriter of "torch.relu"'``.

    Empty if all lines of the error's traceback are in Enginebay, torch, NumPy or export libraries.
    """
    line = _find_script_line(str(err)) or _find_line(reversed([*walk_tb(err.__traceback__)]))
    notes = [note for note in getattr(err, "__notes__", ()) if " rewriter of " in note]
    places = ", ".join([line, *notes[:1]] if line else notes[:1])
    return f" ({places})" if places else ""


def is_model_file(file: str) -> bool:
    """Return True unless a Python file belongs to Enginebay, torch, NumPy or an export library."""
    return not file.startswith(_list_library_paths())


def _list_library_paths() -> tuple[str, ...]:
    modules = (sys.modules.get(name) for name in _LIBRARIES)
    folders = (str(Path(str(module.__file__)).parent) for module in modules if module)
    # A warning's frames include Python's warnings.py, an import's the frozen importlib, and an
    # exported program's generated code.
    return (*folders, warnings.__file__, "<frozen", "<eval_with_key>")


def _find_script_line(message: str) -> str:
    """Return the last line of the model's source code in an error of TorchScript; "" if none."""
    # A file also has the traceback of its own code, which comes first.
    _, found, original = message.rpartition("Traceback of TorchScript")
    original = original if found else ""
    # The innermost line comes last in a script's traceback, and first in a trace's.
    frames = [*reversed(re.findall(r'File "(.+\.py)", line (\d+)', original))]
    frames += re.findall(r"(?m)^(.+\.py)\((\d+)\): ", original)
    own = (frame for frame in frames if "/torch/" not in frame[0])
    return next((f"{'/'.join(Path(file).parts[-2:])}:{line}" for file, line in own), "")


def _find_line(steps: Iterable[tuple[FrameType, int]]) -> str:
    libraries = _list_library_paths()  # once: a stack has many frames
    for frame, line in steps:
        if not (file := frame.f_code.co_filename).startswith(libraries):
            return f"{'/'.join(Path(file).parts[-2:])}:{line}"
    return ""
