"""Freeze TorchScript for pnnx, and run it once to get the expected outputs.

The model runs in a child process: random inputs may be indices beyond the end of a table, on which
some operators crash instead of raising an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.authors import isolation
from enginebay.environment import install_command
from enginebay.errors import ChildCrashedError, ConversionError, MissingDependencyError
from enginebay_ncnn.child_process import run_frozen
from enginebay_ncnn.overflow import replace_overflowing
from enginebay_ncnn.torchscript_files import load_torchscript, save_torchscript, silence_warnings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch
    from torch import Tensor

    from enginebay.authors.arrays import NumpyArray

_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d+)\)", re.MULTILINE)

#: Parts of the paths of source files that do not belong to the model.
_FOREIGN_PATHS = ("/torch/", "/src/enginebay", "-packages/enginebay")

#: The namespaces of operators that pnnx reads; it crashes on any other.
_KNOWN_NAMESPACES = ("aten", "prim", "onnx")

#: The number of sets of inputs to try: up to three random ones come before the caller's samples.
_MAX_TRIALS = 5


@dataclass(frozen=True)
class Frozen:
    """A TorchScript module after ``torch.jit.freeze``, with example inputs and their outputs.

    pnnx crashes on some modules that are not frozen.

    Attributes:
        module: The frozen module.
        path: The file of the frozen module, for pnnx.
        examples: The example inputs in the model's order.
        outputs: The outputs for the example inputs.
        named: The example inputs by name.
        source_lines: Lines of the model's source code, by operator name.
    """

    module: Any
    path: Path
    examples: tuple[Tensor, ...]
    outputs: tuple[NumpyArray, ...]
    named: Mapping[str, NumpyArray]
    source_lines: Mapping[str, list[str]]

    @classmethod
    def read(
        cls, path: Path, trials: Sequence[Mapping[str, NumpyArray]], folder: Path, timeout: float
    ) -> Frozen:
        """Freeze a TorchScript file, and run it to get the expected outputs.

        Args:
            path: The TorchScript file.
            trials: Sets of inputs by name; the first set on which the file runs is the example.
            folder: The folder for the frozen file.
            timeout: Time limit of a run in seconds.

        Raises:
            ConversionError: The file runs on none of the sets, or crashes.
            ChildTimeoutError: A run exceeded its time limit.
            MissingDependencyError: torch is not installed.
        """
        try:
            import torch
        except ImportError as err:
            raise MissingDependencyError(
                "converting TorchScript requires torch", hint=install_command("enginebay[export]")
            ) from err
        model = load_torchscript(path).eval()
        _restore_numbers(model)
        with torch.no_grad(), silence_warnings():
            # Without optimize_numerics: pnnx folds a batch norm into a convolution itself.
            frozen: Any = torch.jit.freeze(model, optimize_numerics=False)
            replace_overflowing(frozen.graph)
        target = folder / "frozen.pt"
        save_torchscript(frozen, target)
        named, outputs = _first_run(
            target, trials, timeout, in_child=not find_foreign_operators(frozen)
        )
        tensors = tuple(torch.from_numpy(array.copy()) for array in named.values())
        return cls(
            frozen, target, tensors, outputs, named, _find_source_lines(frozen.inlined_graph)
        )

    @property
    def has_attention(self) -> bool:
        """True if pnnx may fuse operators of the module into an attention layer."""
        kinds = {node.kind() for node in self.module.inlined_graph.nodes()}
        return bool(kinds & {"aten::softmax", "aten::scaled_dot_product_attention"})


def _restore_numbers(model: Any) -> None:
    """In a trace's products and quotients, replace scalar float64 tensors with Python numbers."""
    import torch

    # A trace saves the 0.5 of "indices * 0.5" as a float64 tensor. When the file runs, the product
    # is float32. When freezing folds a constant product, it is float64, and the module then fails.
    for module in model.modules():
        if not module._c._has_method("forward"):  # a list of modules
            continue
        graph = module.graph
        for node in list(graph.nodes()):
            value = node.output().toIValue() if node.kind() == "prim::Constant" else None
            if not isinstance(value, torch.Tensor) or value.ndim or value.dtype != torch.float64:
                continue
            number = graph.create("prim::Constant")
            number.f_("value", value.item())
            number.output().setType(torch._C.FloatType.get())
            number.insertBefore(node)
            for use in list(node.output().uses()):
                if use.user.kind() in ("aten::mul", "aten::mul_", "aten::div", "aten::div_"):
                    use.user.replaceInput(use.offset, number.output())


def find_foreign_operators(module: torch.jit.ScriptModule) -> list[str]:
    """Return the names of the custom operators in a module.

    These operators are registered only in this process, so no child process can run the module.
    """
    kinds = {node.kind() for node in module.inlined_graph.nodes()}
    return sorted(kind for kind in kinds if kind.partition("::")[0] not in _KNOWN_NAMESPACES)


def _first_run(
    path: Path, trials: Sequence[Mapping[str, NumpyArray]], timeout: float, *, in_child: bool
) -> tuple[Mapping[str, NumpyArray], tuple[NumpyArray, ...]]:
    """Run a TorchScript file until an input set causes no error; return the set and the outputs."""
    folder = path.with_suffix(".run")
    folder.mkdir()
    tried = trials[:_MAX_TRIALS]
    for number, named in enumerate(tried):
        np.savez(folder / f"{number}.npz", *named.values())
    first = 0
    failure: Exception | None = None
    while first < len(tried):
        try:
            if in_child:
                arguments = ("enginebay_ncnn.child_process:run_frozen", path, folder, first)
                number = isolation.call(
                    *arguments, timeout=timeout, result_type=int, subject="its process"
                )
            else:
                number = run_frozen(path, folder, first)
        except (ChildCrashedError, ConversionError) as err:
            failure = failure or err
            started = len([*folder.glob("*.started")])
            first = started if started > first else len(tried)  # it crashes as soon as it is loaded
            continue
        with np.load(folder / "outputs.npz", allow_pickle=False) as file:
            return tried[number], tuple(file[key] for key in file.files)
    message = f"the TorchScript does not run on {_describe_shapes(trials[0])}: {failure}"
    raise ConversionError(message) from failure


def _find_source_lines(graph: Any) -> dict[str, list[str]]:
    """Return the model's source lines by operator name, such as ``slice`` for ``aten::slice``."""
    lines: dict[str, list[str]] = {}
    for node in graph.nodes():
        name = node.kind().rpartition("::")[2].rstrip("_")
        frames = [
            f"{frame['file']}:{frame['line']}" for frame in _FRAME.finditer(node.sourceRange())
        ]
        frames = [frame for frame in frames if not any(part in frame for part in _FOREIGN_PATHS)]
        line = "/".join(frames[0].split("/")[-2:]) if frames else None
        if line and line not in lines.setdefault(name, []):
            lines[name].append(line)
    return lines


def _describe_shapes(examples: Mapping[str, NumpyArray]) -> str:
    return ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in examples.items())
