"""``enginebay audit``: find out whether model files are the same model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.commands import add_inputs, print_blocks, print_json, progress, stdout_on_stderr

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay audit net.onnx net-half.onnx net-int8.onnx",
    "enginebay audit net.onnx net-half.onnx --input x=image.npy",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay import VerifyOptions

    parser.usage = "enginebay audit FILE FILE … [--input NAME=SPEC] [--backend NAME] [flags]"
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a .onnx file; each is compared with the first",
    )
    add_inputs(parser, "random values, if all sizes are fixed")
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="the backend that runs the files (default: the first installed one that reads ONNX, "
        "else onnx's reference evaluator)",
    )
    VerifyOptions.add_arguments(parser, only=("rtol", "atol", "timeout"))


def run(args: Namespace) -> int:
    """Compare the files, and print a row for each.

    Returns:
        1 if a file is not the same model as the first, else 0.
    """
    from enginebay import VerifyOptions
    from enginebay.authors.arrays import parse_inputs
    from enginebay_lab.diagnosis.audit_files import audit

    with progress() as watch, stdout_on_stderr():
        options = VerifyOptions.given_arguments(args)
        inputs = parse_inputs(args.inputs)
        audited = audit(args.files, inputs, backend=args.backend, **options, watch=watch)
    if args.json:
        print_json(audited.to_dict())
    else:
        print_blocks(audited.blocks())
    return int(not audited.same)
