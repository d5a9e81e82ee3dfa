"""Parameters: documented, and the same through flags, mappings and manifests."""

from __future__ import annotations

import argparse

import pytest

from enginebay.errors import ParamsError
from enginebay_onnxruntime.params import OnnxruntimeParams

FLAGS = [
    *("--work-dir", "out", "--file-name", "net", "--device", "cuda:1", "--precision", "fp16"),
    *("--providers", "CUDAExecutionProvider,CPUExecutionProvider"),
    *("--provider-options", "CUDAExecutionProvider.use_tf32=0"),
    *("--provider-options", "CUDAExecutionProvider.gpu_mem_limit=1000"),
    *("--session-options", "session.set_denormal_as_zero=1", "--cuda-graph", "--reuse-outputs"),
    *("--intra-op-threads", "2", "--inter-op-threads", "3", "--graph-optimization", "basic"),
    *("--optimized-cache", "cache", "--custom-ops", "libops.so,onnxruntime_extensions"),
    *("--profile", "run", "--input-shapes", "x:1x3", "--min-shapes", "x:1x1"),
    *("--max-shapes", "x:1x9"),
]


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser(prog="convert")
    OnnxruntimeParams.add_arguments(parser)
    return parser


def test_every_flag_reaches_its_field(parser):
    params = OnnxruntimeParams.from_args(parser.parse_args(FLAGS))
    assert params == OnnxruntimeParams(
        work_dir="out",
        file_name="net.onnx",
        device="cuda:1",
        precision="fp16",
        providers=("CUDAExecutionProvider", "CPUExecutionProvider"),
        provider_options={
            "CUDAExecutionProvider.use_tf32": "0",
            "CUDAExecutionProvider.gpu_mem_limit": "1000",
        },
        session_options={"session.set_denormal_as_zero": "1"},
        cuda_graph=True,
        reuse_outputs=True,
        intra_op_threads=2,
        inter_op_threads=3,
        graph_optimization="basic",
        optimized_cache="cache",
        custom_ops=("libops.so", "onnxruntime_extensions"),
        profile="run",
        input_shapes={"x": (1, 3)},
        min_shapes={"x": (1, 1)},
        max_shapes={"x": (1, 9)},
    )
    assert OnnxruntimeParams.from_mapping(params.to_mapping()) == params


def test_every_field_has_a_flag(parser):
    flags = {name for action in parser._actions for name in action.option_strings}
    for field in OnnxruntimeParams.__struct_fields__:
        assert "--" + field.replace("_", "-") in flags


def test_the_help_explains_precisions_and_optimization_levels(parser):
    text = " ".join(parser.format_help().split())
    assert (
        "--precision {fp32,fp16,int8} fp32 does not change the model; fp16 converts weights and "
        "arithmetic to half precision, but not the dtypes of inputs and outputs; int8 "
    ) in text
    assert "--graph-optimization {disable,basic,extended,all}" in text
    assert "(default: all)" in text


@pytest.mark.parametrize(
    ("field", "value"), [("precision", "int4"), ("graph_optimization", "99"), ("providers", "CPU")]
)
def test_an_invalid_value_is_refused(field, value):
    with pytest.raises(ParamsError, match=field):
        OnnxruntimeParams(**{field: value})


def test_the_model_file_is_in_the_work_folder():
    assert OnnxruntimeParams(file_name="net", work_dir="out").get_model_files() == ("out/net.onnx",)


OPTION = "CUDAExecutionProvider.enable_cuda_graph"
NEED = "a CUDA graph also requires fixed addresses of inputs and outputs"


@pytest.mark.parametrize(
    "fields", [{"device": "cuda:1"}, {"providers": ("CUDAExecutionProvider",)}]
)
def test_a_cuda_graph_is_for_cuda(fields):
    params = OnnxruntimeParams(cuda_graph=True, reuse_outputs=True, **fields)
    assert {"cuda_graph", "reuse_outputs"} <= set(params.run_time_fields)
    assert params.replace(provider_options={OPTION: "1"}).cuda_graph
    OnnxruntimeParams(provider_options={OPTION: "0"}, **fields)


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        (
            {"cuda_graph": True},
            "cuda_graph is for CUDAExecutionProvider, found cpu",
            "add --device cuda, or leave out --cuda-graph",
        ),
        (
            {"reuse_outputs": True, "device": "auto"},
            "reuse_outputs is for CUDAExecutionProvider, found auto",
            "add --device cuda, or leave out --reuse-outputs",
        ),
        (
            {"cuda_graph": True, "device": "cuda", "providers": ("CPUExecutionProvider",)},
            "cuda_graph is for CUDAExecutionProvider, found providers CPUExecutionProvider",
            "add --device cuda, or leave out --cuda-graph",
        ),
        (
            {"cuda_graph": True, "device": "cuda", "sizes": {"batch": (1,)}},
            "cuda_graph and sizes cannot be combined: cuda_graph keeps memory for each size itself",
            "leave out --sizes, or --cuda-graph",
        ),
        (
            {"device": "cuda", "provider_options": {OPTION: "1"}},
            f"provider option '{OPTION}=1' contradicts cuda_graph=False: {NEED}",
            "use --cuda-graph (cuda_graph=True) instead of the option",
        ),
        (
            {"device": "cuda", "cuda_graph": True, "provider_options": {OPTION: "False"}},
            f"provider option '{OPTION}=False' contradicts cuda_graph=True: {NEED}",
            "leave out the option, or --cuda-graph",
        ),
    ],
)
def test_what_cannot_be_a_cuda_graph_is_refused(fields, message, hint):
    with pytest.raises(ParamsError) as raised:
        OnnxruntimeParams(**fields)
    assert (str(raised.value), raised.value.hint) == (message, hint)
