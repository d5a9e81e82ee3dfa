"""``enginebay inspect``: describe an artifact or an IR file."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.cli.output import print_blocks, print_fields, print_json, print_next, print_table
from enginebay.cli.summaries import artifact_document, ir_document, print_ir, receipt_fields
from enginebay.display import human_size, join_names, short_path
from enginebay.tensors import suggest_inputs

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from enginebay.artifact import Artifact, IRRecord, Manifest
    from enginebay.data import DataRecord
    from enginebay.partition import Part

EXAMPLES = ("enginebay inspect artifact", "enginebay inspect net.onnx --json")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay inspect ARTIFACT|IR [flags]"
    parser.add_argument(
        "path",
        metavar="ARTIFACT|IR",
        type=Path,
        help="the folder of an artifact, or a .onnx, .pt (TorchScript) or .pt2 file",
    )


def run(args: Namespace) -> int:
    """Describe an IR file, or check an artifact's files and describe the artifact; return 0."""
    import msgspec

    from enginebay.artifact import open_artifact
    from enginebay.ir import is_ir_file, read_and_summarise
    from enginebay.sources import describe_script_inputs, script_methods

    # A folder may have the name of a file.
    if is_ir_file(args.path) and not args.path.is_dir():
        module, ir, contents = read_and_summarise(args.path)
        if args.json:
            print_json(ir_document(ir) | {"contents": msgspec.structs.asdict(contents)})
            return 0
        print_ir(ir, contents.fields())
        name, specs = str(args.path), ir.inputs
        if not specs and hasattr(module, "forward"):
            specs = tuple(describe_script_inputs(module))
        elif not specs and module is not None and (methods := script_methods(module)):
            name = f"{name}:{methods[0]}"
        words = f"{shlex.quote(name)} {suggest_inputs(specs)}".rstrip()
        print_next([f"enginebay deploy {words}", f"enginebay preview {words}"])
        return 0
    artifact = open_artifact(args.path)
    if args.json:
        print_json(artifact_document(artifact))
    else:
        _print_artifact(artifact)
    return 0


def _print_artifact(artifact: Artifact) -> None:
    from enginebay.sources import weights_text

    manifest = artifact.manifest
    verification = manifest.verification
    torch = f", torch {manifest.torch_version}" if manifest.torch_version else ""
    print_fields(
        (
            ("artifact", short_path(artifact.path)),
            ("verdict", _describe_verdict(manifest)),
            *(verification.fields() if verification else ()),
            ("weights", weights_text(manifest.weights)),
            ("model", manifest.reference_sha256 and f"sha256 {manifest.reference_sha256}"),
            ("backend", f"{manifest.backend} {manifest.engine_version}"),
            ("plugin", f"{manifest.plugin.distribution} {manifest.plugin.version}"),
            *receipt_fields(manifest.receipt, manifest.requested_precision),
            ("params", ", ".join(f"{k}={_format_param(v)}" for k, v in manifest.params.items())),
            ("ir", _describe_ir(manifest.ir)),
            *(("note", note) for note in (manifest.ir.notes if manifest.ir else ())),
            ("data", _describe_data(manifest.data)),
            ("kept", join_names(manifest.kept)),
            ("task", _describe_task(manifest.task)),
            ("made", f"{manifest.created} by enginebay {manifest.enginebay_version}{torch}"),
            ("on", f"{manifest.platform}, Python {manifest.python}"),
            ("built for", manifest.built_for),
            *(("run", run.describe()) for run in manifest.runs),
            *(("pinned", f"{field} {value}") for field, value in manifest.pinned.items()),
            ("command", manifest.command),
            *(("input", spec.describe()) for spec in manifest.inputs),
            *(("output", spec.describe()) for spec in manifest.outputs),
            *(("part", _describe_part(part)) for part in manifest.parts),
        )
    )
    if verification and (verification.outputs or verification.simulation):
        sys.stdout.write("\n")
        print_blocks(verification.output_blocks())
    sys.stdout.write("\n")
    print_table(
        ("FILE", "SIZE", "SHA256"),
        [(entry.path, human_size(entry.size), entry.sha256) for entry in manifest.files],
        right=("SIZE",),
        digests=("SHA256",),
    )


def _describe_verdict(manifest: Manifest) -> str:
    """Return the recorded verdict and its time: nothing is compared here."""
    verification = manifest.verification
    if verification is None:
        return "unverified"
    # Each machine that the engine is built for has compared it at a time of its own.
    time = max((run.time for run in manifest.runs), default=manifest.created)
    return f"recorded: {verification.headline()}; {time}"


def _format_param(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _describe_part(part: Part) -> str:
    inputs, outputs = (", ".join(spec.name for spec in s) for s in (part.inputs, part.outputs))
    return f"{part.folder}: {inputs} → {outputs}"


def _describe_data(data: DataRecord | None) -> str:
    if data is None:
        return ""
    targets = f", targets by {data.targets}" if data.targets else ""
    return f"{data.source}, {data.count} items{targets}, digest {data.digest}"


def _describe_task(task: Mapping[str, object] | None) -> str:
    """Return a task's kind; if this installation cannot read the task, also return the reason."""
    from enginebay.tasks import explain_unread_task

    if task is None:
        return ""
    return "; ".join(filter(None, (str(task.get("type")), explain_unread_task(task))))


def _describe_ir(ir: IRRecord | None) -> str:
    if ir is None:
        return ""
    opset = f", opset {ir.opset}" if ir.opset else ""
    return f"{ir.kind} by {ir.exporter or 'hand'}{opset}, sha256 {ir.sha256}"
