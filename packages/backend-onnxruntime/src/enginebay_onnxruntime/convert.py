"""ONNX in, ONNX out: the model as the session will load it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError, MissingDependencyError
from enginebay_onnxruntime.custom_ops import FOLDER, given_libraries, is_path

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import ConvertRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: Larger models keep their weights beside the file: a single protobuf file ends at 2 GB, and half
#: of that leaves room for the graph itself.
LARGE = 1 << 30


def convert(request: ConvertRequest[OnnxruntimeParams]) -> list[Path]:
    """Write the model, its external data and its custom-op libraries into the work folder.

    Returns:
        The files written; the model first.

    Raises:
        ConversionError: A custom-op library is missing, or a file would take another's place.
        MissingDependencyError: Half precision is asked for without the package onnx.
    """
    params = request.params
    target = request.work_dir / params.file_name
    if params.precision == "fp16":
        request.progress("converting to half precision")
        written = _write_fp16(request.ir.path, target, params)
    else:
        written = _copy(_places(request, target))
    return written + _copy(_library_places(params.custom_ops, request.work_dir))


def _places(request: ConvertRequest[OnnxruntimeParams], target: Path) -> list[tuple[Path, Path]]:
    # The model refers to its external data by name, so only the main file may be renamed.
    source = request.ir.path
    return [(source, target)] + [
        (file, target.parent / file.relative_to(source.parent))
        for file in request.ir.files
        if file != source
    ]


def _library_places(libraries: tuple[str, ...], work_dir: Path) -> list[tuple[Path, Path]]:
    paths = given_libraries(filter(is_path, libraries))
    return [(path, work_dir / FOLDER / path.name) for path in paths]


def _copy(files: list[tuple[Path, Path]]) -> list[Path]:
    places = [place for _, place in files]
    for source, place in files:
        if places.count(place) > 1:
            raise ConversionError(f"two files would become '{place}': '{source.name}' is one")
        if place.exists() and place.samefile(source):
            continue  # the work folder is where the model lies
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
    return places


def _write_fp16(source: Path, target: Path, params: OnnxruntimeParams) -> list[Path]:
    if target.exists() and target.samefile(source):
        raise ConversionError(
            f"precision fp16 would replace '{source}', the model that is converted",
            hint="pass another --work-dir or --file-name",
        )
    try:
        import onnx

        model = _to_fp16(source, params)
    except ImportError as err:
        raise MissingDependencyError(
            f"precision fp16 needs onnx and onnxruntime: {err}",
            hint="pip install 'enginebay[export]' 'enginebay-onnxruntime[cpu]'",
        ) from err
    data = target.with_name(target.name + ".data")
    data.unlink(missing_ok=True)  # onnx would append to it
    if model.ByteSize() < LARGE:
        onnx.save(model, target)
        return [target]
    onnx.save(model, target, save_as_external_data=True, location=data.name)
    return [target, data]


def _to_fp16(source: Path, params: OnnxruntimeParams) -> Any:
    import onnx
    from onnx.external_data_helper import load_external_data_for_model
    from onnx.inliner import inline_local_functions
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    # Shapes are inferred before the weights are read: that step ends at 2 GB.
    model = onnx.load(source, load_external_data=False)
    model = onnx.shape_inference.infer_shapes(inline_local_functions(model))
    load_external_data_for_model(model, str(source.parent))
    # A custom op computes in the dtype that it was written for.
    custom = {node.op_type for node in model.graph.node if node.domain not in ("", "ai.onnx")}
    return convert_float_to_float16(
        model,
        keep_io_types=True,
        disable_shape_infer=True,
        op_block_list=[*DEFAULT_OP_BLOCK_LIST, *custom, *params.fp32_ops],
        node_block_list=list(params.fp32_nodes),
    )
