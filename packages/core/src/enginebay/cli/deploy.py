"""``enginebay deploy``: turn a model into a verified artifact."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import (
    METRIC_HELP,
    add_compare,
    add_probes,
    add_strict,
    add_tolerance,
    add_work_dir,
    parse_domain,
    repeatable_command,
)
from enginebay.cli.comparison import add_compared_parameters, is_comparison, run_comparison
from enginebay.cli.model_arguments import add_backend_parameters, add_model, model_options
from enginebay.cli.output import (
    print_fields,
    print_json,
    print_next,
    print_table,
    short_path,
    stdout_on_stderr,
)
from enginebay.cli.report_flag import add_report, check_report, write_report
from enginebay.cli.summaries import (
    artifact_text,
    basis_fields,
    engine_text,
    join_names,
    print_outputs,
    quiet_verdict,
    verdict_text,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from enginebay.operations import Deployment

EXAMPLES = (
    "enginebay deploy net.py:build --backend {backend} --work-dir artifact",
    "enginebay deploy model.onnx --all --work-dir engines --overwrite",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    parser.usage = (
        "enginebay deploy MODEL [--backend NAME[,NAME …]] [--config FILE] [--input NAME=SPEC] "
        "[flags]"
    )
    add_model(parser, "; several, as A,B, are compared")
    parser.add_argument("--all", action="store_true", help="compare all installed backends")
    add_work_dir(parser)
    parser.add_argument(
        "--cut",
        action="append",
        default=[],
        metavar="NAME",
        help="cut the model at the tensors marked as NAME, or an ONNX file at its tensor NAME, "
        "into engines that run one after the other (repeatable, in the order of the model)",
    )
    parser.add_argument("--keep-ir", action="store_true", help="keep the IR in the artifact")
    parser.add_argument(
        "--max-drop",
        type=float,
        metavar="X",
        help="give layers of an int8 or fp8 engine back to floating point, the costliest first, "
        "until it is verified and --metric, on all of --data, is at most X worse than PyTorch's",
    )
    parser.add_argument("--metric", metavar="METRIC", help=f"for --max-drop: {METRIC_HELP}")
    add_compare(parser, "each output place by place")
    add_probes(parser)
    add_tolerance(parser)
    parser.add_argument(
        "--allow-mismatch",
        action="store_true",
        help="publish although the numbers differ or the engine crashed",
    )
    add_strict(parser)
    add_report(parser)
    if is_comparison(argv):
        add_compared_parameters(parser, argv)
    else:
        add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Deploy, and describe the artifact; or compare, where several backends are named."""
    from enginebay.cli.progress import progress
    from enginebay.operations import deploy

    check_report(args)
    if is_comparison(args.argv):
        work_dir = args.work_dir or _default_work_dir(args.model, "comparison")
        return run_comparison(args, work_dir, _deploy_options(args))
    with progress() as watch, stdout_on_stderr(), quiet_verdict():
        options = model_options(args)
        flags = [] if args.backend else ["--backend", options["backend"]]
        deployment = deploy(
            args.model,
            **options,
            **_deploy_options(args),
            work_dir=args.work_dir or _default_work_dir(args.model, options["backend"]),
            overwrite=args.overwrite,
            watch=watch,
            command=repeatable_command(args.argv, *flags),
        )
    if args.json:
        print_json(_document(deployment))
    else:
        _print(deployment)
    write_report(args, deployment)
    return 0


def _deploy_options(args: Namespace) -> dict[str, Any]:
    """The arguments of :func:`enginebay.deploy` that only this command has flags for."""
    return {
        "partition": args.cut,
        "keep_ir": args.keep_ir,
        "metric": args.metric,
        "max_drop": args.max_drop,
        "compare": args.compare or (),
        "probes": args.probes,
        "probes_extreme": args.probes_extreme,
        "domain": parse_domain(args.domain),
        "rtol": args.rtol,
        "atol": args.atol,
        "timeout": args.timeout,
        "allow_mismatch": args.allow_mismatch,
        "strict": args.strict,
    }


def _default_work_dir(model: str, backend: str) -> Path:
    """Return ``net-build-ncnn`` for ``folder/net.py:build`` on ncnn: a folder in the current one.

    The file's name is in it, since many files call their function ``build``.
    """
    left, _, attribute = model.rpartition(":")
    if not left:
        return Path(f"{Path(model).stem}-{backend}")
    source = Path(left).name
    module = source.removesuffix(".py") if source.endswith(".py") else source.rpartition(".")[2]
    return Path(f"{module}-{Path(attribute).name.removesuffix('.py')}-{backend}")


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
    fired = [f"{name} ({count})" for name, count in report.fired.items()]
    if fired:
        yield f"fired: {join_names(fired)}"
    # Core's and the backend's own rarely fire: most models need few of them. --json has them all.
    own = ("enginebay", deployment.artifact.manifest.plugin.distribution)
    idle = [r.name for r in report.applied if not r.count and r.distribution not in own]
    if idle:
        yield f"never fired: {join_names(idle)}"
    yield from report.not_found
    yield from report.not_served


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
