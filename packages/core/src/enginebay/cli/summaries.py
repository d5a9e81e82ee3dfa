"""Summaries of receipts (how an engine ran), artifacts and IRs, which several commands print."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.cli.output import print_fields
from enginebay.display import human_size, short_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from enginebay.artifact import Artifact
    from enginebay.inference import Receipt
    from enginebay.ir import IRModel


@contextmanager
def quiet_verdict() -> Iterator[None]:
    """In the ``with`` block, suppress warnings about a verdict: the command prints the verdict."""
    from enginebay.verdict import VerdictWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VerdictWarning)
        yield


def receipt_fields(receipt: Receipt | None, requested: str = "") -> list[tuple[str, str]]:
    """Return pairs of a label and a text: the engine that ran, and each of its fallbacks.

    Args:
        receipt: The engine's receipt; None if it did not run.
        requested: The requested precision; empty if none was requested.
    """
    if receipt is None:
        return []
    fallbacks = (("fallback", text) for text in receipt.fallbacks)
    return [("engine", receipt.describe(requested)), *fallbacks]


def artifact_document(artifact: Artifact) -> dict[str, object]:
    """Return the path and the manifest of an artifact as plain JSON values."""
    import msgspec

    return {
        "kind": "artifact",
        "artifact": str(artifact.path),
        "manifest": msgspec.to_builtins(artifact.manifest),
    }


def ir_document(model: IRModel) -> dict[str, object]:
    """Return an IR as plain JSON values."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(model, enc_hook=str)  # paths
    return {"ir": {**fields, "sha256": model.digest()}}


def print_ir(model: IRModel, contents: Iterable[tuple[str, str]] = ()) -> None:
    """Print a description of an IR on stdout, with further fields about its contents."""
    opset = f", opset {model.opset}" if model.opset else ""
    print_fields(
        (
            ("ir", model.kind + (f" by {model.exporter}" if model.exporter else "") + opset),
            *(("file", f"{short_path(f)} ({human_size(f.stat().st_size)})") for f in model.files),
            ("sha256", model.digest()),
            *contents,
            *(("input", spec.describe()) for spec in model.inputs),
            *(("output", spec.describe()) for spec in model.outputs),
            *(("note", note) for note in model.notes),
        )
    )
