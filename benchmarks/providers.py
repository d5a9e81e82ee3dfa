"""A call on an execution provider in a package of its own, against the bare session on it."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

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


class _Case(NamedTuple):
    what: str
    model: Callable[[], tuple[nn.Module, Tensor]]
    calls_a_turn: int
    turns: int
    limit: float


def _linears() -> tuple[nn.Module, Tensor]:
    """Return layers for providers without convolutions, which compute as long as ResNet-50."""
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers).eval(), torch.randn(64, 1024)


#: From the quickest to the slowest.
CASES = (
    _Case("Add, 16 floats", lambda: models.add(16), 200, 200, 1.15),
    _Case("digits", models.digits, 5, 200, 1.15),
    _Case("8 Linear", _linears, 1, 60, 1.03),
    _Case("ResNet-50", models.resnet50, 1, 60, 1.03),
)
#: Seconds of a call, in an emulator, from which neither this nor the next models are measured.
_SLOW = 0.5


def run() -> Iterator[Row]:
    """Measure a row for each installed provider and each model that it runs whole."""
    from enginebay_onnxruntime.provider_packages import list_installed

    modules = [module for module, _, _ in list_installed()]
    if not modules:
        _skip("no provider's package is installed")
    for module in modules:
        for case in CASES:
            try:
                with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
                    row = _measure(module, case, Path(folder) / "artifact")
            except EnginebayError as err:
                _skip(f"{case.what}: {str(err).partition(':')[0]}")
                continue
            if row is None:
                break
            yield row


def _measure(module: str, case: _Case, folder: Path) -> Row | None:
    """Return a row; None if the provider is too slow."""
    model, example = case.model()
    params = {"providers": [module], "intra_op_threads": 1}
    artifact = eb.convert(
        eb.export(model, example, path=folder.with_name("model.onnx"), backend="onnxruntime"),
        backend="onnxruntime",
        work_dir=folder,
        params=params,
    )
    feed = {artifact.inputs[0].name: example.numpy()}
    bare = calls(_load_bare(artifact, module).run, [artifact.outputs[0].name], feed)
    if (seconds := bare(1)) > _SLOW:
        _skip(f"{case.what} on {module} takes {seconds:.1f} s")
        return None
    with eb.load(artifact) as wrapper:
        found = compare(
            calls(wrapper, feed), bare, calls_a_turn=case.calls_a_turn, turns=case.turns
        )
    unit = "ms" if found.bare > 1e-3 else "µs"
    return Row.of("providers", case.what, f"{module} alone", found, unit, case.limit)


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
