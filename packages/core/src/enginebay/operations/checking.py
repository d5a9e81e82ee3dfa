"""One check-env stage of a backend, and a trial of two artifacts; both run a tiny model."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.environment import (
    CUSTOM_OPS,
    EnvReport,
    Tier,
    check_distributions,
    failed,
    passed,
    require,
    skipped,
)
from enginebay.errors import EnginebayError, FallbackError, InferenceError, ParamsError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.artifact import ConvertedEngine
    from enginebay.hooks import WrapperRequest
    from enginebay.inference import Wrapper
    from enginebay.ir import IRModel
    from enginebay.operations.backend import Backend
    from enginebay.params import BackendParams
    from enginebay.tensors import NumpyArray

#: relu(2 x) on float32[1, 3, 4, 4]. A file, since an engine that converts ONNX may be checked
#: without torch and onnx. The tests build the same file.
_TINY_ONNX = Path(__file__).with_name("tiny.onnx")
_FACTOR, _OTHER_FACTOR = 2, -3
_TINY_SHAPE = (1, 3, 4, 4)
#: Seconds for the trial of two artifacts.
_TRIAL_SECONDS = 60.0


def serve_tiers(
    name: str, params: dict[str, Any], with_custom_ops: bool
) -> Callable[[bytes], bytes]:
    """In a child process: return the function that runs the check-env stage that it gets."""
    from enginebay.operations.backend import get_backend

    check = partial(_check_tier, get_backend(name), params, with_custom_ops)
    return lambda tier: msgspec.json.encode(check(Tier(tier.decode())))


def _check_tier(
    backend: Backend, params: dict[str, Any], with_custom_ops: bool, tier: Tier
) -> EnvReport:
    from enginebay.hooks import CheckEnvRequest

    core_report = EnvReport()
    if tier is Tier.METADATA:
        core_report = check_distributions(backend.info.runtime_distributions)  # imports nothing
    with TemporaryDirectory(prefix="enginebay-check-") as folder:
        request = CheckEnvRequest(
            tier=tier,
            params=backend.Params.from_mapping(params),
            with_custom_ops=with_custom_ops,
            work_dir=Path(folder),
            backend=backend.name,
        )
        try:
            report = core_report + backend.check_tier(request)
        except PluginError as err:
            return core_report + failed(
                tier, "the plugin's check", found=str(err), fix=err.hint or ""
            )
        if tier is Tier.DEVICE and with_custom_ops and report.ok:
            report += _require_custom_ops(backend.name, report)
        if tier is Tier.SMOKE and (lacking := backend.missing_converter()):
            found = f"without {lacking.name}, this machine runs artifacts, and converts no model"
            report += skipped(tier, "build, run, compare", found)
        elif tier is Tier.SMOKE and report.ok:
            report += _run_tiny_model(backend, request.params, Path(folder))
    return report


def _require_custom_ops(name: str, report: EnvReport) -> EnvReport:
    # A plugin without this check cannot load custom operators.
    if any(check.name == CUSTOM_OPS for check in report.checks):
        return EnvReport()
    return failed(
        Tier.DEVICE,
        CUSTOM_OPS,
        found=f"backend '{name}' does not load custom operators",
        wanted="a backend that loads custom operators",
        fix=f"enginebay check-env {name}  # without --with-custom-ops",
    )


def _run_tiny_model(backend: Backend, params: BackendParams, folder: Path) -> EnvReport:
    import numpy as np

    from enginebay.backend import device_kind

    what = "build, run, compare"
    x = _tiny_input()
    try:
        with backend.load(_convert_tiny_model(backend, params, folder)) as wrapper:
            receipt = wrapper.receipt
            y = wrapper({"x": x})["y"]
    except EnginebayError as err:
        return failed(Tier.SMOKE, what, found=str(err), fix=err.hint or "")
    requested, devices = device_kind(params.device), backend.info.devices
    # "auto" may choose any of the backend's devices.
    devices = (requested,) if requested in devices else devices
    if device_kind(receipt.device) not in devices:
        where = f"it ran on '{receipt.device}'"
        return failed(Tier.SMOKE, what, found=where, wanted=", ".join(devices))
    if (y.dtype, y.shape) != (x.dtype, x.shape):
        found, wanted = (f"{array.dtype}{list(array.shape)}" for array in (y, x))
        return failed(Tier.SMOKE, what, found=f"an output {found}", wanted=wanted)
    error = float(np.max(np.abs(y - np.maximum(2 * x, 0))))
    # 2 x has no rounding error in any binary format that holds x; 1/128 is bfloat16's epsilon.
    if not error <= 2 / 128:  # also true for NaN
        return failed(Tier.SMOKE, what, found=f"wrong by {error:.2g}", wanted="relu(2 x)")
    engine = f"{receipt.engine} on {receipt.place}"
    return passed(Tier.SMOKE, what, found=f"{engine}, worst difference {error:.1g}")


def check_two_artifacts(engine: ConvertedEngine, version: str) -> None:
    """Check that an engine takes no two artifacts for one, once for its version and device.

    An engine that cannot run the tiny model is judged by the users' models alone.

    Raises:
        InferenceError: An artifact gives the results of another one in the same process.
    """
    from enginebay.isolation import call
    from enginebay.plugins import is_trusted, trust

    backend, device = engine.backend, engine.params.device
    status, trial = backend.status, ("two artifacts", version, device)
    if is_trusted(status, *trial):
        return
    common, function = "", f"{__name__}:find_confusion"
    with suppress(EnginebayError):
        common = call(function, backend.name, device, timeout=_TRIAL_SECONDS, result_type=str)
    if common:
        raise InferenceError(
            f"{version} gives the results of another artifact, which was loaded in the same "
            f"process from the same {common}",
            hint=status.fault_hint(f"build_wrapper() of {status.module}"),
        )
    trust(status, *trial)


def check_device(backend: Backend, params: BackendParams) -> None:
    """Check that this machine has a requested device, before a model is exported for it.

    The tiny model is loaded there in a child process, once for each device. If anything else goes
    wrong with it, the device is judged by the user's model.

    Raises:
        FallbackError: The engine runs on another device than the requested one.
        ParamsError: The engine has no such device.
    """
    from enginebay.backend import device_kind
    from enginebay.isolation import call
    from enginebay.plugins import is_trusted, trust

    device, trial = params.device, ("device", params.device)
    usual = ("cpu", "auto", device_kind(backend.Params().device))
    if device_kind(device) in usual or "onnx" not in backend.info.irs or backend.elsewhere(params):
        return
    if is_trusted(backend.status, *trial):
        return
    try:
        function = f"{__name__}:load_on_device"
        call(function, backend.name, device, timeout=_TRIAL_SECONDS, result_type=bool)
    except FallbackError:
        raise
    except EnginebayError as err:
        # Another parameter may say more about the device, such as a provider that has it.
        if isinstance(err, ParamsError) and params == backend.Params(device=device):
            raise
        return
    trust(backend.status, *trial)


def load_on_device(name: str, device: str) -> bool:
    """In a child process: load the tiny model on a device, and return True."""
    from enginebay.operations.backend import get_backend

    backend = get_backend(name)
    with TemporaryDirectory(prefix="enginebay-check-") as folder:
        request = _convert_tiny_model(backend, backend.Params(device=device), Path(folder))
        backend.load(msgspec.structs.replace(request, strict=False)).close()
    return True


def find_confusion(name: str, device: str) -> str:
    """In a child process: return what two artifacts share that the engine takes for one, or ""."""
    import numpy as np

    from enginebay.operations.backend import get_backend

    backend, x = get_backend(name), _tiny_input()
    params = backend.Params(device=device)

    def gives(wrapper: Wrapper, factor: int) -> bool:
        return np.allclose(wrapper({"x": x})["y"], np.maximum(factor * x, 0), atol=1 / 16)

    with TemporaryDirectory(prefix="enginebay-check-") as folder:
        one, two = Path(folder, "one", "artifact"), Path(folder, "two", "artifact")
        request = _convert_tiny_model(backend, params, one)
        other_request = _convert_tiny_model(backend, params, two, _OTHER_FACTOR)
        with backend.load(request) as wrapper:
            with backend.load(other_request) as other:
                if gives(other, _FACTOR) or gives(wrapper, _OTHER_FACTOR):
                    return "file and folder name"
            one.rename(Path(folder, "replaced"))
            two.rename(one)
            with backend.load(request) as other:
                return "path" if gives(other, _FACTOR) else ""


def _tiny_input() -> NumpyArray:
    import numpy as np

    # Values of both signs, for relu.
    x = np.linspace(-1, 1, num=int(np.prod(_TINY_SHAPE)), dtype=np.float32)
    return x.reshape(_TINY_SHAPE)


def _convert_tiny_model(
    backend: Backend, params: BackendParams, folder: Path, factor: int = _FACTOR
) -> WrapperRequest:
    from enginebay.hooks import ConvertRequest, WrapperRequest

    folder.mkdir(parents=True, exist_ok=True)
    ir = _copy_tiny_ir(backend, folder, factor)
    return WrapperRequest(
        directory=folder,
        files=backend.convert(ConvertRequest(ir=ir, params=params, work_dir=folder)),
        params=params,
        inputs=ir.inputs,
        outputs=ir.outputs,
        strict=True,  # a fallback from the requested device must fail the check
    )


def _copy_tiny_ir(backend: Backend, folder: Path, factor: int) -> IRModel:
    import numpy as np

    from enginebay.ir import IRModel
    from enginebay.tensors import TensorSpec

    if "onnx" not in backend.info.irs:
        return _export_tiny_model(backend, folder, factor)
    path = folder / "tiny-ir" / _TINY_ONNX.name
    path.parent.mkdir()
    old, new = np.float32(_FACTOR).tobytes(), np.float32(factor).tobytes()
    path.write_bytes(_TINY_ONNX.read_bytes().replace(old, new))
    return IRModel(
        kind="onnx",
        path=path,
        files=(path,),
        inputs=(TensorSpec("x", "float32", _TINY_SHAPE),),
        outputs=(TensorSpec("y", "float32", _TINY_SHAPE),),
        opset=13,
        example_shapes={"x": _TINY_SHAPE},
    )


def _export_tiny_model(backend: Backend, folder: Path, factor: int) -> IRModel:
    """Export the tiny model, with only the operators that the backend lists."""
    require("torch")
    import torch

    from enginebay.exporters import write_ir
    from enginebay.models import bind
    from enginebay.operations.rewrite_model import export_patch
    from enginebay.operations.rewriter_sets import target_of
    from enginebay.sources import find_model

    class Tiny(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(factor * x)

    kind = backend.info.irs[0]
    # Without listed operators no rewriter is needed, and a broken one does not fail the check.
    listed = backend.info.operators is not None
    patch = export_patch(target_of(backend.name, kind)) if listed else None
    model = bind(find_model(Tiny()), torch.ones(_TINY_SHAPE), output_names=["y"])
    return write_ir(model, kind, folder / "tiny-ir", patch=patch)
