"""Conversion of an IR to OpenVINO's files: the network as ``.xml``, the weights as ``.bin``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors import quiet, read_exported_program, read_torchscript
from enginebay.errors import ConversionError, EnginebayError
from enginebay_openvino.devices import available_devices, openvino_device
from enginebay_openvino.dtypes import dtype_name, is_shared, openvino_type
from enginebay_openvino.extensions import add_extensions, copy_extensions
from enginebay_openvino.fourier import dft_reader
from enginebay_openvino.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import openvino as ov

    from enginebay import IRModel, TensorSpec
    from enginebay.hooks import ConvertRequest
    from enginebay_openvino.params import OpenvinoParams


def convert(request: ConvertRequest[OpenvinoParams]) -> list[Path]:
    """Write the network and its weights into the work folder.

    Returns:
        The ``.xml`` file, then the ``.bin`` file if there are weights, then extensions.

    Raises:
        ParamsError: OpenVINO has no such device, or a parameter names no extension.
        UsageError: The calibration data does not fit the model.
        MissingDependencyError: int8 is requested and NNCF is not installed.
        ConversionError: OpenVINO does not know an operator, or reads the model as another one.
    """
    import openvino as ov

    params = request.params
    openvino_device(params.device, available_devices(ov.Core()))
    if params.precision == "int8":
        from enginebay_openvino.quantize import check_int8

        check_int8()
    model = _network(request.ir, params)
    if params.precision == "int8":
        from enginebay_openvino.quantize import quantize

        assert request.calibration is not None
        request.progress(f"calibrating on {len(request.calibration)} items")
        model = quantize(model, request.calibration, request.keep)
    target = request.work_dir / params.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    ov.save_model(model, target, compress_to_fp16=params.fp16_weights)
    return _written(target) + copy_extensions(params.extensions, request.work_dir)


def quantizable_nodes(request: ConvertRequest[OpenvinoParams]) -> dict[str, str]:
    """Return the operators that int8 computes in 8 bits, by the nodes' names.

    Raises:
        MissingDependencyError: NNCF is not installed.
        ConversionError: OpenVINO cannot read the model, or NNCF cannot quantise it.
    """
    from enginebay_openvino.quantize import check_int8, quantizable_nodes as listed

    check_int8()
    assert request.calibration is not None  # core has checked
    return listed(_network(request.ir, request.params), request.calibration)


def _network(ir: IRModel, params: OpenvinoParams) -> ov.Model:
    """Read the IR, with the inputs' and outputs' names and dtypes as it has them."""
    import openvino as ov

    core = ov.Core()
    core.add_extension(dft_reader(ir.opset))
    model = _read(ir, core, add_extensions(core, params.extensions))
    _check_ports(model, ir)
    _name_ports(model, ir)
    return model


def _written(target: Path) -> list[Path]:
    weights = target.with_suffix(".bin")
    if weights.stat().st_size:
        return [target, weights]
    weights.unlink()  # a network without weights is read without the file
    return [target]


def _read(ir: IRModel, core: ov.Core, extensions: list[Any]) -> ov.Model:
    # The frontends of torch's formats have no core: an extension that they know is passed to
    # them, and an operator's class comes with the extension that makes it.
    passed = [each for each in extensions if not isinstance(each, type)]
    readers: dict[str, Callable[[], ov.Model]] = {
        "onnx": lambda: core.read_model(ir.path),
        "torchscript": lambda: _read_torchscript(ir, passed),
        "exported_program": lambda: _read_exported_program(ir, passed),
    }
    try:
        return readers[ir.kind]()
    except EnginebayError:
        raise
    except Exception as err:
        raise ConversionError(f"OpenVINO cannot convert '{ir.path.name}': {reason(err)}") from err


def _read_torchscript(ir: IRModel, extensions: list[Any]) -> ov.Model:
    import openvino as ov

    module, _ = read_torchscript(ir.path)
    # A trace keeps no shapes; if the IR has none either, OpenVINO infers what it can.
    inputs = [(_shape(spec), openvino_type(spec.dtype)) for spec in ir.inputs]
    with quiet():
        return ov.convert_model(module, input=inputs or None, extension=extensions or None)


def _read_exported_program(ir: IRModel, extensions: list[Any]) -> ov.Model:
    import openvino as ov

    program, _ = read_exported_program(ir.path)
    with quiet():
        model = ov.convert_model(program, extension=extensions or None)
    # OpenVINO makes every dimension dynamic, also those that the program fixes.
    if len(model.inputs) == len(ir.inputs):
        model.reshape(dict(zip(model.inputs, map(_shape, ir.inputs), strict=True)))
    return model


def _shape(spec: TensorSpec) -> ov.PartialShape:
    import openvino as ov

    if spec.dims is None:
        return ov.PartialShape.dynamic()
    return ov.PartialShape([dim if isinstance(dim, int) else -1 for dim in spec.dims])


def _check_ports(model: ov.Model, ir: IRModel) -> None:
    """Refuse a network whose inputs or outputs differ from the model's."""
    for kind, ports, specs in _ports(model, ir):
        if len(ports) != len(specs):
            raise ConversionError(
                f"OpenVINO reads '{ir.path.name}' as a network with {len(ports)} {kind}s, "
                f"wanted {len(specs)}: {', '.join(spec.name for spec in specs)}"
            )
        for port, spec in zip(ports, specs, strict=True):
            if not is_shared(spec.dtype):
                raise ConversionError(
                    f"{kind} '{spec.name}' of '{ir.path.name}' is {spec.dtype}: wanted bools or "
                    "numbers of 8 bits and more, which arrays and OpenVINO lay out alike",
                    hint="convert it inside the model, as in Cast",
                )
            found = dtype_name(port.element_type)
            if found != spec.dtype:
                raise ConversionError(
                    f"OpenVINO reads {kind} '{spec.name}' of '{ir.path.name}' as {found}, "
                    f"wanted {spec.dtype}"
                )


def _name_ports(model: ov.Model, ir: IRModel) -> None:
    """Name inputs and outputs as the model does, for those who read the files without Enginebay.

    The wrapper counts positions instead, since OpenVINO changes names that occur twice.
    """
    for _, ports, specs in _ports(model, ir):
        for port, spec in zip(ports, specs, strict=True):
            port.get_tensor().set_names({spec.name})


def _ports(model: ov.Model, ir: IRModel) -> list[tuple[str, Sequence[Any], Sequence[TensorSpec]]]:
    """Return the inputs and the outputs with their specs; neither if the IR does not have them."""
    sides = [("input", model.inputs, ir.inputs), ("output", model.outputs, ir.outputs)]
    return [side for side in sides if side[2]]
