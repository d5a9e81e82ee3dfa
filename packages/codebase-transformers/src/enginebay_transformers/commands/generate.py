"""``enginebay generate``: append tokens to prompts with a bundle, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import print_blocks, print_json, stdout_on_stderr
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay generate bundle --ids 1,2,3 --ids 4,5 --tokens 40",)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay generate BUNDLE --ids N,N … [--ids N,N …] [--tokens N] [flags]"
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="the folder of a bundle")
    for flag, text in (
        ("--ids", "the ids of a prompt; repeat for several prompts, which are padded on the left"),
        ("--mask", "0 at the padding of a prompt, 1 elsewhere; repeat for each --ids"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar="N,N …", help=text)
    text = "append at most N tokens (default: 20)"
    parser.add_argument("--tokens", type=int, default=20, metavar="N", help=text)
    parser.add_argument("--device", help="the device to run on, instead of the artifact's device")


def run(args: Namespace) -> int:
    """Generate, and print a line with the new tokens of each prompt; return 0."""
    from enginebay_transformers.bundle import open_bundle, pad_left

    if not args.ids or (args.mask and len(args.mask) != len(args.ids)):
        found = f"{len(args.ids)} --ids and {len(args.mask)} --mask"
        raise UsageError(f"expected a prompt, and a mask for each or none; found {found}")
    rows, masks = ([_read_numbers(text) for text in texts] for texts in (args.ids, args.mask))
    with stdout_on_stderr(), open_bundle(args.bundle, device=args.device) as bundle:
        ids, mask = pad_left(rows, bundle.generation.pad)
        result = bundle.generate(ids, pad_left(masks, 0)[0] if masks else mask, args.tokens)
    new = result[:, ids.shape[1] :].tolist()
    if args.json:
        print_json({"kind": "generation", "ids": result.tolist(), "new": new})
    else:
        print_blocks(",".join(map(str, row)) for row in new)
    return 0


def _read_numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",") if text]
    except ValueError:
        raise UsageError(f"'{text}': expected integers, such as 1,2,3") from None
