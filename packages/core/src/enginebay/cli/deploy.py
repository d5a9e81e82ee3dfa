"""``enginebay deploy``: a model becomes a verified artifact."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import (
    MODEL_HELP,
    add_allow_env,
    add_backend_flags,
    add_inputs,
    add_tolerance,
    add_work_dir,
    environment,
    typed_again,
    value_of,
)
from enginebay.cli.output import (
    print_fields,
    print_json,
    print_next,
    print_table,
    short_path,
    size_text,
    talk_on_stderr,
)
from enginebay.cli.verdict import headline, print_outputs

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence

    from enginebay.inference import Receipt
    from enginebay.operations import Deployment

_SHOWN = 6  # names of rewriters in a line; --json has them all


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    from enginebay.backend import DEFAULT_BACKEND, default_backend

    parser.usage = (
        "enginebay deploy MODEL [--backend NAME] [--config FILE] [--input NAME=SPEC] [flags]"
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help=f"the engine (default: the config's, the only one installed, or {DEFAULT_BACKEND})",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a deploy config (.py, .toml, .json, .yaml); flags win over what it says",
    )
    add_allow_env(parser)
    add_inputs(parser, "the model's own, or made up at --input-shapes")
    add_work_dir(parser)
    parser.add_argument(
        "--ir",
        choices=("onnx", "torchscript", "exported_program"),
        help="use this IR (default: the backend's preferred ones, until one works)",
    )
    parser.add_argument(
        "--exporter",
        choices=("dynamo", "torchscript"),
        help="the ONNX exporter (default: dynamo, and where that fails torchscript)",
    )
    parser.add_argument(
        "--cut",
        action="append",
        default=[],
        metavar="NAME",
        help="cut the model at the tensors marked as NAME, into engines that run one after the "
        "other (repeatable, in the order of the model)",
    )
    parser.add_argument("--keep-ir", action="store_true", help="keep the IR in the artifact")
    add_tolerance(parser)
    parser.add_argument(
        "--allow-mismatch",
        action="store_true",
        help="publish although the numbers differ or the engine crashed",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse what the engine falls back on"
    )
    add_backend_flags(parser, _backend(argv) or default_backend(), argv)


def _backend(argv: Sequence[str]) -> str | None:
    """The backend that a command line names itself, or by its config."""
    named, file = value_of("--backend", argv), value_of("--config", argv)
    if named or not file:
        return named
    from enginebay.config import read

    section = read(file, environment=environment("--allow-env" in argv)).get("backend_config", {})
    return section.get("type") if isinstance(section, dict) else None


def run(args: Namespace) -> int:
    """Deploy, and print what came out of it."""
    from enginebay.backend import default_backend, get_backend
    from enginebay.cli.progress import progress
    from enginebay.config import read
    from enginebay.operations import deploy
    from enginebay.tensors import parse_inputs

    config = read(args.config, environment=environment(args.allow_env)) if args.config else None
    backend = get_backend(_backend(args.argv) or default_backend())
    with progress() as watch, talk_on_stderr():
        deployment = deploy(
            args.model,
            parse_inputs(args.inputs) if args.inputs else None,
            backend=backend.name,
            work_dir=args.work_dir or _default_work_dir(args.model, backend.name),
            params=backend.Params.given_arguments(args),
            config=config,
            ir=args.ir,
            exporter=args.exporter,
            partition=args.cut,
            keep_ir=args.keep_ir,
            rtol=args.rtol,
            atol=args.atol,
            timeout=args.timeout,
            allow_mismatch=args.allow_mismatch,
            overwrite=args.overwrite,
            strict=args.strict,
            watch=watch,
            command=typed_again(args.argv, *([] if args.backend else ["--backend", backend.name])),
        )
    if args.json:
        print_json(_document(deployment))
    else:
        _print(deployment)
    return 0


def _default_work_dir(model: str, backend: str) -> Path:
    """``folder/net.py:build`` on ncnn becomes ``build-ncnn`` in the current folder."""
    name = model.rpartition(":")[2].removesuffix(".py") if ":" in model else Path(model).stem
    return Path(f"{Path(name).name}-{backend}")


def _document(deployment: Deployment) -> dict[str, Any]:
    import msgspec

    rewriting = deployment.rewriting
    return {
        "verdict": deployment.verdict,
        "artifact": str(deployment.artifact.path),
        "notes": list(deployment.notes),
        "steps": msgspec.to_builtins(deployment.steps),
        "rewriting": rewriting
        and {
            "fired": rewriting.fired,
            "never_fired": list(rewriting.never_fired),
            "not_found": list(rewriting.not_found),
            "not_served": list(rewriting.not_served),
        },
        "manifest": msgspec.to_builtins(deployment.artifact.manifest),
    }


def _print(deployment: Deployment) -> None:
    artifact = deployment.artifact
    total = sum(step.seconds or 0.0 for step in deployment.steps)
    print_table(
        ("STEP", "SECONDS", ""),
        [
            *(
                (s.name, f"{s.seconds or 0.0:.2f}", "failed" if s.failed else s.detail)
                for s in deployment.steps
            ),
            ("total", f"{total:.2f}", ""),
        ],
        right=("SECONDS",),
    )
    sys.stdout.write("\n")
    print_fields(
        (
            ("verdict", headline(deployment.verification)),
            ("engine", engine_text(deployment.receipt)),
            *(("note", note) for note in deployment.notes),
            *(("rewriters", line) for line in _rewriter_lines(deployment)),
            ("artifact", f"{short_path(artifact.path)} ({size_text(artifact.manifest.files)})"),
        )
    )
    if deployment.verification.outputs:
        sys.stdout.write("\n")
        print_outputs(deployment.verification)
    print_next(_next(deployment))


def engine_text(receipt: Receipt | None) -> str:
    """What ran, where and in which precision; empty where nothing ran."""
    if receipt is None:
        return ""
    return f"{receipt.engine} on {receipt.provider or receipt.device}, {receipt.precision}"


def _rewriter_lines(deployment: Deployment) -> Iterator[str]:
    report = deployment.rewriting
    if report is None:
        return
    fired = [f"{name} ({count})" for name, count in report.fired.items()]
    if fired:
        yield f"fired: {_listed(fired)}"
    # Core's and the backend's own rarely fire: most models need few of them. --json has them all.
    own = ("enginebay", deployment.artifact.manifest.plugin.distribution)
    idle = [r.name for r in report.applied if not r.count and r.distribution not in own]
    if idle:
        yield f"never fired: {_listed(idle)}"
    yield from report.not_found
    yield from report.not_served


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _next(deployment: Deployment) -> Iterator[str]:
    folder = shlex.quote(short_path(deployment.artifact.path))
    commands = {"crashed": ("inspect",), "unverified": ("run", "inspect")}
    for command in commands.get(deployment.verdict, ("run", "verify", "inspect")):
        yield f"enginebay {command} {folder}"
