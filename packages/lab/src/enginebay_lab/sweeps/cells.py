"""A cell of a sweep: one model on one backend at one precision, as plain data."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from enginebay_lab.shared_params import describe_params

if TYPE_CHECKING:
    from collections.abc import Mapping

# Keys are digests of JSON, which has no infinity and no NaN.
FiniteFloat = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
NonNegativeFloat = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
# MessagePack's integers have 64 bits.
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


# Without defaults, a field that a later version adds does not change the keys of existing cells.
class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sweep cell: the deployment of one model on one backend at one precision.

    A cell is plain data, so that any machine can run it: it contains the names of models, data sets
    and configs, never the objects.

    Attributes:
        model: The model, as on the command line: ``net.py:build``.
        backend: The backend's name.
        precision: The precision; empty for the backend's default.
        params: The backend's parameters by name.
        inputs: Example inputs, as for ``--input``: ``x=1x3x224x224``.
        config: The path of a deploy config; empty without one.
        exporter: The ONNX exporter; empty for the first exporter that works.
        ir: The IR; empty for the IRs that the backend prefers.
        rewriters: Additional rewriters: ``file.py:attr``.
        data: The name of a data set; empty without one.
        take: The number of items of the data set to use; None for all items.
        seed: The random seed for ``take``.
        metrics: The metrics that the artifact is evaluated with, on all items.
        max_drop: By how much a metric may be worse than PyTorch's; None for no limit.
        probes: The number of probe inputs (generated, with other values and sizes than the example)
            on which the artifact is verified; None for the default of :func:`enginebay.deploy`.
        rtol: The relative tolerance; None for the default.
        atol: The absolute tolerance; None for the default.
        duration: The longest time in seconds to measure the artifact's speed; 0 for no measurement.
        timeout: The time limit for the whole cell, in seconds.
        folder: The folder to which relative paths refer; empty for the current folder. The folder
            is not part of :attr:`key`, so that a sweep can be moved with its files.
    """

    model: str
    backend: str
    precision: str = ""
    params: dict[str, Any] = {}
    inputs: tuple[str, ...] = ()
    config: str = ""
    exporter: Literal["dynamo", "torchscript", ""] = ""
    ir: Literal["onnx", "torchscript", "exported_program", ""] = ""
    rewriters: tuple[str, ...] = ()
    data: str = ""
    take: Annotated[int, msgspec.Meta(ge=1, le=2**62)] | None = None
    seed: NonNegativeInt = 0
    metrics: tuple[str, ...] = ()
    max_drop: FiniteFloat | None = None
    probes: NonNegativeInt | None = None
    rtol: NonNegativeFloat | None = None
    atol: NonNegativeFloat | None = None
    duration: NonNegativeFloat = 0.0
    timeout: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 1800.0
    folder: str = ""

    @property
    def key(self) -> str:
        """The sweep cell's identifier: a hexadecimal digest of all fields except ``folder``."""
        moved = msgspec.structs.replace(self, folder="")
        # Parameters in a different order are the same cell.
        plain = msgspec.json.encode(moved, order="deterministic")
        return blake2b(plain, digest_size=8).hexdigest()

    @property
    def label(self) -> str:
        """The name of the sweep cell in messages: ``net.py:build on openvino fp16``."""
        return format_label(self.model, self.backend, self.precision, self.params)


def format_label(model: str, backend: str, precision: str, params: Mapping[str, object]) -> str:
    """Return the name of a sweep cell (one model, backend and precision) in messages.

    Example:
        >>> format_label("net.py:build", "openvino", "fp16", {"threads": 2})
        'net.py:build on openvino fp16 threads=2'
    """
    return f"{model} on {backend} {precision}".rstrip() + describe_params(params)
