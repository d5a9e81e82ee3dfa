"""TorchScript, frozen for pnnx and run once, with the source lines of its operators."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError, MissingDependencyError
from enginebay_ncnn.stable import replace_unstable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from enginebay.authors import NumpyArray

_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d+)\)", re.MULTILINE)

#: Frames that are not the model's own code.
_FOREIGN = ("/torch/", "/src/enginebay", "-packages/enginebay")


@dataclass(frozen=True)
class Frozen:
    """A frozen module: constants folded, attributes inlined, outputs unchanged.

    pnnx crashes on some modules that are not frozen.

    Attributes:
        module: The module.
        examples: Inputs in the model's order.
        outputs: The outputs for these inputs.
        named: The inputs by name.
        places: Lines of the model's source by operator.
    """

    module: Any
    examples: tuple[Tensor, ...]
    outputs: tuple[NumpyArray, ...]
    named: Mapping[str, NumpyArray]
    places: Mapping[str, list[str]]

    @classmethod
    def read(cls, path: Path, trials: Sequence[Mapping[str, NumpyArray]]) -> Frozen:
        """Freeze a TorchScript file.

        Args:
            path: The file.
            trials: Sets of inputs by name; the first that the file runs on becomes the examples.

        Raises:
            ConversionError: The file runs on none of them.
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
        failure: RuntimeError | None = None
        for named in trials:
            tensors = tuple(torch.from_numpy(array.copy()) for array in named.values())
            try:
                with torch.no_grad(), quiet():
                    outputs = frozen(*(tensor.clone() for tensor in tensors))
            except RuntimeError as err:
                failure = failure or err
                continue
            arrays = tuple(tensor.numpy() for tensor in _flat(outputs))
            return cls(frozen, tensors, arrays, named, _places(frozen.inlined_graph))
        lines = [line for line in str(failure).splitlines() if line.strip()]
        raise ConversionError(
            f"the TorchScript does not run on {_shapes(trials[0])}: {lines[-1]}"
        ) from failure

    @property
    def has_attention(self) -> bool:
        """True if a part of it may be an attention."""
        kinds = {node.kind() for node in self.module.inlined_graph.nodes()}
        return bool(kinds & {"aten::softmax", "aten::scaled_dot_product_attention"})

    def save(self, folder: Path) -> Path:
        """Write the file for pnnx."""
        target = folder / "frozen.pt"
        save(self.module, target)
        return target


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


def _flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, list | tuple):
        return [tensor for each in outputs for tensor in _flat(each)]
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
