"""``enginebay compare``: deploy a model on several backends and compare the artifacts."""

from __future__ import annotations

import shlex
from argparse import ArgumentError, ArgumentParser
from typing import TYPE_CHECKING, Any

from enginebay.authors import declared_fields
from enginebay.commands import (
    add_model,
    add_options,
    add_work_dir,
    default_work_dir,
    named_backends,
    quiet_verdict,
    read_model,
    repeatable_command,
    shared_options,
    stdout_on_stderr,
    typed,
)
from enginebay.errors import BackendUnavailableError, UsageError
from enginebay_lab.commands.result_output import add_report_flag, check_report_flag, print_result

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Iterator, Sequence

    from enginebay import BackendParams


EXAMPLES = (
    "enginebay compare net.py:build --all",
    "enginebay compare model.onnx --backend onnxruntime,openvino --precision fp32,fp16",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the backends to compare."""
    parser.usage = (
        "enginebay compare MODEL [--backend NAME,NAME … | --all] [--precision NAME,NAME …] [flags]"
    )
    add_model(parser)
    parser.add_argument("--all", action="store_true", help="compare all installed backends")
    add_work_dir(parser)
    add_options(parser)
    parser.add_argument(
        "--duration",
        type=float,
        default=3.0,
        metavar="SECONDS",
        help="longest time of the benchmark of each artifact; 0 skips the benchmark (default: 3)",
    )
    parser.add_argument(
        "--precision",
        action="append",
        default=[],
        metavar="NAME[,NAME …]",
        help="the precisions to compare (default: each backend's default)",
    )
    parser.add_argument(
        "--axis",
        action="append",
        default=[],
        metavar="PARAMETER='VALUE VALUE …'",
        help="values of a parameter to compare, each as for the parameter's flag; all combinations "
        "of several parameters",
    )
    add_report_flag(parser)
    if {"-h", "--help", "--help-all"} & set(argv) and not ("--all" in argv or named_backends(argv)):
        return  # without a backend the help would list the parameters of all of them
    names = _compared_backends(argv)
    group = parser.add_argument_group(
        f"parameters of {', '.join(names)}, each for backends that declare it"
    )
    # add_work_dir() and --precision have added these flags already.
    added = {"work_dir", "precision"}
    for params in _params_classes(names):
        params.add_arguments(group, skip=added)  # a parameter of several backends is a single flag
        added |= set(params.__struct_fields__)


def _compared_backends(argv: Sequence[str]) -> list[str]:
    """Return the backends to compare: those of ``--backend``, or all that are installed.

    Raises:
        UsageError: ``--backend`` is combined with ``--all``, or no backend is installed.
    """
    from enginebay.authors import installed_backends

    named = named_backends(argv)
    if "--all" not in argv and named:
        return named
    if named:
        raise UsageError("--all and --backend cannot be combined", hint="remove one of them")
    installed = installed_backends()
    if not installed:
        raise UsageError("no backend is installed", hint="enginebay backends")
    return installed


def _params_classes(names: Sequence[str]) -> Iterator[type[BackendParams]]:
    """Yield the parameter class of each backend that can be used here."""
    from enginebay import get_backend
    from enginebay.errors import BackendNotFoundError

    for name in names:
        try:
            yield get_backend(name).Params
        except BackendNotFoundError:
            raise
        except BackendUnavailableError:  # its row contains the reason
            continue


def read_axes(
    texts: Sequence[str], kinds: Sequence[type[BackendParams]], given: Collection[str] = ()
) -> dict[str, list[object]]:
    """Return the values of parameters by their names, from texts such as ``threads=1 2``.

    Args:
        texts: The arguments of ``--axis``.
        kinds: The classes of the backends' parameters.
        given: Names of parameters that have their own flags in the command.

    Raises:
        UsageError: A text has another form, a value does not fit, or a name is there twice.
    """
    axes: dict[str, list[object]] = {}
    for text in texts:
        name, values = _read_axis(text, kinds)
        if name in axes or name in given:
            raise UsageError(f"parameter '{name}' is specified twice", hint="remove one of them")
        axes[name] = values
    return axes


def _read_axis(text: str, kinds: Sequence[type[BackendParams]]) -> tuple[str, list[object]]:
    field, _, values = text.partition("=")
    name, flag = field.replace("-", "_"), field.replace("_", "-")
    # Another parser, which reads one value as the parameter's flag does.
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    switches: dict[str, str] = {}
    hint = f"--axis '{field or 'NAME'}=VALUE VALUE'"
    for kind in [kind for kind in kinds if name in kind.__struct_fields__][:1]:
        kind.add_arguments(parser, only=[name])
        if declared_fields(kind)[name].type is bool:
            switches = dict.fromkeys(("yes", "true", "1"), f"--{flag}")
            switches |= dict.fromkeys(("no", "false", "0"), f"--no-{flag}")
            hint = f"--axis '{field}=yes no'"
    try:
        words = shlex.split(values)
        flags = [switches.get(word.lower(), f"--{flag}={word}") for word in words]
        found = [parser.parse_known_args([each])[0] for each in flags]
    except (ArgumentError, ValueError) as err:
        raise UsageError(f"--axis {text}: {err}", hint=hint) from err
    if not words:
        raise UsageError(f"--axis {text} has no values", hint=hint)
    # Of a parameter that no backend has, compare() tells.
    return name, [getattr(each, name, word) for each, word in zip(found, words, strict=True)]


def run(args: Namespace) -> int:
    """Compare, and print a row for each backend and precision.

    Returns:
        1 if a combination of backend and precision has no artifact, because the deployment
        failed or the mismatch is not allowed; else 0.
    """
    from enginebay import VerifyOptions
    from enginebay.commands import progress
    from enginebay_lab.comparison.compare_backends import compare

    check_report_flag(args)
    work_dir = args.work_dir or default_work_dir(args.model, "comparison")
    names = _compared_backends(args.argv)
    params: dict[str, Any] = {}
    for kind in _params_classes(names):
        # A list is one value here, and several for compare().
        params |= {name: [value] for name, value in kind.given_arguments(args).items()}
    params.pop("precision", None)  # compare() takes a list of precisions instead
    axes = read_axes(args.axis, list(_params_classes(names)), params)
    for name in {"precision", "work_dir"}.intersection(axes):
        raise UsageError(f"--axis cannot set '{name}'", hint="--precision fp32,fp16")
    params |= axes
    precisions = [name for value in args.precision for name in value.split(",") if name]
    # Without the flag, the command would find the artifacts that it made.
    command = repeatable_command(args.argv, *(() if args.overwrite else ("--overwrite",)))
    with progress() as watch, stdout_on_stderr(), quiet_verdict(), typed(command):
        comparison = compare(
            read_model(args),
            **shared_options(args),
            verify=VerifyOptions.from_args(args),
            work_dir=work_dir,
            backends=names,
            precisions=precisions,
            params=params,
            duration=args.duration,
            overwrite=args.overwrite,
            watch=watch,
        )
    print_result(args, comparison, work_dir=str(work_dir.resolve()))
    return 1 if any(row.artifact is None for row in comparison.rows) else 0
