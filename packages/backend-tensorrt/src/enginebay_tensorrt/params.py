"""The parameters of TensorRT, and those of TensorRT for RTX."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

import enginebay as eb
from enginebay.errors import ParamsError
from enginebay_tensorrt.products import TENSORRT, TENSORRT_RTX, Product

#: The compute capability of the GPU that an engine is built on, as a parameter.
CURRENT = "current"


class SharedParams(eb.BackendParams):
    """Parameters that both have. Each of them documents its own, as that makes them flags."""

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

    @property
    def device_index(self) -> int:
        """Return the number of the CUDA device.

        Raises:
            ParamsError: The device is neither ``cuda`` nor ``cuda:N``.

        Example:
            >>> TensorrtParams(device="cuda:1").device_index
            1
        """
        kind, colon, number = self.device.partition(":")
        if kind != "cuda" or (colon and not number.isdecimal()):
            raise ParamsError(
                f"device '{self.device}' is not one of TensorRT's: wanted cuda or cuda:N",
                hint="pass --device cuda",
            )
        return int(number or 0)

    @property
    def weights_file(self) -> str:
        """Return the file with a stripped engine's weights, which lies beside the engine."""
        return self.file_name.sibling(".onnx")

    def get_model_files(self) -> tuple[str, ...]:
        """Return the engine, and the weights where they are not in it."""
        names = (self.file_name, self.weights_file) if self.strip_plan else (self.file_name,)
        return self.in_work_dir(*names)


class TensorrtParams(SharedParams):
    """Parameters of TensorRT.

    Args:
        work_dir (str): The folder that the artifact becomes.
        file_name (str): File name of the engine. The suffix .engine is added where it has none.
        device (str): cuda or cuda:N.
        precision (str): The precision of the engine. fp16 and bf16 convert the graph, int8 and fp8
            put Q/DQ nodes around convolutions and matrix products; inputs and outputs keep their
            dtypes. fp32 is without TF32.
        workspace_size (int): Bytes of device memory that one layer may use; 0 sets no limit.
        optimization_level (int): The effort to find fast kernels, from 0 to 5; TensorRT's own
            default is 3.
        timing_cache (str): A folder that keeps measured kernels, for each device and version, so
            that later builds are quick.
        version_compatible (bool): Make an engine that newer TensorRT of the same major version
            loads too.
        hardware_compatibility (str): none binds the engine to this model of GPU,
            same_compute_capability to its compute capability, ampere_plus to Ampere and newer.
        dla_core (int): Run on this DLA core, in fp16, what it can run, and the rest on the GPU.
        sparsity (bool): Use kernels for weights with 2 zeros in each 4, where there are some.
        refit (bool): Make an engine whose weights can be replaced.
        strip_plan (bool): Leave the weights out of the engine; they are kept beside it as ONNX and
            put back when it is loaded.
        plugins (list): Shared libraries with plugins, which are copied into the artifact.
        profiles (list): More optimisation profiles, each as smallest / usual / largest shapes,
            such as "x:1x3 / x:4x3 / x:8x3"; several inputs are separated by blanks.
        cuda_graph (bool): Run a model with fixed shapes as one CUDA graph.
        input_shapes (str): Input shapes, such as input:1x3x224x224,mask:1x77.
        min_shapes (str): Smallest input shapes; a dimension that differs becomes dynamic.
        max_shapes (str): Largest input shapes.
    """

    product: ClassVar[Product] = TENSORRT
    # What TensorRT for RTX has instead: here an engine is for the machine that builds it.
    compute_capability: ClassVar[tuple[str, ...]] = (CURRENT,)

    optimization_level: Annotated[int, msgspec.Meta(ge=0, le=5)] | None = None
    timing_cache: str | None = None
    version_compatible: bool = False
    hardware_compatibility: Literal["none", "same_compute_capability", "ampere_plus"] = "none"
    dla_core: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @classmethod
    def config_keys(cls) -> dict[str, eb.ConfigKey]:
        """Map MMDeploy's spellings.

        ``int8_mode`` comes last and so wins over ``fp16_mode``: MMDeploy let TensorRT choose
        between the two for each layer, which a typed graph cannot.
        """
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
        work_dir (str): The folder that the artifact becomes.
        file_name (str): File name of the engine. The suffix .engine is added where it has none.
        device (str): cuda or cuda:N.
        precision (str): The precision of the engine. fp16 and bf16 convert the graph, int8 and fp8
            put Q/DQ nodes around convolutions and matrix products; inputs and outputs keep their
            dtypes. fp32 is without TF32.
        compute_capability (list): The GPUs that the engine is for, such as sm89,sm120; no GPU is
            needed to build it. Without it, it is for Ampere and newer; current is this machine's
            own.
        workspace_size (int): Bytes of device memory that one layer may use; 0 sets no limit.
        sparsity (bool): Use kernels for weights with 2 zeros in each 4, where there are some.
        refit (bool): Make an engine whose weights can be replaced.
        strip_plan (bool): Leave the weights out of the engine; they are kept beside it as ONNX and
            put back when it is loaded.
        plugins (list): Shared libraries with plugins, which are copied into the artifact.
        profiles (list): More optimisation profiles, each as smallest / usual / largest shapes,
            such as "x:1x3 / x:4x3 / x:8x3"; several inputs are separated by blanks.
        cuda_graph (bool): Run a model with fixed shapes as one CUDA graph.
        input_shapes (str): Input shapes, such as input:1x3x224x224,mask:1x77.
        min_shapes (str): Smallest input shapes; a dimension that differs becomes dynamic.
        max_shapes (str): Largest input shapes.
    """

    product: ClassVar[Product] = TENSORRT_RTX
    # It has none of these: its engines are compiled for a GPU where they are loaded.
    optimization_level: ClassVar[None] = None
    timing_cache: ClassVar[None] = None
    version_compatible: ClassVar[bool] = False
    hardware_compatibility: ClassVar[str] = "none"
    dla_core: ClassVar[None] = None

    compute_capability: tuple[str, ...] = ()


Params: TypeAlias = TensorrtParams | TensorrtRtxParams
