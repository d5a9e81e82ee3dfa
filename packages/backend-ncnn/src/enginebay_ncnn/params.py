"""The parameters of pnnx and ncnn."""

from __future__ import annotations

from typing import ClassVar, Literal

import enginebay as eb
from enginebay.environment import thread_counts
from enginebay.errors import ParamsError


def parse_vulkan_index(device: str) -> int | None:
    """Return the index of a Vulkan device; None for the CPU.

    Raises:
        ParamsError: The device is neither ``cpu`` nor ``vulkan`` nor ``vulkan:N``.
    """
    kind, _, number = device.partition(":")
    if device == "cpu":
        return None
    if kind != "vulkan" or not (number or "0").isdecimal() or device.endswith(":"):
        raise ParamsError(
            f"unknown device '{device}' for ncnn: expected cpu, vulkan or vulkan:N",
            hint="--device cpu",
        )
    return int(number or 0)


class NcnnParams(eb.BackendParams):
    """Parameters of ncnn.

    Args:
        device (str): cpu, vulkan or vulkan:N.
        precision (str): fp32 stores weights and blobs in single precision; fp16 stores them in half
            precision and computes in single precision; int8 computes convolutions and inner
            products in 8 bits, calibrated with a data set.
        fp16_arithmetic (bool): With fp16, compute in half precision too, if the processor can.
        threads (int): Threads inside one layer; 0 lets ncnn choose.
        light_mode (bool): Release each intermediate blob as soon as no layer needs it.
        packing (bool): Let ncnn interleave several channels of a blob for vector instructions.
        winograd (bool): Use the Winograd algorithm for convolutions: faster, but less exact.
        custom_layers (dict): Your own layers, each as Type=package.module:Class, where Class
            is derived from ncnn.Layer. The package must be importable where the artifact runs.
        module_ops (list): Classes of modules that become one layer each, such as
            my_models.head.Decode or net.py:Decode; custom_layers provides these layers.
        pnnx_timeout (float): Time limit in seconds of pnnx, and of the first run of its network.
    """

    file_name: eb.FileName = eb.FileName("model", suffix=".param", siblings=(".bin", ".plan.json"))
    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    fp16_arithmetic: bool = False
    threads: int = 0
    light_mode: bool = True
    packing: bool = True
    winograd: bool = True
    custom_layers: dict[str, str] = {}
    module_ops: tuple[str, ...] = ()
    pnnx_timeout: float = 600.0

    speed_values: ClassVar = {
        "threads": thread_counts(),
        "packing": (True, False),
        "winograd": (True, False),
        "light_mode": (True, False),
    }

    def __post_init__(self) -> None:
        """Check the device too, before anything is built."""
        super().__post_init__()
        parse_vulkan_index(self.device)

    @property
    def run_time_fields(self) -> tuple[str, ...]:
        """The fields that only the loaded network reads, and that change none of its outputs."""
        return ("threads", "light_mode")

    @classmethod
    def config_keys(cls) -> dict[str, eb.ConfigKey]:
        """Return the keys of MMDeploy's configs that set these parameters."""
        return {
            "use_vulkan": eb.ConfigKey(bool, lambda on: {"device": "vulkan"} if on else {}),
            "common_config.fp16_mode": eb.ConfigKey(
                bool, lambda on: {"precision": "fp16"} if on else {}
            ),
        }
