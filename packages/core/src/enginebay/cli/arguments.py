"""Flags that several commands share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Mapping, Sequence

MODEL_HELP = (
    "file.py:attr, package.module:attr, or a .onnx, .pt (TorchScript) or .pt2 file; attr is an "
    "nn.Module or a callable that returns one, optionally with its example inputs"
)


def add_inputs(parser: ArgumentParser, default: str) -> None:
    """``--input``, repeatable."""
    parser.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=SPEC",
        help="a shape to make values up for (x=1x3x224x224), a shape and a dtype "
        "(ids=1x16:int64), an array (x=image.npy), or a .npz file with all of them; repeat for "
        f"several inputs. By default {default}",
    )


def add_work_dir(parser: ArgumentParser) -> None:
    """``--work-dir`` and ``--overwrite``."""
    parser.add_argument(
        "--work-dir",
        type=Path,
        metavar="FOLDER",
        help="the folder that the artifact becomes (default: MODEL-BACKEND)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the artifact that is there already, once the new one is complete",
    )


def add_tolerance(parser: ArgumentParser) -> None:
    """``--rtol``, ``--atol``, ``--timeout``."""
    parser.add_argument("--rtol", type=float, help="relative tolerance instead of the dtype's own")
    parser.add_argument("--atol", type=float, help="absolute tolerance instead of the dtype's own")
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="limit for loading and running the engine (default: 1800)",
    )


def add_allow_env(parser: ArgumentParser) -> None:
    """``--allow-env``."""
    parser.add_argument(
        "--allow-env",
        action="store_true",
        help="let the config read environment variables, with {{$NAME:default}}",
    )


def environment(allowed: bool) -> Mapping[str, str] | None:
    """What a config may see of the environment."""
    import os

    return os.environ if allowed else None


def value_of(flag: str, argv: Sequence[str]) -> str | None:
    """The value of a flag on a command line that is not parsed yet; the last one counts.

    Example:
        >>> value_of("--backend", ["m.onnx", "--backend=ncnn"])
        'ncnn'
    """
    value: str | None = None
    for word, following in zip(argv, [*argv[1:], None], strict=False):
        if word == flag:
            value = following
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def add_backend_flags(parser: ArgumentParser, name: str, argv: Sequence[str]) -> None:
    """The flags that the backend's parameters declare, under a heading of their own.

    Raises:
        BackendUnavailableError: The backend cannot be used, and more than help is wanted.
    """
    from enginebay.backend import get_backend
    from enginebay.errors import BackendUnavailableError

    try:
        backend = get_backend(name)
    except BackendUnavailableError as err:
        if not {"-h", "--help"} & set(argv):
            raise
        parser.epilog = f"The parameters of '{name}' are not shown: {err}. Hint: {err.hint}"
    else:
        group = parser.add_argument_group(f"parameters of {backend.name}")
        backend.Params.add_arguments(group, skip=("work_dir",))


def typed_again(argv: Sequence[str], *more: str) -> str:
    """The command line to repeat from any folder: paths in it are relative to the current one.

    Args:
        argv: The arguments as they were typed.
        more: What was left to a default that may differ another time.
    """
    here = shlex.join(["cd", str(Path.cwd())])
    return f"{here} && {shlex.join(['enginebay', *argv, *more])}"
