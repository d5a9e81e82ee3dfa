"""A cell of a sweep: one model, on one backend, at one precision, as plain data."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

# JSON, which keys are digests of, has no infinity and no not-a-number.
Figure = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]  # messages have 64 bits for a number


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One deployment of a sweep.

    It is plain data, so that it can be run on another machine: models, data sets and configs are
    named, never sent as objects.

    Attributes:
        model: The model, as text that names one on the command line.
        backend: The backend's name.
        precision: The precision; empty for the backend's own.
        params: The backend's parameters by name.
        inputs: Example inputs, as ``--input`` takes them: ``x=1x3x224x224``.
        config: The path of a deploy config; empty for none.
        exporter: The ONNX exporter; empty for the first that works.
        ir: The IR; empty for the backend's preferred ones.
        rewriters: Rewriters of your own, as text that names them: ``file.py:attr``.
        data: What names a data set; empty for none.
        take: Use so many of its items; None for all.
        seed: Another seed, other items.
        metrics: What the artifact is evaluated with, on all items; empty for no evaluation.
        max_drop: How much worse than PyTorch's a metric may be; None for any.
        probes: How many inputs of other values and sizes the verdict rests on; None for as many as
            :func:`enginebay.deploy` takes by default.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        seconds: How long the artifact is measured; 0 for not at all.
        timeout: Seconds that the whole cell may take.
        folder: Where the relative paths in it begin; empty for the current folder. It is no part of
            :attr:`key`, so that a sweep that moved with its files is the same one.
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
    seed: Count = 0
    metrics: tuple[str, ...] = ()
    max_drop: Figure | None = None
    probes: Count | None = None
    rtol: Amount | None = None
    atol: Amount | None = None
    seconds: Amount = 0.0
    timeout: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 1800.0
    folder: str = ""

    @property
    def key(self) -> str:
        """A digest of all that it says, in hexadecimal: equal cells have equal keys."""
        moved = msgspec.structs.replace(self, folder="")
        plain = msgspec.json.encode(moved, order="deterministic")
        return blake2b(plain, digest_size=8).hexdigest()

    @property
    def label(self) -> str:
        """The name in messages: ``net.py:build on openvino fp16``."""
        return label(self.model, self.backend, self.precision, self.params)


def label(model: str, backend: str, precision: str, params: Mapping[str, Any]) -> str:
    """Return the name of a cell and of its row.

    Example:
        >>> label("net.py:build", "openvino", "fp16", {"threads": 2})
        'net.py:build on openvino fp16 threads=2'
    """
    named = "".join(f" {name}={value}" for name, value in params.items())
    return f"{model} on {backend} {precision}".rstrip() + named
