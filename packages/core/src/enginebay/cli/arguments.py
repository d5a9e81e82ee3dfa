"""Flags that several commands share, and lookups in a command line before it is parsed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from enginebay.artifact import Artifact
    from enginebay.data import DataSet

MODEL_HELP = (
    "file.py:attr, package.module:attr, or a .onnx, .pt (TorchScript) or .pt2 file; attr is an "
    "nn.Module, a callable that returns one, or a function of tensors, optionally with its example "
    "inputs and its task"
)


def add_model_name(parser: ArgumentParser) -> None:
    """Add ``MODEL``, ``--pretrained`` and ``--weights``."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--pretrained",
        action="store_true",
        help="take the weights that the model source publishes; it may download them",
    )
    group.add_argument(
        "--weights",
        metavar="FILE",
        default="",
        help="load these weights into the model: a state_dict by torch.save, or .safetensors",
    )


def read_model(args: Namespace) -> str:
    """Return the model that a command line names, with its weights."""
    from enginebay.models import name_weights

    return name_weights(args.model, pretrained=args.pretrained, file=args.weights)


def add_inputs(parser: ArgumentParser, default: str) -> None:
    """Add ``--input``, repeatable."""
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


def add_dynamic(parser: ArgumentParser) -> None:
    """Add ``--dynamic``, repeatable."""
    parser.add_argument(
        "--dynamic",
        action="append",
        metavar="DIM",
        help="leave a dimension open: batch is the first of all inputs, x:0 any axis of an input, "
        "x:2=32:512 between two sizes, x:0=batch:1:8 under a name that inputs share (repeatable; "
        "by default all sizes are fixed)",
    )


def add_data(parser: ArgumentParser, purpose: str) -> None:
    """Add ``--data``, ``--take`` and ``--seed``."""
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="a data set: an .npz file whose arrays count the items along their first axis, a "
        "folder of .npz files or of files that the model's task reads, file.py:attr or module:attr "
        f"with an iterable, or SCHEME:NAME of a plugin; {purpose}",
    )
    parser.add_argument(
        "--take", type=int, metavar="N", help="use N items of the data, drawn at random"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another seed, other items (default: 0)"
    )


def add_int8_keep(parser: ArgumentParser) -> None:
    """Add ``--int8-keep``, repeatable."""
    parser.add_argument(
        "--int8-keep",
        action="append",
        default=[],
        metavar="NAME",
        help="keep this node in floating point, or all nodes of this operator, or those whose "
        "names begin with NAME/, where the precision is int8 or fp8 (repeatable)",
    )


def data_set(args: Namespace) -> DataSet | None:
    """Open the data set that ``--data`` names.

    Raises:
        UsageError: It cannot be used, or there are flags of a data set without one.
    """
    from enginebay.data import DataSet
    from enginebay.errors import UsageError

    if args.data is not None:
        return DataSet(args.data, args.take, args.seed)
    if args.take is not None:
        raise UsageError("--take has no data to take from", hint="add --data FILE.npz")
    return None


def add_work_dir(parser: ArgumentParser) -> None:
    """Add ``--work-dir`` and ``--overwrite``."""
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


def add_allow_env(parser: ArgumentParser) -> None:
    """Add ``--allow-env``."""
    parser.add_argument(
        "--allow-env",
        action="store_true",
        help="let the config read environment variables, with {{$NAME:default}}",
    )


def add_artifact(parser: ArgumentParser) -> None:
    """Add ``ARTIFACT`` and the flags for running it."""
    parser.add_argument("artifact", metavar="ARTIFACT", type=Path)
    add_inputs(parser, "the first that the artifact was verified with, else made up")
    add_run_flags(parser)


def artifact_inputs(artifact: Artifact, texts: list[str]) -> Any:
    """The inputs by name; the file of a data set, whose arrays hold several of each; or None."""
    from enginebay.tensors import inputs_for, parse_inputs

    if not texts:
        return None
    given = parse_inputs(texts)
    if len(texts) == 1 and texts[0].endswith(".npz") and _are_stacked(artifact, given):
        return texts[0]
    return inputs_for(artifact.inputs, given)


def _are_stacked(artifact: Artifact, arrays: dict[str, Any]) -> bool:
    """True if each input's array has one axis more than the input: it counts the items."""
    ranks = {spec.name: len(spec.dims) for spec in artifact.inputs if spec.dims is not None}
    return bool(ranks) and all(
        name in arrays and arrays[name].ndim == rank + 1 for name, rank in ranks.items()
    )


def add_run_flags(parser: ArgumentParser) -> None:
    """Add ``--device`` and ``--strict``."""
    parser.add_argument("--device", help="run elsewhere than where the artifact was made for")
    parser.add_argument(
        "--strict", action="store_true", help="refuse what the engine falls back on"
    )


def environment(allowed: bool) -> Mapping[str, str] | None:
    """Return the environment variables that a config may read; None for none."""
    import os

    return os.environ if allowed else None


def flag_values(flag: str, argv: Sequence[str]) -> list[str]:
    """Return a flag's values, in order, from a command line that is not parsed yet.

    Example:
        >>> flag_values("--backend", ["m.onnx", "--backend=ncnn", "--backend", "openvino"])
        ['ncnn', 'openvino']
    """
    values = []
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        if word == flag:
            values.append(following)
        elif word.startswith(f"{flag}="):
            values.append(word.partition("=")[2])
    return values


def add_backend_flags(parser: ArgumentParser, name: str, argv: Sequence[str]) -> None:
    """Add the flags that the backend's parameters declare, under a heading of their own.

    Raises:
        BackendUnavailableError: The backend cannot be used, and ``argv`` requests more than help.
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


def repeatable_command(argv: Sequence[str], *more: str) -> str:
    """Return a command line that works from any folder: it enters the current one first.

    Args:
        argv: The arguments as they were typed; paths among them may be relative.
        more: Flags for defaults that may differ another time.
    """
    here = shlex.join(["cd", str(Path.cwd())])
    text = f"{here} && {shlex.join(['enginebay', *argv, *more])}"
    # A manifest is UTF-8, and a file's name may have any bytes: these are shown escaped.
    return text.encode(errors="backslashreplace").decode()
