"""Converts an IR to OpenVINO's files: the network in ``.xml``, the weights in ``.bin``."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.authors.files import quiet, read_exported_program, read_inlined, read_torchscript
from enginebay.errors import ConversionError, EnginebayError
from enginebay_openvino.devices import available_devices, resolve_device
from enginebay_openvino.dtypes import get_dtype_name, get_openvino_type, is_shared
from enginebay_openvino.extensions import add_extensions, copy_extensions
from enginebay_openvino.fourier import make_dft_reader
from enginebay_openvino.reasons import format_reason
from enginebay_openvino.repairs import describe_differences, repair_network
from enginebay_openvino.softmax import make_softmax_readers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import openvino as ov

    from enginebay import IRModel, TensorSpec
    from enginebay.hooks import ConvertRequest
    from enginebay_openvino.params import OpenvinoParams


def convert(request: ConvertRequest[OpenvinoParams]) -> list[Path]:
    """Convert an IR, and write the network and the weights into the work folder.

    Returns:
        The ``.xml`` file, the ``.bin`` file if there are weights, and the files of extensions.

    Raises:
        ParamsError: OpenVINO has no such device, or an extension is not valid.
        UsageError: The calibration data does not fit the model.
        MissingDependencyError: int8 requires NNCF, which is not installed.
        ConversionError: OpenVINO does not support an operator, or changes the number or a dtype of
            inputs or outputs.
    """
    import openvino as ov

    params = request.params
    resolve_device(params.device, available_devices(ov.Core()))
    if params.precision == "int8":
        from enginebay_openvino.quantize import check_int8

        check_int8()
    model = _read_network(request.ir, params)
    for difference in describe_differences(model):
        request.note(difference)
    if params.precision == "int8":
        from enginebay_openvino.quantize import quantize

        assert request.calibration is not None  # core checks this
        request.progress(f"calibrating on {len(request.calibration)} items")
        model, wide_nodes = quantize(model, request.calibration, request.keep)
        if wide_nodes:
            request.leave_in_float(wide_nodes)
    target = request.work_dir / params.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    # By default OpenVINO stores weights in half precision.
    ov.save_model(model, target, compress_to_fp16=params.fp16_weights)
    return _list_files(target) + copy_extensions(params.extensions, request.work_dir)


def quantizable_nodes(request: ConvertRequest[OpenvinoParams]) -> dict[str, str]:
    """Return the operators, by node name, of the nodes whose inputs NNCF quantises.

    Raises:
        MissingDependencyError: NNCF is not installed.
        ConversionError: OpenVINO cannot read the model, or NNCF cannot quantise it.
    """
    from enginebay_openvino import quantize

    quantize.check_int8()
    assert request.calibration is not None  # core checks this
    return quantize.quantizable_nodes(
        _read_network(request.ir, request.params), request.calibration
    )


def _read_network(ir: IRModel, params: OpenvinoParams) -> ov.Model:
    """Read the IR as a network; check and name its inputs and outputs."""
    import openvino as ov

    core = ov.Core()
    for reader in (make_dft_reader(ir.opset), *make_softmax_readers(ir.opset)):
        core.add_extension(reader)
    model = _read_model(ir, core, add_extensions(core, params.extensions))
    _check_ports(model, ir)
    _name_ports(model, ir)
    repair_network(model)
    return model


def _list_files(target: Path) -> list[Path]:
    weights = target.with_suffix(".bin")
    if weights.stat().st_size:
        return [target, weights]
    weights.unlink()  # a network without weights is read without the file
    return [target]


def _read_model(ir: IRModel, core: ov.Core, extensions: Sequence[object]) -> ov.Model:
    # The frontends of torch's formats do not use the core, so they need the extensions. They do not
    # accept the classes of operators, to which their extensions refer.
    passed = [extension for extension in extensions if not isinstance(extension, type)]
    readers: dict[str, Callable[[], ov.Model]] = {
        "onnx": lambda: _read_onnx(ir, core),
        "torchscript": lambda: _read_torchscript(ir, passed),
        "exported_program": lambda: _read_exported_program(ir, passed),
    }
    try:
        return readers[ir.kind]()
    except EnginebayError:
        raise
    except Exception as err:
        raise ConversionError(
            f"OpenVINO cannot convert '{ir.path.name}': {format_reason(err)}"
        ) from err


def _read_onnx(ir: IRModel, core: ov.Core) -> ov.Model:
    inlined = read_inlined(ir.path)
    if inlined is None:
        return core.read_model(ir.path)
    import onnx

    # OpenVINO reads no local functions. It searches external data in the folder of the file.
    with TemporaryDirectory(prefix="enginebay-openvino-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / ir.path.name
        for file in ir.files[1:]:
            copied = path.parent / file.relative_to(ir.path.parent)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied)
        onnx.save(inlined, path)
        return core.read_model(path)


def _read_torchscript(ir: IRModel, extensions: Sequence[object]) -> ov.Model:
    import openvino as ov

    module, _ = read_torchscript(ir.path)
    # A trace has no shapes; if the IR has none either, OpenVINO infers them as far as possible.
    inputs = [(_make_shape(spec), get_openvino_type(spec.dtype)) for spec in ir.inputs]
    with quiet():
        return ov.convert_model(module, input=inputs or None, extension=extensions or None)


def _read_exported_program(ir: IRModel, extensions: Sequence[object]) -> ov.Model:
    import openvino as ov

    program, _ = read_exported_program(ir.path)
    with quiet():
        model = ov.convert_model(program, extension=extensions or None)
    # OpenVINO makes every dimension dynamic, even fixed ones.
    if len(model.inputs) == len(ir.inputs):
        model.reshape(dict(zip(model.inputs, map(_make_shape, ir.inputs), strict=True)))
    return model


def _make_shape(spec: TensorSpec) -> ov.PartialShape:
    import openvino as ov

    if spec.dims is None:
        return ov.PartialShape.dynamic()
    return ov.PartialShape([dim if isinstance(dim, int) else -1 for dim in spec.dims])


def _check_ports(model: ov.Model, ir: IRModel) -> None:
    for kind, ports, specs in _pair_ports(model, ir):
        if len(ports) != len(specs):
            raise ConversionError(
                f"OpenVINO reads a wrong number of {kind}s from '{ir.path.name}': expected "
                f"{len(specs)} ({', '.join(spec.name for spec in specs)}), found {len(ports)}"
            )
        for port, spec in zip(ports, specs, strict=True):
            if not is_shared(spec.dtype):
                raise ConversionError(
                    f"unsupported dtype of {kind} '{spec.name}' of '{ir.path.name}': expected "
                    f"bool or numbers of at least 8 bits, found {spec.dtype}",
                    hint=f"cast the {kind} to a supported dtype inside the model",
                )
            dtype = get_dtype_name(port.element_type)
            if dtype != spec.dtype:
                raise ConversionError(
                    f"OpenVINO changed the dtype of {kind} '{spec.name}' of '{ir.path.name}': "
                    f"expected {spec.dtype}, found {dtype}"
                )


def _name_ports(model: ov.Model, ir: IRModel) -> None:
    # For programs that read the files directly. The wrapper uses positions instead, because
    # OpenVINO changes duplicate names.
    for _, ports, specs in _pair_ports(model, ir):
        for port, spec in zip(ports, specs, strict=True):
            port.get_tensor().set_names({spec.name})


def _pair_ports(
    model: ov.Model, ir: IRModel
) -> list[tuple[str, Sequence[ov.Output], Sequence[TensorSpec]]]:
    """Return a tuple for the inputs, and a tuple for the outputs.

    A tuple contains ``input`` or ``output``, the network's inputs or outputs, and their specs in
    the IR. It is left out if the IR has no such specs.
    """
    pairs = [("input", model.inputs, ir.inputs), ("output", model.outputs, ir.outputs)]
    return [pair for pair in pairs if pair[2]]
