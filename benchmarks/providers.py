"""A call on an execution provider in a package of its own, against the bare session on it."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import enginebay as eb
from benchmarks import models
from benchmarks.table import Row
from benchmarks.turns import calls, compare
from enginebay.errors import EnginebayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor


def _linears(count: int, width: int, batch: int) -> tuple[nn.Module, Tensor]:
    """Return a network that every provider takes whole."""
    torch.manual_seed(0)
    layers = [layer for _ in range(count) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers).eval(), torch.randn(batch, width)


#: From the quickest to the slowest. The third takes some 20 ms in Qualcomm's emulator, and the
#: fourth on other providers, of which not all have convolutions.
CASES: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "Add, 16 floats": lambda: models.add(16),
    "digits": models.digits,
    "4 Linear of 128": lambda: _linears(4, 128, 16),
    "8 Linear of 1024": lambda: _linears(8, 1024, 32),
    "ResNet-50": models.resnet50,
}
#: Seconds of a call, in an emulator, from which neither this nor the next models are measured.
_SLOW = 0.5
#: Seconds of a call from which Enginebay's share must be small.
_LONG = 5e-3


def run() -> Iterator[Row]:
    """Measure a row for each installed provider and each model that it runs whole."""
    from enginebay_onnxruntime.provider_packages import list_installed

    modules = [module for module, _, _ in list_installed()]
    if not modules:
        _skip("no provider's package is installed")
    for module in modules:
        for what, build in CASES.items():
            try:
                with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
                    row = _measure(module, what, build(), Path(folder) / "artifact")
            except EnginebayError as err:
                _skip(f"{what}: {str(err).partition(':')[0]}")
                continue
            if row is None:
                break
            yield row


def _measure(module: str, what: str, model: tuple[nn.Module, Tensor], folder: Path) -> Row | None:
    """Return a row; None if the provider is too slow."""
    network, example = model
    params = {"providers": [module], "intra_op_threads": 1}
    artifact = eb.convert(
        eb.export(network, example, path=folder.with_name("model.onnx"), backend="onnxruntime"),
        backend="onnxruntime",
        work_dir=folder,
        params=params,
    )
    feed = {artifact.inputs[0].name: example.numpy()}
    bare = calls(_load_bare(artifact, module).run, [artifact.outputs[0].name], feed)
    if (seconds := bare(1)) > _SLOW:
        _skip(f"{what} on {module} takes {seconds:.1f} s")
        return None
    long = (seconds := min(bare(1) for _ in range(3))) > _LONG
    count = 1 if long else max(1, int(_LONG / 5 / seconds))
    with eb.load(artifact) as wrapper:
        found = compare(calls(wrapper, feed), bare, calls_a_turn=count, turns=60 if long else 200)
    unit = "ms" if found.bare > 1e-3 else "µs"
    return Row.of("providers", what, f"{module} alone", found, unit, 1.03 if long else 1.15)


def _load_bare(artifact: eb.Artifact, module: str) -> Any:
    import onnxruntime

    from enginebay_onnxruntime.provider_packages import plug_in

    provider = plug_in(module)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # as Enginebay's
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([provider.handle], provider.complete_options({}))
    return onnxruntime.InferenceSession(artifact.path / artifact.files[0], options)


def _skip(reason: str) -> None:
    print(f"providers: skipped: {reason}", file=sys.stderr)
