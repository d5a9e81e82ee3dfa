"""Flags that several commands share, and functions that search an unparsed command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _ActionsContainer
    from collections.abc import Mapping, Sequence

    from enginebay.artifact import Artifact
    from enginebay.data import DataSet
    from enginebay.tensors import Array

MODEL_HELP = (
    "file.py:attr, package.module:attr, or a .onnx, .pt (TorchScript) or .pt2 file; attr is an "
    "nn.Module, a callable that returns one, or a function of tensors; or a tuple of one of these, "
    "example inputs and a task"
)


def add_model_name(parser: ArgumentParser) -> None:
    """Add ``MODEL``, ``--pretrained`` and ``--weights``."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--pretrained",
        action="store_true",
        help="use the pretrained weights of the model source, and download them if necessary",
    )
    group.add_argument(
        "--weights",
        metavar="FILE",
        default="",
        help="load these weights into the model: a state_dict from torch.save, or .safetensors",
    )


def read_model(args: Namespace) -> str:
    """Return the name MODEL; ``--pretrained`` or ``--weights`` appends a suffix to it.

    Raises:
        ModelSourceError: The name is wrong, as far as that is visible without importing torch.
        InputError: The name is that of a module's class, and there is no flag with its inputs.
    """
    from enginebay.sources import check_source, name_weights

    model = name_weights(args.model, pretrained=args.pretrained, file=args.weights)
    # With a config, the name may be a codebase's; find_model knows more about other names.
    if not getattr(args, "config", None) and model.partition(":")[0].endswith(".py"):
        given = ("inputs", "data", "input_shapes", "min_shapes", "max_shapes")
        check_source(model, Path(), has_inputs=any(getattr(args, name, None) for name in given))
    return model


def add_sizes(parser: ArgumentParser, default: str) -> None:
    """Add ``--input`` and ``--dynamic``, and explain them and their aliases."""
    group = parser.add_argument_group(
        "inputs and sizes",
        "--input is the example, and --dynamic says which of its sizes may change. deploy and "
        "configs have aliases with whole shapes: --input-shapes x:1x3x64x64 is --input "
        "x=1x3x64x64, and a ? is --dynamic; --min-shapes x:1x3x64x64 --max-shapes x:8x3x64x64 is "
        "--dynamic x:0=1:8.",
    )
    add_inputs(group, default)
    group.add_argument(
        "--dynamic",
        action="append",
        metavar="DIM",
        help="a dynamic dimension: batch is the first axis of all inputs, x:0 is an axis of input "
        "x, x:2=32:512 limits the size to 32–512, x:0=batch:1:8 also names the dimension; "
        "dimensions of the same name have the same size, and mask:1=past+tokens is a sum of others "
        "(repeatable; by default all sizes are fixed)",
    )


def add_inputs(parser: _ActionsContainer, default: str) -> None:
    """Add the repeatable flag ``--input``; ``default`` describes the default inputs in its help."""
    parser.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=SPEC",
        help="a shape for generated values (x=1x3x224x224), a shape and a dtype (ids=1x16:int64), "
        "an array (x=image.npy), or a .npz file with all inputs; repeat for several inputs. "
        f"By default {default}",
    )


def add_data(parser: ArgumentParser, purpose: str) -> None:
    """Add ``--data``, ``--take`` and ``--seed``; ``purpose`` describes how the data is used."""
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="a data set: an .npz file with the items along the first axis of its arrays, a folder "
        "of .npz files or of files that the model's task reads, an iterable file.py:attr or "
        f"module:attr, or SCHEME:NAME of a plugin; {purpose}",
    )
    parser.add_argument("--take", type=int, metavar="N", help="use N random items of the data")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="random seed for --take (default: 0)"
    )


def add_int8_keep(parser: ArgumentParser) -> None:
    """Add the repeatable flag ``--int8-keep``."""
    parser.add_argument(
        "--int8-keep",
        action="append",
        default=[],
        metavar="NAME",
        help="with precision int8 or fp8, do not quantise the node NAME, the nodes of the operator "
        "NAME, or the nodes whose names begin with NAME/ (repeatable)",
    )


def data_set(args: Namespace) -> DataSet | None:
    """Open the data set that ``--data`` specifies; return None without ``--data``.

    Raises:
        UsageError: The data set cannot be used, or --take is used without --data.
    """
    from enginebay.data import DataSet
    from enginebay.errors import UsageError

    if args.data is not None:
        return DataSet(args.data, args.take, args.seed)
    if args.take is not None:
        raise UsageError("--take requires --data", hint="add --data FILE.npz")
    return None


def add_work_dir(parser: ArgumentParser, default: str = "MODEL-BACKEND") -> None:
    """Add ``--work-dir`` and ``--overwrite``."""
    parser.add_argument(
        "--work-dir",
        type=Path,
        metavar="FOLDER",
        help=f"the folder of the artifact (default: {default})",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an existing artifact when the new one is complete",
    )


def add_allow_env(parser: ArgumentParser) -> None:
    """Add ``--allow-env``."""
    parser.add_argument(
        "--allow-env",
        action="store_true",
        help="allow the config to read environment variables by {{$NAME:default}}",
    )


def add_artifact(parser: ArgumentParser) -> None:
    """Add ``ARTIFACT``, and the flags for running an artifact."""
    parser.add_argument("artifact", metavar="ARTIFACT", type=Path)
    add_inputs(parser, "the artifact's first recorded inputs, or generated values")
    add_run_flags(parser)


def artifact_inputs(artifact: Artifact, texts: list[str]) -> Mapping[str, Array] | str | None:
    """Convert the values of ``--input`` to the artifact's inputs.

    Returns:
        The arrays by input name; for a .npz file with several samples, the path of this file; or
        None if ``texts`` is empty.
    """
    from enginebay.tensors import inputs_for, parse_inputs

    if not texts:
        return None
    arrays = parse_inputs(texts)
    if len(texts) == 1 and texts[0].endswith(".npz") and _are_stacked(artifact, arrays):
        return texts[0]
    return inputs_for(artifact.inputs, arrays)


def _are_stacked(artifact: Artifact, arrays: Mapping[str, Any]) -> bool:
    """Return True if each input's array has an additional first axis, for several samples."""
    ranks = {spec.name: len(spec.dims) for spec in artifact.inputs if spec.dims is not None}
    return bool(ranks) and all(
        name in arrays and arrays[name].ndim == rank + 1 for name, rank in ranks.items()
    )


def add_run_flags(parser: ArgumentParser) -> None:
    """Add ``--device``, ``--param`` and ``--strict``."""
    parser.add_argument("--device", help="the device to run on, instead of the artifact's device")
    parser.add_argument(
        "--param",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of a run-time parameter, written like its flag of 'enginebay deploy', "
        "without dashes: threads=2 (repeatable)",
    )
    parser.add_argument("--strict", action="store_true", help="fail if the engine uses a fallback")


def run_params(args: Namespace, *backends: str) -> dict[str, Any]:
    """Return the values of ``--param``, read as by the flags of these backends.

    Raises:
        UsageError: No backend has the parameter, or its value is invalid.
    """
    from enginebay.cli.parser import Parser
    from enginebay.operations import get_backend

    if not args.params:  # the backends may not be installed
        return {}
    prog = f"enginebay convert {backends[0]}"  # whose help lists the parameters
    parser = Parser(prog=prog, add_help=False, allow_abbrev=False)
    kinds = [get_backend(name).Params for name in dict.fromkeys(backends)]
    added: set[str] = set()
    for kind in kinds:  # a parameter of several backends is a single one
        kind.add_arguments(parser, skip=added)
        added |= {*kind.__struct_fields__}
    words = [word.partition("=") for word in args.params]
    given = parser.parse_args([f"--{n.replace('_', '-')}{sign}{value}" for n, sign, value in words])
    return {name: value for kind in kinds for name, value in kind.given_arguments(given).items()}


def environment(allowed: bool) -> Mapping[str, str] | None:
    """Return the environment variables that a config may read; None if ``allowed`` is False."""
    import os

    return os.environ if allowed else None


def flag_values(flag: str, argv: Sequence[str]) -> list[str]:
    """Return a flag's values, in order, from an unparsed command line.

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
    """Add the flags of the backend's parameters, under a separate heading.

    Raises:
        BackendUnavailableError: The backend cannot be used, and ``argv`` does not request help.
    """
    from enginebay.errors import BackendUnavailableError
    from enginebay.operations import get_backend

    try:
        backend = get_backend(name)
    except BackendUnavailableError as err:
        # The help can still list all other flags.
        if not {"-h", "--help", "--help-all"} & set(argv):
            raise
        parser.epilog = f"The parameters of '{name}' are not shown: {err}. Hint: {err.hint}"
    else:
        group = parser.add_argument_group(f"parameters of {backend.name}")
        backend.Params.add_arguments(group, skip=("work_dir",))
