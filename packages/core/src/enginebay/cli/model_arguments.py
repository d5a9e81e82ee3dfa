"""The flags of commands that build engines from a model, such as ``deploy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import (
    add_allow_env,
    add_backend_flags,
    add_data,
    add_int8_keep,
    add_model_name,
    add_sizes,
    data_set,
    environment,
    flag_values,
)
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence


def add_model(parser: ArgumentParser) -> None:
    """Add the flags for the model, the weights, the inputs and the data set."""
    from enginebay.plugins import preferred_backend

    add_model_name(parser)
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME",
        help=f"the backend (default: the backend in the config, else the only installed "
        f"backend, else {preferred_backend()})",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a deploy config (.py, .toml, .json, .yaml); flags override its values",
    )
    add_allow_env(parser)
    add_sizes(parser, "the model's example inputs, or values generated for --input-shapes")
    add_data(parser, "the data calibrates an int8 engine, and any artifact is also verified on it")
    add_int8_keep(parser)


def add_options(parser: ArgumentParser) -> None:
    """Add the flags of export and verification, under two headings."""
    from enginebay.config import ExportOptions, VerifyOptions

    ExportOptions.add_arguments(parser.add_argument_group("export options"))
    VerifyOptions.add_arguments(parser.add_argument_group("verification options"))


def add_backend_parameters(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add the flags of the backend that the command line or the config file names."""
    add_backend_flags(parser, chosen_backend(argv), argv)


def named_backends(argv: Sequence[str]) -> list[str]:
    """Return the backends in all ``--backend`` flags; a flag may name several: ``A,B``."""
    return [name for value in flag_values("--backend", argv) for name in value.split(",") if name]


def chosen_backend(argv: Sequence[str]) -> str:
    """Return the backend that the command line or the config file names, or the default.

    Raises:
        UsageError: The command line names several backends.
    """
    from enginebay.backend import default_backend

    named, files = named_backends(argv), flag_values("--config", argv)
    if len(named) > 1:
        raise UsageError(
            f"expected one backend, found --backend {','.join(named)}",
            hint=f"--backend {named[0]}, or enginebay compare MODEL",
        )
    if named:
        return named[0]
    section: Any = {}
    if files:
        from enginebay.config import read_table

        # argparse also uses the last value of a repeated flag.
        table = read_table(files[-1], environment=environment("--allow-env" in argv))
        section = table.get("backend_config", {})
    # A wrong section is reported when the config is read completely.
    name = section.get("type") if isinstance(section, dict) else None
    return name or default_backend()


def model_options(args: Namespace) -> dict[str, Any]:
    """Convert the flags of this module to keyword arguments of :func:`enginebay.deploy`."""
    from enginebay.operations import get_backend

    backend = get_backend(chosen_backend(args.argv))
    return {
        "backend": backend.name,
        "params": backend.Params.given_arguments(args),
        **shared_options(args),
    }


def shared_options(args: Namespace) -> dict[str, Any]:
    """Return the result of :func:`model_options` without ``backend`` and ``params``."""
    from enginebay.config import ExportOptions, read_table
    from enginebay.tensors import parse_inputs

    config = (
        read_table(args.config, environment=environment(args.allow_env)) if args.config else None
    )
    return {
        "args": parse_inputs(args.inputs) if args.inputs else None,
        "config": config,
        "dynamic": args.dynamic,
        "data": data_set(args),
        "int8_keep": args.int8_keep,
        "export": ExportOptions.from_args(args),
    }
