"""Builds in a process of their own: ``python -m benchmarks.tensorrt_build SIDE FOLDER MODEL …``.

Prints the wall and processor seconds of the last build. A small model before it excludes the
imports. Several large models in one process would favour the bare side, whose allocator reuses its
memory for the next.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def bare(model: Path, folder: Path) -> None:
    """Parse, build and write with NVIDIA's bindings alone."""
    import tensorrt_rtx_bindings as trt

    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(model))
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)  # as in Enginebay, which computes fp32 in fp32
    plan = builder.build_serialized_network(network, config)
    (folder / "bare.engine").write_bytes(plan)


def polygraphy(model: Path, folder: Path) -> None:
    """Build with NVIDIA's Polygraphy, which imports the bindings by a different name."""
    import tensorrt_rtx_bindings as trt

    os.environ["POLYGRAPHY_USE_TENSORRT_RTX"] = "1"
    sys.modules["tensorrt_rtx"] = trt
    from polygraphy.backend.tensorrt_rtx import CreateConfigRTX
    from polygraphy.backend.trt import engine_bytes_from_network, network_from_onnx_path

    network = network_from_onnx_path(str(model))
    plan = engine_bytes_from_network(network, CreateConfigRTX())
    (folder / "polygraphy.engine").write_bytes(plan)


def ours(model: Path, folder: Path) -> None:
    """Build as every deployment does."""
    import enginebay as eb
    from enginebay.authors.files import read_onnx
    from enginebay.hooks import ConvertRequest

    backend = eb.get_backend("tensorrt-rtx")
    params = backend.params_from(None)
    backend.convert(ConvertRequest(ir=read_onnx(model), params=params, work_dir=folder))


def main(side: str, folder: str, *onnx_files: str) -> None:
    """Build the models one after the other."""
    build = {"bare": bare, "polygraphy": polygraphy, "ours": ours}[side]
    taken = (0.0, 0.0)
    for model in onnx_files:
        wall, processor = time.perf_counter(), time.process_time()
        build(Path(model), Path(folder))
        taken = (time.perf_counter() - wall, time.process_time() - processor)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
