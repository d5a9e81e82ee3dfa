"""The result of :func:`enginebay.compare`: a row for each backend and precision, and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import disk_error, disk_failure
from enginebay.verdict import Verification

if TYPE_CHECKING:
    from pathlib import Path

#: The file of a comparison's folder that holds its rows.
ROWS_FILE = "comparison.json"


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One backend at one precision.

    Attributes:
        backend: The backend's name.
        precision: The precision; empty where the backend has none, or cannot be used.
        verdict: ``verified``, ``mismatched``, ``unverified``, ``crashed``, or ``failed`` where no
            engine could be built.
        reason: Why it is not verified; else empty.
        hint: What to type next, where something does; else empty.
        verification: The figures behind the verdict; None for ``failed``.
        artifact: The artifact's folder; None where none was published.
        size: Bytes of its files.
        seconds: How long it took to deploy.
        notes: For the caller, as :class:`enginebay.Deployment` has them.
    """

    backend: str
    precision: str
    verdict: str
    reason: str = ""
    hint: str = ""
    verification: Verification | None = None
    artifact: str | None = None
    size: int | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The backend and its precision: ``openvino fp16``."""
        return f"{self.backend} {self.precision}".rstrip()

    @property
    def max_abs_error(self) -> float | None:
        """The largest absolute error of any output; None where nothing was compared."""
        outputs = self.verification.outputs if self.verification else ()
        errors = [one.max_abs_error for one in outputs if one.max_abs_error is not None]
        return max(errors, default=None)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`enginebay.compare`.

    Attributes:
        model: What was deployed.
        reference: What it was compared with.
        rows: One for each backend and precision, in the order they were requested.
        command: What to type to compare again.
    """

    model: str
    reference: str = ""
    rows: tuple[ComparisonRow, ...] = ()
    command: str = ""

    @property
    def verified(self) -> tuple[ComparisonRow, ...]:
        """The rows whose artifacts are verified."""
        return tuple(row for row in self.rows if row.verdict == "verified")

    def save(self, folder: Path) -> None:
        """Write the rows to the comparison's folder, whole or not at all."""
        part = folder / f".{ROWS_FILE}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            data = msgspec.json.format(msgspec.json.encode(self), indent=2)
            part.write_bytes(data + b"\n")
            part.replace(folder / ROWS_FILE)
        except OSError as err:
            if disk_error(err):
                raise disk_failure(err) from err
            raise
