"""``enginebay bundle``: deploy a decoder with a loop that generates tokens without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_backend_parameters,
    default_work_dir,
    print_blocks,
    print_json,
    print_next,
    progress,
    quiet_verdict,
    read_model,
    repeatable_command,
    short_path,
    stdout_on_stderr,
    typed,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay bundle net.py:build --backend onnxruntime -o bundle",)
_VERIFY = ("probes", "rtol", "atol", "allow_mismatch", "timeout")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    from enginebay import VerifyOptions

    parser.usage = "enginebay bundle MODEL --backend NAME [-o FOLDER] [--greedy] [flags]"
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--pretrained", action="store_true", help="use the pretrained weights")
    weights.add_argument("--weights", metavar="FILE", default="", help="load these weights")
    parser.add_argument("--backend", metavar="NAME", required=True, help="the backend")
    parser.add_argument(
        *("-o", "--work-dir"), type=Path, metavar="FOLDER", help="the folder of the bundle"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing bundle")
    parser.add_argument(
        "--greedy",
        action="store_true",
        help="accept a generation config that asks for sampling; the bundle does not sample",
    )
    for name, default, text in (
        ("prompts", 8, "compare the tokens after N random prompts"),
        ("tokens", 16, "compare N tokens after each prompt"),
        ("positions", None, "read at most N tokens (default: the model's positions, at most 512)"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    VerifyOptions.add_arguments(parser, only=_VERIFY)
    add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Make the bundle, and print its verdict; return 0."""
    from enginebay import VerifyOptions, get_backend
    from enginebay_transformers.decoder import deploy_decoder

    command = repeatable_command(args.argv)
    with progress() as watch, stdout_on_stderr(), quiet_verdict(), typed(command):
        made = deploy_decoder(
            read_model(args),
            backend=args.backend,
            work_dir=args.work_dir or default_work_dir(args.model, f"{args.backend}-bundle"),
            params=get_backend(args.backend).Params.given_arguments(args),
            verify=VerifyOptions.given_arguments(args),
            prompts=args.prompts,
            tokens=args.tokens,
            positions=args.positions,
            greedy=args.greedy,
            overwrite=args.overwrite,
            watch=watch,
        )
    if args.json:
        print_json(made.to_dict())
    else:
        print_blocks(made.blocks())
        print_next([f"enginebay generate {short_path(made.path)} --ids 1,2,3"])
    return 0
