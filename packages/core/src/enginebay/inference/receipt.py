"""Receipt of a loaded engine: the device, provider and precision that the engine reports."""

from __future__ import annotations

import msgspec

#: The precisions from the finest to the coarsest, by the tolerance that each requires.
PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of a loaded engine, which may differ from the requested settings.

    Attributes:
        device: The device that computes, such as ``cpu`` or ``cuda:0``.
        device_name: The product name of the device; empty if unknown.
        engine: The engine's name and version, such as ``onnxruntime 1.31.1``.
        provider: The engine's component that computes, such as ``CPUExecutionProvider``; empty if
            the engine has no such components.
        precision: The effective precision: ``fp32``, ``fp16``, ``bf16``, ``int8`` or ``fp8``.
        fallbacks: One sentence for each requested setting that the engine did not apply.
        driver: The version of the device's driver; empty if the engine does not report it.
        details: Further settings, with the engine's names for them.

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

    def describe(self, requested: str = "") -> str:
        """Return the engine, its device and its precision in one line.

        Args:
            requested: The requested precision; empty if none was requested.
        """
        precision = describe_precision(requested, self.precision)
        return f"{self.engine} on {self.place}, {precision}"

    @property
    def place(self) -> str:
        """The provider or the device; with a reservation if nothing but its name speaks for it.

        Example:
            >>> Receipt(device="vulkan", engine="mine 1.0").place
            'vulkan (as requested, not observed)'
        """
        observed = self.provider or self.device_name or self.driver or self.details
        doubt = "" if observed or self.device == "cpu" else " (as requested, not observed)"
        return f"{self.provider or self.device}{doubt}"


def describe_precision(requested: str, computed: str) -> str:
    """Return the precision that a table shows; both if the engine computed in another one.

    Args:
        requested: The requested precision; empty if none was requested.
        computed: The precision that the engine computed in; empty if it did not run.

    Example:
        >>> [describe_precision(*pair) for pair in (("fp16", "fp32"), ("fp16", ""), ("", "fp32"))]
        ['fp16 → fp32', 'fp16', 'fp32']
    """
    return " → ".join(dict.fromkeys(filter(None, (requested, computed))))


def coarseness(precision: str) -> int:
    """Return how coarse a precision is: 0 for the finest; an unknown precision is the coarsest.

    Example:
        >>> max(["int8", "fp32", "bf16"], key=coarseness)
        'int8'
    """
    return PRECISIONS.index(precision) if precision in PRECISIONS else len(PRECISIONS)
