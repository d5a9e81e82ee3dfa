"""Converts an ONNX model to the files that the session will load."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from enginebay.authors.files import to_half
from enginebay.errors import ConversionError
from enginebay_onnxruntime.custom_ops import FOLDER, find_libraries, is_path
from enginebay_onnxruntime.repairs import repair_model

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import ConvertRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: ONNX Runtime 1.31 on the CPU fails at run time for these in fp16, if they have a reduction.
NO_FP16 = ("ScatterElements", "ScatterND")


def convert(request: ConvertRequest[OnnxruntimeParams]) -> list[Path]:
    """Write the model, its external data and its custom-op libraries to the work folder.

    Returns:
        The written files; the model first.

    Raises:
        ConversionError: A custom-op library is missing, a file would overwrite another file, or the
            provider takes no open dimensions.
        MissingDependencyError: The package that the precision requires is not installed: onnx-ir
            for fp16, onnx for int8.
        UsageError: The calibration data does not fit the model.
        ParamsError: A dimension has no sizes in ``sizes``.
    """
    params = request.params
    target = request.work_dir / params.file_name
    if params.sizes or params.providers:
        from enginebay_onnxruntime.sizes import check_open_dimensions

        check_open_dimensions(request)
    if params.compiled:
        from enginebay_onnxruntime.compiled import check_compiled

        check_compiled(params)
        _check_target(request.ir.path, target, "--compiled")
    if params.precision == "fp16":
        request.progress("converting to half precision")
        written = _write_fp16(request, target)
    elif params.precision == "int8":
        from enginebay_onnxruntime.providers import is_packaged
        from enginebay_onnxruntime.quantize import Form, quantize

        assert request.calibration is not None  # core checks this
        _check_target(request.ir.path, target, "precision int8")
        request.progress(f"calibrating on {len(request.calibration)} items")
        elsewhere = bool(params.providers) and is_packaged(params.providers[0])
        form = Form(params.activation_bits, full_weights=elsewhere)
        quantized = quantize(request.ir.path, target, request.calibration, request.keep, form)
        request.leave_in_float(quantized.wide_nodes)
        for note in quantized.notes:
            request.note(note)
        written = quantized.files
    else:
        written = _copy_model(request, target)
    _repair_file(target, request.ir.path)
    if params.compiled:
        from enginebay_onnxruntime.compiled import compile_file

        request.progress("compiling for the provider")
        compile_file(target, params)
        for file in written[1:]:  # the weights are in the compiled model
            if not any(file.samefile(source) for source in request.ir.files):
                file.unlink()
        written = written[:1]
    return written + _copy_files(_list_library_copies(params.custom_ops, request.work_dir))


def _repair_file(file: Path, source: Path) -> None:
    model = repair_model(file)
    if model is None:
        return
    if file.samefile(source):
        _refuse_target(source, "the file without inexact operators")
    import onnx

    onnx.save(model, file)


def _copy_model(request: ConvertRequest[OnnxruntimeParams], target: Path) -> list[Path]:
    # The model refers to its external data by file name, so only the main file may be renamed.
    source = request.ir.path
    weights = [
        (file, target.parent / file.relative_to(source.parent))
        for file in request.ir.files
        if file != source
    ]
    # An IR in the work folder is the deployment's own, and nobody writes into its files: a second
    # name for the weights saves their copy on the disk. A compiled model drops them again.
    if source.is_relative_to(request.work_dir) and not request.params.compiled:
        for file, name in weights:
            name.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # the file system has no links, or the name is taken
                name.hardlink_to(file)
    return _copy_files([(source, target), *weights])


def _list_library_copies(libraries: tuple[str, ...], work_dir: Path) -> list[tuple[Path, Path]]:
    paths = find_libraries(filter(is_path, libraries))
    return [(path, work_dir / FOLDER / path.name) for path in paths]


def _copy_files(files: list[tuple[Path, Path]]) -> list[Path]:
    targets = [target for _, target in files]
    for source, target in files:
        if targets.count(target) > 1:
            raise ConversionError(
                f"two files would be copied to '{target}', one of them is '{source}'",
                hint="rename one of the files",
            )
        if target.exists() and target.samefile(source):
            continue  # the work folder is the folder of the model
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return targets


def _check_target(source: Path, target: Path, file: str) -> None:
    if target.exists() and target.samefile(source):
        _refuse_target(source, f"the file for {file}")
    target.parent.mkdir(parents=True, exist_ok=True)


def _refuse_target(source: Path, file: str) -> NoReturn:
    raise ConversionError(
        f"{file} would overwrite the model to convert, '{source}'",
        hint="use another --work-dir or --file-name",
    )


def _write_fp16(request: ConvertRequest[OnnxruntimeParams], target: Path) -> list[Path]:
    source, params = request.ir.path, request.params
    _check_target(source, target, "precision fp16")
    return to_half(
        source,
        target,
        "fp16",
        fp32_ops=(*NO_FP16, *params.fp32_ops),
        fp32_nodes=params.fp32_nodes,
        suspect=lambda text: request.suspect(f"{text}: --fp32-nodes NODE leaves a node in fp32"),
    )
