"""The parameters of OpenVINO."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

import enginebay as eb
from enginebay.environment import thread_counts
from enginebay.errors import ParamsError
from enginebay_openvino.devices import available_devices, resolve_device

if TYPE_CHECKING:
    from collections.abc import Mapping


def _properties(params: OpenvinoParams) -> list[dict[str, str]]:
    if params.device.lower() != "cpu":
        return []
    options = ("ENABLE_CPU_PINNING", "ENABLE_HYPER_THREADING")
    return [params.properties | {name: value} for name in options for value in ("YES", "NO")]


def _optimizer_arguments(arguments: Mapping[str, object] | None) -> dict[str, Any]:
    """Convert command-line arguments of the Model Optimizer to parameters."""
    fields: dict[str, Any] = {}
    for name, value in (arguments or {}).items():
        if name != "--data_type":
            raise ParamsError(
                f"'{name}' was an argument of the Model Optimizer, which OpenVINO removed",
                hint="remove the argument, and change the model instead",
            )
        fields["fp16_weights"] = str(value).upper() in ("FP16", "HALF")
    return fields


class OpenvinoParams(eb.BackendParams):
    """Parameters of OpenVINO.

    Args:
        device (str): cpu, gpu, gpu.N, npu or auto.
        precision (str): The precision to compute in, on any processor. int8 quantises the model
            during conversion; layers that cannot be quantised compute in fp32.
        fp16_weights (bool): Store the weights in half precision: the files become half as large,
            and the results less exact, with any precision.
        performance_hint (str): Optimise for the latency of one call, or for many calls at once.
        streams (int): Calls that run at the same time; 0 lets the performance hint decide.
        threads (int): Threads on the CPU; 0 lets OpenVINO choose.
        cache_dir (str): A folder that caches compiled models, which makes later loads faster.
        properties (dict): Other OpenVINO properties, such as CPU_DENORMALS_OPTIMIZATION=YES.
        extensions (list): Your own operators: paths of shared libraries, or Python objects as
            file.py:attr or package.module:attr, derived from openvino.Op or made with
            openvino.frontend.onnx. The files are copied into the artifact.
    """

    file_name: eb.FileName = eb.FileName("model", suffix=".xml", siblings=(".bin",))
    precision: Literal["fp32", "fp16", "bf16", "int8"] = "fp32"
    fp16_weights: bool = False
    performance_hint: Literal["latency", "throughput", "cumulative_throughput"] = "latency"
    streams: Annotated[int, msgspec.Meta(ge=0)] = 0
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    cache_dir: str | None = None
    properties: dict[str, str] = {}
    extensions: tuple[str, ...] = ()

    speed_values: ClassVar = {
        "threads": thread_counts(),
        "performance_hint": ("latency", "throughput"),
        "streams": (1, 2),
        "properties": _properties,
    }

    def __post_init__(self) -> None:
        """Check the device too, before anything is built; OpenVINO is asked for unusual names."""
        super().__post_init__()
        if self.device.lower() not in ("cpu", "gpu", "npu", "auto") and find_spec("openvino"):
            import openvino

            resolve_device(self.device, available_devices(openvino.Core()))

    @property
    def allowed_precision(self) -> str:
        """The precision whose tolerance applies; for fp32 with fp16 weights, this is fp16."""
        return "fp16" if self.fp16_weights and self.precision == "fp32" else self.precision

    @property
    def run_time_fields(self) -> tuple[str, ...]:
        """The fields that become properties of the compiled model, which no file contains."""
        return ("performance_hint", "streams", "threads", "cache_dir", "properties")

    @classmethod
    def config_keys(cls) -> dict[str, eb.ConfigKey]:
        """Return the keys of MMDeploy's configs, with the parameter that each sets, if any."""
        gone = "the Model Optimizer was removed; OpenVINO reads the IR itself"
        return {
            "common_config.fp16_mode": eb.ConfigKey(
                bool, lambda on: {"precision": "fp16"} if on else {}
            ),
            "mo_options.args": eb.ConfigKey(dict[str, Any], _optimizer_arguments),
            "mo_options.flags": eb.ConfigKey(list[str], no_effect=gone),
        }
