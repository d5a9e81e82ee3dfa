"""The engine's own account of where and how it computes."""

from __future__ import annotations

import msgspec

#: From the finest to the coarsest, by how far an engine may be off.
PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that an engine reports once it is loaded, which may not be those requested.

    Attributes:
        device: The device that computes: ``cpu``, ``cuda:0`` …
        device_name: The device's own name, empty where the engine does not know it.
        engine: Name and version: ``onnxruntime 1.31.1``.
        provider: The part of the engine that does the work: ``CPUExecutionProvider``.
        precision: The effective one: ``fp32``, ``fp16``, ``bf16``, ``int8`` or ``fp8``.
        fallbacks: One sentence for each request that the engine did not follow.
        driver: The device driver's version, empty where there is none.
        details: Anything else worth keeping, in the engine's words.

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
        """The engine, its device and its precision, in a line."""
        return f"{self.engine} on {self.provider or self.device}, {self.precision}"


def coarseness(precision: str) -> int:
    """The place in the order of precisions; an unknown one comes last, so that it is shown.

    Example:
        >>> max(["int8", "fp32", "bf16"], key=coarseness)
        'int8'
    """
    return PRECISIONS.index(precision) if precision in PRECISIONS else len(PRECISIONS)
