"""Which nodes of a model OpenVINO lacks: what its frontend leaves as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay_openvino.devices import available_devices, openvino_device
from enginebay_openvino.reasons import reason

if TYPE_CHECKING:
    from enginebay.hooks import ConvertRequest
    from enginebay_openvino.params import OpenvinoParams


def unsupported_operators(request: ConvertRequest[OpenvinoParams]) -> dict[str, str]:
    """Return the nodes that the frontend cannot convert, or that the device cannot run.

    Raises:
        ParamsError: OpenVINO has no such device, or a parameter names no extension.
        ConversionError: It cannot read the file at all.
    """
    import openvino as ov
    from openvino.frontend import FrontEndManager

    from enginebay_openvino.extensions import add_extensions
    from enginebay_openvino.fourier import dft_reader

    params = request.params
    core = ov.Core()
    device = openvino_device(params.device, available_devices(core))
    frontend = FrontEndManager().load_by_framework("onnx")
    frontend.add_extension(dft_reader(request.ir.opset))
    for extension in add_extensions(core, params.extensions):
        if not isinstance(extension, type):
            frontend.add_extension(extension)
    try:
        model = frontend.convert_partially(frontend.load(str(request.ir.path)))
    except Exception as err:
        name = request.ir.path.name
        raise ConversionError(f"OpenVINO cannot read '{name}': {reason(err)}") from err
    left = [op for op in model.get_ops() if "FrameworkNode" in op.get_type_name()]
    if left:
        return {op.get_friendly_name(): "OpenVINO has no conversion rule for it" for op in left}
    supported = core.query_model(model, device)
    lacking = [op for op in model.get_ops() if op.get_friendly_name() not in supported]
    return {op.get_friendly_name(): f"{device} cannot run it" for op in lacking}
