"""TorchScript, frozen for pnnx and run once, with the source lines of its operators.

It runs in a child process: inputs of our own making may be indices beyond a table, at which not
every operator raises.
"""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.authors import call
from enginebay.errors import ChildCrashedError, ConversionError, MissingDependencyError
from enginebay_ncnn.child_process import run_frozen
from enginebay_ncnn.stable import replace_unstable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from enginebay.authors import NumpyArray

_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d+)\)", re.MULTILINE)

#: Frames that are not the model's own code.
_FOREIGN = ("/torch/", "/src/enginebay", "-packages/enginebay")

#: The namespaces of operators that pnnx reads; it ends with a signal where there is another one.
_KNOWN = ("aten", "prim", "onnx")

#: How many sets of inputs to try: up to three random ones come before the caller's example.
_TRIALS = 5


@dataclass(frozen=True)
class Frozen:
    """A frozen module: constants folded, attributes inlined, outputs unchanged.

    pnnx crashes on some modules that are not frozen.

    Attributes:
        module: The module.
        path: Its file, for pnnx.
        examples: Inputs in the model's order.
        outputs: The outputs for these inputs.
        named: The inputs by name.
        places: Lines of the model's source by operator.
    """

    module: Any
    path: Path
    examples: tuple[Tensor, ...]
    outputs: tuple[NumpyArray, ...]
    named: Mapping[str, NumpyArray]
    places: Mapping[str, list[str]]

    @classmethod
    def read(
        cls, path: Path, trials: Sequence[Mapping[str, NumpyArray]], folder: Path, timeout: float
    ) -> Frozen:
        """Freeze a TorchScript file.

        Args:
            path: The file.
            trials: Sets of inputs by name; the first that the file runs on becomes the examples.
            folder: The folder for the frozen file.
            timeout: Seconds that a run may take.

        Raises:
            ConversionError: The file runs on none of them, or takes its process down.
            ChildTimeoutError: It ran past its time limit.
            MissingDependencyError: torch is not installed.
        """
        try:
            import torch
        except ImportError as err:
            raise MissingDependencyError(
                "converting TorchScript needs torch", hint="pip install 'enginebay[export]'"
            ) from err
        with quiet():
            load: Any = torch.jit.load
            model = load(str(path), map_location="cpu").eval()
        _restore_numbers(model)
        with torch.no_grad(), quiet():
            # Without numerics: pnnx folds a batch norm into a convolution itself.
            frozen: Any = torch.jit.freeze(model, optimize_numerics=False)
            replace_unstable(frozen.graph)
        target = folder / "frozen.pt"
        save(frozen, target)
        named, outputs = _first_run(target, trials, timeout, apart=not foreign_operators(frozen))
        tensors = tuple(torch.from_numpy(array.copy()) for array in named.values())
        return cls(frozen, target, tensors, outputs, named, _places(frozen.inlined_graph))

    @property
    def has_attention(self) -> bool:
        """True if a part of it may be an attention."""
        kinds = {node.kind() for node in self.module.inlined_graph.nodes()}
        return bool(kinds & {"aten::softmax", "aten::scaled_dot_product_attention"})


def save(module: Any, target: Path) -> None:
    """Write TorchScript through a file of Python's: on a full disk torch's ends the process."""
    import torch

    with quiet(), target.open("wb") as file:
        torch.jit.save(module, file)


def first_line(err: Exception) -> str:
    """Return the kind of an error of torch's, and the first line of its message."""
    lines = str(err).strip().splitlines()
    return f"{type(err).__name__}: {lines[0] if lines else repr(err)}"


def _restore_numbers(model: Any) -> None:
    """Turn tensors back into numbers where a trace multiplies or divides by them.

    A trace saves the 0.5 of ``indices * 0.5`` as a float64 tensor. The product is float32 when
    the file runs, but float64 when freezing computes a constant one, and then the frozen module
    does not run.
    """
    import torch

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


@contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's warnings that TorchScript, which pnnx reads, is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def foreign_operators(module: Any) -> list[str]:
    """The operators of a module that are not torch's own, of which no other process knows."""
    kinds = {node.kind() for node in module.inlined_graph.nodes()}
    return sorted(kind for kind in kinds if kind.partition("::")[0] not in _KNOWN)


def _first_run(
    path: Path, trials: Sequence[Mapping[str, NumpyArray]], timeout: float, *, apart: bool
) -> tuple[Mapping[str, NumpyArray], tuple[NumpyArray, ...]]:
    """The first inputs that a file runs on, and its outputs; ``apart``, in a child process."""
    folder = path.with_suffix(".run")
    folder.mkdir()
    tried = trials[:_TRIALS]
    for number, named in enumerate(tried):
        np.savez(folder / f"{number}.npz", *named.values())
    first = 0
    failure: Exception | None = None
    while first < len(tried):
        try:
            if apart:
                asked = ("enginebay_ncnn.child_process:run_frozen", path, folder, first)
                number = call(*asked, timeout=timeout, result_type=int, subject="its process")
            else:
                number = run_frozen(path, folder, first)
        except (ChildCrashedError, ConversionError) as err:
            failure = failure or err
            started = len([*folder.glob("*.started")])
            first = started if started > first else len(tried)  # it ends as soon as it is loaded
            continue
        with np.load(folder / "outputs.npz", allow_pickle=False) as file:
            return tried[number], tuple(file[key] for key in file.files)
    message = f"the TorchScript does not run on {_shapes(trials[0])}: {failure}"
    raise ConversionError(message) from failure


def flat(outputs: Any) -> list[Any]:
    """The tensors of what TorchScript returns, in order."""
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, list | tuple):
        return [tensor for each in outputs for tensor in flat(each)]
    return [outputs]


def _places(graph: Any) -> dict[str, list[str]]:
    """Return source lines by operator name, such as ``slice`` for ``aten::slice``."""
    places: dict[str, list[str]] = {}
    for node in graph.nodes():
        name = node.kind().rpartition("::")[2].rstrip("_")
        frames = [
            f"{frame['file']}:{frame['line']}" for frame in _FRAME.finditer(node.sourceRange())
        ]
        own = [frame for frame in frames if not any(part in frame for part in _FOREIGN)]
        place = "/".join(own[0].split("/")[-2:]) if own else None
        if place and place not in places.setdefault(name, []):
            places[name].append(place)
    return places


def _shapes(examples: Mapping[str, NumpyArray]) -> str:
    return ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in examples.items())
