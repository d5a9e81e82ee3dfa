"""Finds a model's nodes that OpenVINO cannot convert, or that the device cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay_openvino.devices import available_devices, resolve_device
from enginebay_openvino.reasons import format_reason

if TYPE_CHECKING:
    from enginebay.hooks import ConvertRequest
    from enginebay_openvino.params import OpenvinoParams


def unsupported_operators(request: ConvertRequest[OpenvinoParams]) -> dict[str, str]:
    """Return the names of the nodes that cannot be converted or run, each with the reason.

    Raises:
        ParamsError: OpenVINO has no such device, or an extension is not valid.
        ConversionError: OpenVINO cannot read the file at all.
    """
    import openvino as ov
    from openvino.frontend import FrontEndManager

    from enginebay_openvino.extensions import add_extensions
    from enginebay_openvino.fourier import make_dft_reader

    params = request.params
    core = ov.Core()
    device = resolve_device(params.device, available_devices(core))
    frontend = FrontEndManager().load_by_framework("onnx")
    frontend.add_extension(make_dft_reader(request.ir.opset))
    for extension in add_extensions(core, params.extensions):
        # A frontend does not accept the classes of operators.
        if not isinstance(extension, type):
            frontend.add_extension(extension)
    try:
        model = frontend.convert_partially(frontend.load(str(request.ir.path)))
    except Exception as err:
        name = request.ir.path.name
        raise ConversionError(f"OpenVINO cannot read '{name}': {format_reason(err)}") from err
    # OpenVINO puts a FrameworkNode where it has no rule for an operator.
    unconverted = [op for op in model.get_ops() if "FrameworkNode" in op.get_type_name()]
    if unconverted:
        return {
            op.get_friendly_name(): "OpenVINO has no conversion rule for this operator"
            for op in unconverted
        }
    supported = core.query_model(model, device)
    lacking = [op for op in model.get_ops() if op.get_friendly_name() not in supported]
    return {op.get_friendly_name(): f"{device} cannot run this operator" for op in lacking}
