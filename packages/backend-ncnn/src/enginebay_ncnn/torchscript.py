"""TorchScript before pnnx sees it: frozen, run once, and asked where its operators come from."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from enginebay.authors import NumpyArray

_FRAME = re.compile(r"^(?P<file>\S+\.py)\((?P<line>\d+)\)", re.MULTILINE)

#: Code between the model's and the operator.
_BETWEEN = ("/torch/", "/src/enginebay", "-packages/enginebay")


@dataclass(frozen=True)
class Frozen:
    """A frozen module: constants folded, attributes inlined, outputs unchanged.

    pnnx crashes on some modules that are not frozen.

    Attributes:
        module: The module.
        examples: Inputs in the model's order.
        outputs: What it gives for them.
        named: The inputs by name.
        places: The lines of the model's source where each kind of operator stands.
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
            trials: Inputs by name, several of which the first that it runs on are taken.

        Raises:
            ConversionError: The file does not run on any of the trials.
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
            # Without numerics: folding a batch norm into a convolution is pnnx's business.
            frozen: Any = torch.jit.freeze(model, optimize_numerics=False)
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
        """Whether something in it may look like an attention."""
        kinds = {node.kind() for node in self.module.inlined_graph.nodes()}
        return bool(kinds & {"aten::softmax", "aten::scaled_dot_product_attention"})

    def save(self, folder: Path) -> Path:
        """Write it for pnnx."""
        import torch

        target = folder / "frozen.pt"
        with quiet():
            torch.jit.save(self.module, str(target))
        return target


def _restore_numbers(model: Any) -> None:
    """Multiply and divide by numbers again where a trace was saved with tensors instead.

    ``indices * 0.5`` is float32, and so it is where the file runs. Freezing computes what is
    constant by another rule, that of a float64 tensor, and the module does not run any more.
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
    """Let torch not warn: TorchScript is deprecated, and it is what pnnx reads."""
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
    """Source lines by operator name, as ``slice`` of ``aten::slice``."""
    places: dict[str, list[str]] = {}
    for node in graph.nodes():
        name = node.kind().rpartition("::")[2].rstrip("_")
        frames = [
            f"{frame['file']}:{frame['line']}" for frame in _FRAME.finditer(node.sourceRange())
        ]
        own = [frame for frame in frames if not any(part in frame for part in _BETWEEN)]
        place = "/".join(own[0].split("/")[-2:]) if own else None
        if place and place not in places.setdefault(name, []):
            places[name].append(place)
    return places


def _shapes(examples: Mapping[str, NumpyArray]) -> str:
    return ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in examples.items())
