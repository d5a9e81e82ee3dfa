"""``enginebay deploy``: turn a model into a verified artifact."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import (
    EXPORTERS,
    IRS,
    MODEL_HELP,
    add_allow_env,
    add_backend_flags,
    add_data,
    add_inputs,
    add_probes,
    add_strict,
    add_tolerance,
    add_work_dir,
    data_set,
    environment,
    flag_value,
    parse_domain,
    repeatable_command,
)
from enginebay.cli.output import (
    print_fields,
    print_json,
    print_next,
    print_table,
    short_path,
    stdout_on_stderr,
)
from enginebay.cli.summaries import (
    artifact_text,
    basis_fields,
    engine_text,
    print_outputs,
    quiet_verdict,
    verdict_text,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence

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
        choices=IRS,
        help="use this IR (default: the backend's preferred ones, until one works)",
    )
    parser.add_argument(
        "--exporter",
        choices=EXPORTERS,
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
    add_data(parser, "int8 is calibrated with it, and every artifact is verified on it too")
    add_probes(parser)
    add_tolerance(parser)
    parser.add_argument(
        "--allow-mismatch",
        action="store_true",
        help="publish although the numbers differ or the engine crashed",
    )
    add_strict(parser)
    add_backend_flags(parser, _backend(argv) or default_backend(), argv)


def _backend(argv: Sequence[str]) -> str | None:
    """Return the backend that a command line names, itself or by its config."""
    named, file = flag_value("--backend", argv), flag_value("--config", argv)
    if named or not file:
        return named
    from enginebay.config import read

    section = read(file, environment=environment("--allow-env" in argv)).get("backend_config", {})
    return section.get("type") if isinstance(section, dict) else None


def run(args: Namespace) -> int:
    """Deploy, and describe the artifact."""
    from enginebay.backend import default_backend, get_backend
    from enginebay.cli.progress import progress
    from enginebay.config import read
    from enginebay.operations import deploy
    from enginebay.tensors import parse_inputs

    config = read(args.config, environment=environment(args.allow_env)) if args.config else None
    backend = get_backend(_backend(args.argv) or default_backend())
    flags = [] if args.backend else ["--backend", backend.name]
    with progress() as watch, stdout_on_stderr(), quiet_verdict():
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
            data=data_set(args),
            probes=args.probes,
            probes_extreme=args.probes_extreme,
            domain=parse_domain(args.domain),
            rtol=args.rtol,
            atol=args.atol,
            timeout=args.timeout,
            allow_mismatch=args.allow_mismatch,
            overwrite=args.overwrite,
            strict=args.strict,
            watch=watch,
            command=repeatable_command(args.argv, *flags),
        )
    if args.json:
        print_json(_document(deployment))
    else:
        _print(deployment)
    return 0


def _default_work_dir(model: str, backend: str) -> Path:
    """Return ``build-ncnn`` for ``folder/net.py:build`` on ncnn: a folder in the current one."""
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
            ("verdict", verdict_text(deployment.verification)),
            *basis_fields(deployment.verification),
            ("engine", engine_text(deployment.receipt)),
            *(("note", note) for note in deployment.notes),
            *(("rewriters", line) for line in _rewriter_lines(deployment)),
            ("artifact", artifact_text(deployment.artifact)),
        )
    )
    if deployment.verification.outputs:
        sys.stdout.write("\n")
        print_outputs(deployment.verification)
    print_next(_next(deployment))


def _rewriter_lines(deployment: Deployment) -> Iterator[str]:
    report = deployment.rewriting
    if report is None:
        return
    fired = [f"{name} ({count})" for name, count in report.fired.items()]
    if fired:
        yield f"fired: {_join_names(fired)}"
    # Core's and the backend's own rarely fire: most models need few of them. --json has them all.
    own = ("enginebay", deployment.artifact.manifest.plugin.distribution)
    idle = [r.name for r in report.applied if not r.count and r.distribution not in own]
    if idle:
        yield f"never fired: {_join_names(idle)}"
    yield from report.not_found
    yield from report.not_served


def _join_names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _next(deployment: Deployment) -> Iterator[str]:
    folder = shlex.quote(short_path(deployment.artifact.path))
    commands = {"crashed": ("inspect",), "unverified": ("run", "inspect")}
    for command in commands.get(deployment.verdict, ("run", "verify", "inspect")):
        yield f"enginebay {command} {folder}"
