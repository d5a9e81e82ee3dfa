"""``enginebay exported``: judge a folder that transformers exported, by the model in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.commands import (
    add_inputs,
    named_backends,
    print_blocks,
    print_json,
    stdout_on_stderr,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay_transformers.judged_folder import JudgedFolder

EXAMPLES = (
    "enginebay exported exported",
    "enginebay exported exported --model net.py:build --backend onnxruntime,openvino",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay import VerifyOptions

    parser.usage = "enginebay exported FOLDER [--model MODEL] [--backend NAME,NAME …] [flags]"
    parser.add_argument(
        "folder", metavar="FOLDER", help="what ExportedModel.save_pretrained of transformers wrote"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the model that was exported; without it, the folder's components are listed",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME[,NAME …]",
        help="the backends that run the files (default: onnxruntime)",
    )
    add_inputs(parser, "the model's example inputs, or random ids with a row padded on the left")
    VerifyOptions.add_arguments(parser, only=("rtol", "atol", "probes", "timeout"))


def run(args: Namespace) -> int:
    """List the components of a folder, or judge them.

    Returns:
        1 if a component is not verified, or the components lack something; else 0.
    """
    from enginebay_transformers.exported_folder import ExportedFolder, read_folder

    found = _judge(args) if args.model else read_folder(args.folder)
    if args.json:
        print_json(found.to_dict())
    else:
        print_blocks(found.blocks())
    return int(not isinstance(found, ExportedFolder) and not found.verified)


def _judge(args: Namespace) -> JudgedFolder:
    from enginebay import VerifyOptions
    from enginebay.authors.arrays import parse_inputs
    from enginebay_transformers.judged_folder import judge_folder

    with stdout_on_stderr():
        return judge_folder(
            args.folder,
            args.model,
            parse_inputs(args.inputs),
            backends=named_backends(args.argv) or ["onnxruntime"],
            verify=VerifyOptions.given_arguments(args),
        )
