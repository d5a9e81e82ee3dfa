"""``enginebay export``: turn a model into an IR: ONNX, TorchScript or ExportedProgram."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.cli.arguments import add_model_name, add_sizes, read_model
from enginebay.cli.output import print_json, print_next, stdout_on_stderr
from enginebay.cli.summaries import ir_document, print_ir
from enginebay.display import short_path

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay.ir import IRModel

EXAMPLES = (
    "enginebay export net.py:build",
    "enginebay export net.py:build --output net.pt2 --input input=1x3x32x32",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay.config import ONLY_OF_DEPLOY, ExportOptions

    parser.usage = "enginebay export MODEL [--output FILE] [--input NAME=SPEC] [flags]"
    add_model_name(parser)
    add_sizes(parser, "the model's example inputs")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write; the suffix selects the IR (default: the model's name with .onnx)",
    )
    parser.add_argument("--backend", metavar="NAME", help="apply the rewriters of this backend")
    parser.add_argument(
        "--min-shapes", metavar="SHAPES", help="smallest input shapes: x:1x3x32x32,…"
    )
    parser.add_argument(
        "--max-shapes", metavar="SHAPES", help="largest input shapes: x:1x3x512x512,…"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    group = parser.add_argument_group("export options")
    ExportOptions.add_arguments(group, skip=ONLY_OF_DEPLOY)


def run(args: Namespace) -> int:
    """Export the model, and print a description of the IR; return 0."""
    from enginebay.config import ExportOptions
    from enginebay.operations import export
    from enginebay.params import parse_shapes
    from enginebay.tensors import parse_inputs

    with stdout_on_stderr():
        model = export(
            read_model(args),
            parse_inputs(args.inputs) if args.inputs else None,
            path=args.output,
            backend=args.backend,
            dynamic=args.dynamic,
            options=ExportOptions.from_args(args),
            min_shapes=parse_shapes(args.min_shapes or ""),
            max_shapes=parse_shapes(args.max_shapes or ""),
            overwrite=args.overwrite,
        )
    if args.json:
        print_json(ir_document(model))
        return 0
    print_ir(model)
    file = shlex.quote(short_path(model.path))
    print_next([f"enginebay inspect {file}", *_conversion_command(model, args.backend, file)])
    return 0


def _conversion_command(model: IRModel, backend: str | None, file: str) -> list[str]:
    from enginebay.backend import default_backend
    from enginebay.errors import BackendUnavailableError
    from enginebay.operations import get_backend

    try:
        engine = get_backend(backend or default_backend())
    # The command is only a suggestion: without a backend there is none.
    except BackendUnavailableError:
        return []
    return [f"enginebay convert {engine.name} {file}"] if model.kind in engine.info.irs else []
