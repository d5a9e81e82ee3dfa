"""``enginebay convert``: turn an IR into a backend's artifact."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.cli.arguments import (
    add_backend_flags,
    add_data,
    add_int8_keep,
    add_work_dir,
    data_set,
)
from enginebay.cli.output import print_fields, print_json, print_next, stdout_on_stderr
from enginebay.cli.summaries import artifact_document
from enginebay.display import short_path
from enginebay.tensors import suggest_inputs

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay.artifact import Artifact

EXAMPLES = ("enginebay convert {backend} net.onnx --work-dir artifact",)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and the flags of the backend that ``argv`` names."""
    from enginebay.config import VerifyOptions

    parser.usage = "enginebay convert NAME IR [--work-dir FOLDER] [flags]"
    parser.add_argument("name", metavar="NAME", help="the backend; NAME -h lists its parameters")
    parser.add_argument(
        "ir", metavar="IR", type=Path, help="a .onnx, .pt (TorchScript) or .pt2 file"
    )
    add_work_dir(parser)
    add_data(parser, "the data calibrates an int8 engine")
    add_int8_keep(parser)
    VerifyOptions.add_arguments(parser, only=("timeout",))
    name = _find_backend(argv)
    if name:
        add_backend_flags(parser, name, argv)


def _find_backend(argv: list[str]) -> str | None:
    """Return the backend's name from an unparsed command line; None if there is none.

    The name is the first argument. If the first argument is a flag, the name is the first argument
    that is the name of an installed backend.
    """
    words = [word for word in argv if not word.startswith("-")]
    if not words or words[0] == argv[0]:
        return words[0] if words else None
    from enginebay.plugins import list_backends

    known = {status.name for status in list_backends()}
    return next((word for word in words if word in known), None)


def run(args: Namespace) -> int:
    """Convert the IR, and print the artifact's verdict and folder; return 0."""
    from enginebay.config import VerifyOptions
    from enginebay.operations import convert, get_backend, repeatable_command, typed

    backend = get_backend(args.name)
    with stdout_on_stderr(), typed(repeatable_command(args.argv)):
        artifact = convert(
            args.ir,
            backend=backend.name,
            work_dir=args.work_dir or Path(f"{args.ir.stem}-{backend.name}"),
            params=backend.Params.from_args(args),
            data=data_set(args),
            int8_keep=args.int8_keep,
            overwrite=args.overwrite,
            timeout=VerifyOptions.from_args(args).timeout,
        )
    if args.json:
        print_json(artifact_document(artifact))
        return 0
    verification = artifact.manifest.verification
    assert verification is not None
    print_fields((("verdict", verification.headline()), ("artifact", artifact.describe())))
    print_next(_next_commands(artifact))
    return 0


def _next_commands(artifact: Artifact) -> list[str]:
    folder = shlex.quote(short_path(artifact.path))
    # Converting records no inputs, and values can be generated for fixed sizes only.
    inputs = suggest_inputs(spec for spec in artifact.inputs if not spec.is_static and spec.dims)
    run = f"enginebay run {folder} {inputs}".rstrip()
    machines = artifact.manifest.built_for
    return [f"on {machines}: {run}" if machines else run, f"enginebay inspect {folder}"]
