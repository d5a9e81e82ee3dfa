"""Receipt of a loaded engine: the device, provider and precision that it reports."""

from __future__ import annotations

import msgspec

#: From the finest to the coarsest, by the tolerance that each one needs.
PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of a loaded engine, which may differ from the requested ones.

    Attributes:
        device: The device that computes: ``cpu``, ``cuda:0`` …
        device_name: The device's model name; empty if unknown.
        engine: Name and version: ``onnxruntime 1.31.1``.
        provider: The part of the engine that computes: ``CPUExecutionProvider``.
        precision: The effective precision: ``fp32``, ``fp16``, ``bf16``, ``int8`` or ``fp8``.
        fallbacks: One sentence for each requested setting that the engine did not apply.
        driver: The version of the device's driver; empty if it has none.
        details: Further settings under the engine's own names.

    Example:
        >>> Receipt(device="cpu", engine="onnxruntime 1.31.1").fallbacks
        ()
    """

    device: str
    device_name: str = ""
    engine: str = ""
    provider: str = ""
    precision: str = "fp32"
    fallbacks: tuple[str, ...] = ()
    driver: str = ""
    details: dict[str, str] = {}

    def describe(self) -> str:
        """Return the engine, its device and its precision in one line."""
        return f"{self.engine} on {self.provider or self.device}, {self.precision}"


def coarseness(precision: str) -> int:
    """Return a precision's rank from fine to coarse.

    An unknown precision ranks as the coarsest, so that the coarsest of several shows it.

    Example:
        >>> max(["int8", "fp32", "bf16"], key=coarseness)
        'int8'
    """
    return PRECISIONS.index(precision) if precision in PRECISIONS else len(PRECISIONS)
