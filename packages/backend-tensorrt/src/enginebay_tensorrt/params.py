"""The parameters of TensorRT, and those of TensorRT for RTX."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

import enginebay as eb
from enginebay.errors import ParamsError
from enginebay_tensorrt.products import TENSORRT, TENSORRT_RTX, Product

#: The value of ``compute_capability`` for the GPU of the machine that builds.
CURRENT = "current"


class SharedParams(eb.BackendParams):
    """Parameters of both products.

    Args:
        device (str): cuda or cuda:N.
        precision (str): The precision of the engine. fp16 and bf16 convert the graph, int8 and fp8
            put Q/DQ nodes around convolutions and matrix products; inputs and outputs keep their
            dtypes. fp32 does not use TF32.
        workspace_size (int): Bytes of device memory that one layer may use; 0 sets no limit.
        sparsity (bool): Use the kernels for weights in which 2 of each 4 are zero, if possible.
        refit (bool): Build an engine whose weights can be replaced.
        strip_plan (bool): Build the engine without its weights, which are stored next to it as ONNX
            and restored when it is loaded.
        plugins (list): Shared libraries with plugins; they are copied into the artifact.
        profiles (list): More optimisation profiles, each as smallest / usual / largest shapes,
            such as "x:1x3 / x:4x3 / x:8x3"; separate several inputs by spaces.
        cuda_graph (bool): Run a model with fixed shapes as one CUDA graph.
    """

    file_name: eb.FileName = eb.FileName("model", suffix=".engine")
    device: str = "cuda"
    precision: Literal["fp32", "fp16", "bf16", "int8", "fp8"] = "fp32"
    workspace_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    sparsity: bool = False
    refit: bool = False
    strip_plan: bool = False
    plugins: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    cuda_graph: bool = False

    speed_values: ClassVar = {"cuda_graph": (True, False)}

    def __post_init__(self) -> None:
        """Check the device too, before anything is built."""
        super().__post_init__()
        _ = self.device_index

    @property
    def device_index(self) -> int:
        """Return the index of the CUDA device.

        Raises:
            ParamsError: The device is neither ``cuda`` nor ``cuda:N``.

        Example:
            >>> TensorrtParams(device="cuda:1").device_index
            1
        """
        kind, colon, number = self.device.partition(":")
        if kind != "cuda" or (colon and not number.isdecimal()):
            raise ParamsError(
                f"unknown device '{self.device}' for TensorRT: expected cuda or cuda:N",
                hint="--device cuda",
            )
        return int(number or 0)

    @property
    def weights_file(self) -> str:
        """Return the name of the file with a stripped engine's weights, next to the engine."""
        return self.file_name.sibling(".onnx")

    @property
    def run_time_fields(self) -> tuple[str, ...]:
        """The fields that only the loaded engine reads."""
        return ("cuda_graph",)

    def get_model_files(self) -> tuple[str, ...]:
        """Return the paths of the engine and, for a stripped engine, of the weights."""
        names = (self.file_name, self.weights_file) if self.strip_plan else (self.file_name,)
        return self.in_work_dir(*names)


class TensorrtParams(SharedParams):
    """Parameters of TensorRT.

    Args:
        optimization_level (int): The effort to find fast kernels, from 0 to 5; TensorRT's
            default is 3.
        timing_cache (str): A folder that caches kernel timings, for each device and version, to
            make later builds faster.
        version_compatible (bool): Build an engine that newer versions of TensorRT with the same
            major version can load too.
        hardware_compatibility (str): The GPUs that can run the engine: none for the same model,
            same_compute_capability, or ampere_plus for Ampere and newer.
        dla_core (int): Run all supported layers on this DLA core in fp16, and the rest on the GPU.
    """

    product: ClassVar[Product] = TENSORRT
    # A parameter of TensorRT for RTX only: TensorRT builds for the machine's own GPU.
    compute_capability: ClassVar[tuple[str, ...]] = (CURRENT,)

    optimization_level: Annotated[int, msgspec.Meta(ge=0, le=5)] | None = None
    timing_cache: str | None = None
    version_compatible: bool = False
    hardware_compatibility: Literal["none", "same_compute_capability", "ampere_plus"] = "none"
    dla_core: Annotated[int, msgspec.Meta(ge=0)] | None = None

    speed_values: ClassVar = {**SharedParams.speed_values, "optimization_level": (5,)}

    @classmethod
    def config_keys(cls) -> dict[str, eb.ConfigKey]:
        """Return the keys of MMDeploy's configs that set these parameters."""
        # int8_mode comes after fp16_mode and so overrides it. With both, MMDeploy let TensorRT
        # choose the precision of each layer, which a strongly typed network does not allow.
        return {
            "common_config.fp16_mode": eb.ConfigKey(
                bool, lambda on: {"precision": "fp16"} if on else {}
            ),
            "common_config.int8_mode": eb.ConfigKey(
                bool, lambda on: {"precision": "int8"} if on else {}
            ),
            "common_config.max_workspace_size": eb.ConfigKey(
                int, lambda size: {"workspace_size": size or 0}
            ),
        }


class TensorrtRtxParams(SharedParams):
    """Parameters of TensorRT for RTX.

    Args:
        compute_capability (list): The GPUs to build for, such as sm89,sm120; building needs no GPU.
            The default is Ampere and newer; current means the GPU of this machine.
    """

    product: ClassVar[Product] = TENSORRT_RTX
    # TensorRT for RTX has none of these: it compiles an engine for the GPU at loading time.
    optimization_level: ClassVar[None] = None
    timing_cache: ClassVar[None] = None
    version_compatible: ClassVar[bool] = False
    hardware_compatibility: ClassVar[str] = "none"
    dla_core: ClassVar[None] = None

    compute_capability: tuple[str, ...] = ()


Params: TypeAlias = TensorrtParams | TensorrtRtxParams
