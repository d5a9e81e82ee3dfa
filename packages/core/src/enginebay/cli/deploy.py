"""``enginebay deploy``: turn a model into a verified artifact."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import add_work_dir, read_model, repeatable_command
from enginebay.cli.model_arguments import (
    add_backend_parameters,
    add_model,
    add_options,
    model_options,
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
    join_names,
    print_outputs,
    quiet_verdict,
    sizes_text,
    verdict_text,
    weights_text,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from enginebay.operations import Deployment

EXAMPLES = (
    "enginebay deploy net.py:build --backend {backend} --work-dir artifact",
    "enginebay deploy model.onnx --input x=1x3x224x224 --overwrite",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    parser.usage = (
        "enginebay deploy MODEL [--backend NAME] [--config FILE] [--input NAME=SPEC] [flags]"
    )
    add_model(parser)
    add_work_dir(parser)
    add_options(parser)
    add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Deploy, and describe the artifact."""
    from enginebay.cli.progress import progress
    from enginebay.config import VerifyOptions
    from enginebay.operations import deploy, typed

    with progress() as watch, stdout_on_stderr(), quiet_verdict():
        options = model_options(args)
        flags = [] if args.backend else ["--backend", options["backend"]]
        with typed(repeatable_command(args.argv, *flags)):
            deployment = deploy(
                read_model(args),
                **options,
                verify=VerifyOptions.from_args(args),
                work_dir=args.work_dir,
                overwrite=args.overwrite,
                watch=watch,
            )
    if args.json:
        print_json(_document(deployment))
    else:
        _print(deployment)
    return 0


def _document(deployment: Deployment) -> dict[str, Any]:
    import msgspec

    rewriting = deployment.rewriting
    return {
        "kind": "deployment",
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
            "lost": msgspec.to_builtins(rewriting.lost),
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
            ("sizes", sizes_text(deployment.artifact.manifest.inputs)),
            ("weights", weights_text(deployment.artifact.manifest.weights)),
            ("engine", engine_text(deployment.receipt)),
            *(("note", note) for note in deployment.notes),
            ("kept", join_names(deployment.artifact.manifest.kept)),
            *(("rewriters", line) for line in _rewriter_lines(deployment)),
            ("artifact", artifact_text(deployment.artifact)),
        )
    )
    if deployment.verification.outputs or deployment.verification.simulation:
        sys.stdout.write("\n")
        print_outputs(deployment.verification)
    print_next(_next(deployment))


def _rewriter_lines(deployment: Deployment) -> Iterator[str]:
    report = deployment.rewriting
    if report is None:
        return
    fired = [f"{each.name} ({each.count})" for each in report.applied if each.count]
    if fired:
        yield f"fired: {join_names(fired)}"
    # Core's and the backend's own rarely fire: most models need few of them. --json has them all.
    own = ("enginebay", deployment.artifact.manifest.plugin.distribution)
    idle = [r.name for r in report.applied if not r.count and r.distribution not in own]
    if idle:
        yield f"never fired: {join_names(idle)}"
    yield from report.not_found
    yield from report.not_served
    yield from (f"lost: {each.loss}" for each in report.lost if each.distribution not in own)


def _next(deployment: Deployment) -> Iterator[str]:
    folder = shlex.quote(short_path(deployment.artifact.path))
    if deployment.is_elsewhere:
        verb = "verify" if deployment.verification.reference else "run"
        yield f"on {deployment.artifact.manifest.built_for}: enginebay {verb} {folder}"
        yield f"enginebay inspect {folder}"
        return
    commands = {"crashed": ("inspect",), "unverified": ("run", "inspect")}
    for command in commands.get(deployment.verdict, ("run", "verify", "inspect")):
        yield f"enginebay {command} {folder}"
