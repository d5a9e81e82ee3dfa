"""The parameters of ONNX Runtime."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

import enginebay as eb
from enginebay.environment import thread_counts
from enginebay.errors import ParamsError

#: ONNX Runtime's name of its provider for CUDA.
CUDA = "CUDAExecutionProvider"
#: ONNX Runtime starts as many as it is told, a million for hours.
Threads = Annotated[int, msgspec.Meta(ge=0, le=4096)]
Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


def _session_options(params: OnnxruntimeParams) -> list[dict[str, str]]:
    # Threads that wait by spinning take the cores of other programs.
    return [params.session_options | {"session.intra_op.allow_spinning": "0"}]


def _provider_options(params: OnnxruntimeParams) -> list[dict[str, str]]:
    if not params.device.startswith("cuda"):
        return []
    options = {f"{CUDA}.cudnn_conv_algo_search": "HEURISTIC", f"{CUDA}.prefer_nhwc": "1"}
    return [params.provider_options | {name: value} for name, value in options.items()]


class OnnxruntimeParams(eb.BackendParams):
    """Parameters of ONNX Runtime.

    Args:
        device (str): cpu, cuda, cuda:N, or auto: cuda if this build has it, else cpu. With the
            provider of a package: npu, npu:N, gpu, gpu:N; its own choice with cpu, the default, and
            with auto, which also lets the CPU run what the provider refuses.
        precision (str): fp32 does not change the model; fp16 converts weights and arithmetic to
            half precision, but not the dtypes of inputs and outputs; int8 quantises the operators
            that ONNX Runtime has 8-bit kernels for, calibrated with a data set.
        activation_bits (int): Bits of the activations with precision int8: 8, or 16 for a provider
            that computes with them, such as onnxruntime_qnn.
        fp32_ops (list): Operators that precision fp16 leaves in single precision, in addition to
            those that would overflow, such as Pow, Exp, sums and means.
        fp32_nodes (list): Names of nodes that precision fp16 leaves in single precision.
        providers (list): Execution providers in order of preference, instead of those that the
            device selects: ONNX Runtime's own, or the modules of packages, such as onnxruntime_qnn.
            A package's provider must run the whole model, unless CPUExecutionProvider follows.
        provider_options (dict): Options of the providers, each as
            Provider.option=value, such as CUDAExecutionProvider.cudnn_conv_algo_search=DEFAULT or
            onnxruntime_qnn.htp_performance_mode=burst.
        session_options (dict): Session configuration entries, such as
            session.set_denormal_as_zero=1.
        sizes (dict): Sizes of the model's open dimensions, such as batch=1,4,8. The wrapper makes
            an engine for each when it is loaded, and others at the first call with other sizes, for
            a provider that takes no open dimensions. The name * stands for all the rest.
        compiled (bool): Compile the model for the provider of a package when converting, so that
            loading skips it. The artifact then loads with the same versions only.
        cuda_graph (bool): Capture the kernels of a call as a CUDA graph, once for each size, and
            replay it in later calls. For --device cuda and models that run there as a whole.
        reuse_outputs (bool): Return tensors on the GPU in the same memory for each call with the
            same sizes: the next call overwrites them.
        intra_op_threads (int): Threads inside one operator; 0 lets ONNX Runtime choose.
        inter_op_threads (int): Threads across operators; anything but 1 runs branches in parallel,
            0 lets ONNX Runtime choose how many.
        graph_optimization (str): The level of graph optimisation when the model is loaded.
        optimized_cache (str): A folder that caches the optimised model, so that later loads with
            the same model, version and options skip the optimisation.
        custom_ops (list): Custom-op libraries: paths of shared libraries, which are copied into
            the artifact, or names of installed packages with get_library_path(), such as
            onnxruntime_extensions.
        profile (str): Write ONNX Runtime's profile to a file with this prefix when the wrapper
            is closed; wrapper.receipt then names the file.
    """

    file_name: eb.FileName = eb.FileName("model", suffix=".onnx")
    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    activation_bits: Literal[8, 16] = 8
    fp32_ops: tuple[str, ...] = ()
    fp32_nodes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    provider_options: dict[str, str] = {}
    session_options: dict[str, str] = {}
    sizes: dict[str, tuple[Size, ...]] = {}
    compiled: bool = False
    cuda_graph: bool = False
    reuse_outputs: bool = False
    intra_op_threads: Threads = 0
    inter_op_threads: Threads = 1
    graph_optimization: Literal["disable", "basic", "extended", "all"] = "all"
    optimized_cache: str | None = None
    custom_ops: tuple[str, ...] = ()
    profile: str | None = None

    speed_values: ClassVar = {
        "graph_optimization": ("all", "extended", "basic", "disable"),
        "intra_op_threads": thread_counts(),
        "inter_op_threads": (1, 2),
        "session_options": _session_options,
        "provider_options": _provider_options,
    }

    def __post_init__(self) -> None:
        """Check the device too, before anything is built."""
        super().__post_init__()
        # That of a package may have other devices, and check-env names what npu and gpu lack.
        if not self.providers and self.device.partition(":")[0] not in ("npu", "gpu"):
            self.check_device()
        self._check_cuda_graph()

    @property
    def run_time_fields(self) -> tuple[str, ...]:
        """The fields that only the session reads; a compiled model contains some of them."""
        threads = ("intra_op_threads", "inter_op_threads", "optimized_cache", "profile")
        options = (
            *("graph_optimization", "session_options", "provider_options"),
            *("cuda_graph", "reuse_outputs"),
        )
        return threads if self.compiled else (*threads, *options)

    def check_device(self) -> None:
        """Check that ONNX Runtime's own providers may have the device.

        Raises:
            ParamsError: The device is none of ``cpu``, ``cuda``, ``cuda:N`` and ``auto``.
        """
        kind, colon, index = self.device.partition(":")
        if kind in ("cpu", "cuda", "auto") and (
            not colon or (kind == "cuda" and index.isdecimal())
        ):
            return
        raise ParamsError(
            f"unknown device '{self.device}' for ONNX Runtime: expected cpu, cuda, cuda:N or auto",
            hint="use --device cpu, or choose the provider with --providers",
        )

    def _check_cuda_graph(self) -> None:
        option = f"{CUDA}.enable_cuda_graph"
        value = self.provider_options.get(option)
        if value is not None and (value.lower() not in ("0", "false")) != self.cuda_graph:
            raise ParamsError(
                f"provider option '{option}={value}' contradicts cuda_graph={self.cuda_graph}: "
                "a CUDA graph also requires fixed addresses of inputs and outputs",
                hint="use --cuda-graph (cuda_graph=True) instead of the option"
                if not self.cuda_graph
                else "leave out the option, or --cuda-graph",
            )
        if not (self.cuda_graph or self.reuse_outputs):
            return
        name = "cuda_graph" if self.cuda_graph else "reuse_outputs"
        flag = f"--{name.replace('_', '-')}"
        kind = self.device.partition(":")[0]
        if (self.providers or (CUDA if kind == "cuda" else kind,))[0] != CUDA:
            found = f"providers {', '.join(self.providers)}" if self.providers else self.device
            raise ParamsError(
                f"{name} is for {CUDA}, found {found}",
                hint=f"add --device cuda, or leave out {flag}",
            )
        if self.sizes:
            raise ParamsError(
                f"{name} and sizes cannot be combined: {name} keeps memory for each size itself",
                hint=f"leave out --sizes, or {flag}",
            )

    @classmethod
    def config_keys(cls) -> dict[str, eb.ConfigKey]:
        """Return the keys of MMDeploy's configs that set parameters, and those without effect."""
        limits = "values are clamped to what half precision can hold"
        return {
            "common_config.fp16_mode": eb.ConfigKey(
                bool, lambda on: {"precision": "fp16"} if on else {}
            ),
            "common_config.op_block_list": eb.ConfigKey(
                list[str], lambda ops: {"fp32_ops": ops or ()}
            ),
            "common_config.node_block_list": eb.ConfigKey(
                list[str], lambda nodes: {"fp32_nodes": nodes or ()}
            ),
            "common_config.keep_io_types": eb.ConfigKey(
                bool, no_effect="inputs and outputs always have the model's dtypes"
            ),
            "common_config.min_positive_val": eb.ConfigKey(float, no_effect=limits),
            "common_config.max_finite_val": eb.ConfigKey(float, no_effect=limits),
            "common_config.disable_shape_infer": eb.ConfigKey(
                bool, no_effect="shapes are inferred once, before the conversion"
            ),
        }
