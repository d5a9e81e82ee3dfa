"""``enginebay deploy``: turn a model into a verified artifact."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from enginebay.cli.arguments import add_work_dir, read_model
from enginebay.cli.model_arguments import (
    add_backend_parameters,
    add_model,
    add_options,
    model_options,
)
from enginebay.cli.output import print_blocks, print_json, print_next, stdout_on_stderr
from enginebay.cli.summaries import quiet_verdict
from enginebay.display import short_path

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from enginebay.operations import Deployment

EXAMPLES = (
    "enginebay deploy net.py:build --backend {backend} --work-dir artifact",
    "enginebay deploy model.onnx --input x=1x3x224x224 --overwrite",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and the flags of the chosen backend."""
    parser.usage = (
        "enginebay deploy MODEL [--backend NAME] [--config FILE] [--input NAME=SPEC] [flags]"
    )
    add_model(parser)
    add_work_dir(parser)
    add_options(parser)
    add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Deploy the model, and print a description of the artifact; return 0."""
    from enginebay.cli.progress import progress
    from enginebay.config import VerifyOptions
    from enginebay.operations import deploy, repeatable_command, typed

    with progress() as watch, stdout_on_stderr(), quiet_verdict():
        options = model_options(args)
        # The default depends on the installed backends, so the recorded command names it.
        flags = [] if args.backend else ["--backend", options["backend"]]
        with typed(repeatable_command(args.argv, *flags)):
            deployment = deploy(
                read_model(args),
                **options,
                verify=VerifyOptions.from_args(args),
                work_dir=args.work_dir,
                overwrite=args.overwrite,
                reuse=True,
                watch=watch,
            )
    if args.json:
        print_json(deployment.to_dict())
    else:
        print_blocks(deployment.blocks())
        print_next(_next_commands(deployment))
    return 0


def _next_commands(deployment: Deployment) -> Iterator[str]:
    folder = shlex.quote(short_path(deployment.artifact.path))
    if deployment.is_elsewhere:
        verb = "verify" if deployment.verification.reference else "run"
        yield f"on {deployment.artifact.manifest.built_for}: enginebay {verb} {folder}"
        yield f"enginebay inspect {folder}"
        return
    # An engine that crashed cannot run.
    commands = {"crashed": ("inspect",), "unverified": ("run", "inspect")}
    for command in commands.get(deployment.verdict, ("run", "verify", "inspect")):
        yield f"enginebay {command} {folder}"
