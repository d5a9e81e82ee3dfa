"""``enginebay bundle``: deploy a decoder with a loop that generates tokens without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay import commands

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay bundle net.py:build --backend onnxruntime -o bundle",)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    from enginebay import VerifyOptions

    parser.usage = "enginebay bundle MODEL --backend NAME [-o FOLDER] [--greedy] [flags]"
    parser.add_argument("model", metavar="MODEL", help=commands.MODEL_HELP)
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--pretrained", action="store_true", help="use the pretrained weights")
    weights.add_argument("--weights", metavar="FILE", default="", help="load these weights")
    parser.add_argument("--backend", metavar="NAME", required=True, help="the backend")
    parser.add_argument("-o", "--work-dir", metavar="FOLDER", help="the folder of the bundle")
    text = "accept a generation config that asks for sampling; the bundle does not sample"
    parser.add_argument("--greedy", action="store_true", help=text)
    text = "read at most N tokens (default: the model's positions, at most 512)"
    parser.add_argument("--positions", type=int, metavar="N", help=text)
    VerifyOptions.add_arguments(
        parser, only=("probes", "rtol", "atol", "allow_mismatch", "timeout")
    )
    commands.add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Make the bundle, and print its verdict; return 0."""
    from enginebay import VerifyOptions, get_backend
    from enginebay_transformers.decoder import deploy_decoder

    folder = args.work_dir or commands.default_work_dir(args.model, f"{args.backend}-bundle")
    command = commands.typed(commands.repeatable_command(args.argv))
    with (
        commands.progress() as watch,
        commands.stdout_on_stderr(),
        commands.quiet_verdict(),
        command,
    ):
        made = deploy_decoder(
            commands.read_model(args),
            backend=args.backend,
            work_dir=folder,
            params=get_backend(args.backend).Params.given_arguments(args),
            verify=VerifyOptions.given_arguments(args),
            positions=args.positions,
            greedy=args.greedy,
            watch=watch,
        )
    if args.json:
        commands.print_json(made.to_dict())
    else:
        commands.print_blocks(made.blocks())
        commands.print_next([f"enginebay generate {commands.short_path(made.path)} --ids 1,2,3"])
    return 0
