"""``enginebay check-env``: check the requirements of a backend, in four stages."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import add_backend_flags
from enginebay.cli.output import (
    print_json,
    print_labelled,
    print_none_installed,
    stdout_on_stderr,
    styled,
)
from enginebay.errors import BackendUnavailableError, EnginebayError, UsageError, next_command

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

EXAMPLES = ("enginebay check-env", "enginebay check-env {backend} --device cpu")


UNAVAILABLE = 3
_STATUSES = {"ok": ("ok", "green"), "failed": ("FAILED", "red"), "skipped": ("skipped", "dim")}


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and the flags of the backend that ``argv`` names."""
    from enginebay.plugins import list_backends

    parser.usage = "enginebay check-env [NAME ...] [--device DEVICE] [flags]"
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="the backends to check (default: all installed backends)",
    )
    parser.add_argument(
        "--with-custom-ops",
        action="store_true",
        help="also load the custom operators that the backend's flags specify",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="time limit for each of the four stages, in seconds (default: 120)",
    )
    named = {status.name for status in list_backends()}.intersection(argv)
    if len(named) == 1:
        with suppress(BackendUnavailableError):  # run() reports it
            add_backend_flags(parser, named.pop(), argv)
    # The flags of a named backend contain it already.
    if "--device" not in parser._option_string_actions:
        parser.add_argument("--device", help="the device to check")


def run(args: Namespace) -> int:
    """Check the backends; return 3 if the command line names backends and a check fails, else 0."""
    from enginebay.plugins import list_backends

    names = args.names or [status.name for status in list_backends()]
    if not names:
        print_none_installed()
    with stdout_on_stderr():
        results = [_check_backend(name, args) for name in dict.fromkeys(names)]
    failed = any(not result["ok"] for result in results) and bool(args.names)
    if args.json:
        print_json({"backends": results, **(_first_fix(results) if failed else {})})
    else:
        for result in results:
            _print_result(result)
    return UNAVAILABLE if failed else 0


def _first_fix(results: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return the fix of the first fault, and the command to type next."""
    faults = [one for result in results for one in (result, *result["checks"])]
    fix = next((one["fix"] for one in faults if one["fix"] and one.get("status") != "ok"), None)
    return {"fix": fix, "next": next_command(fix)}


def _check_backend(name: str, args: Namespace) -> dict[str, Any]:
    from enginebay.operations import get_backend
    from enginebay.plugins import list_backends, list_plugins

    try:
        backend = get_backend(name)
        device = {"device": args.device} if args.device else {}
        params = backend.Params.from_args(args, **device)
        report = backend.check_env(
            params, with_custom_ops=args.with_custom_ops, timeout=args.timeout
        )
    # A wrong flag is not a fault of the backend.
    except UsageError:
        raise
    except EnginebayError as err:
        # With ENGINEBAY_STRICT_PLUGINS these raise the first error, which may be another plugin's.
        list_backends()
        list_plugins()
        if args.traceback:
            import traceback

            traceback.print_exception(err, file=sys.stderr)
        return {"name": name, "ok": False, "reason": str(err), "fix": err.hint, "checks": []}
    import msgspec

    checks = msgspec.to_builtins(report.checks)
    return {"name": name, "ok": report.ok, "reason": "", "fix": None, "checks": checks}


def _print_result(result: dict[str, Any]) -> None:
    state = ("ok", "green") if result["ok"] else ("NOT OK", "red")
    name = styled(result["name"], "bold", sys.stdout)
    sys.stdout.write(f"{name}: {styled(*state, sys.stdout)}\n")
    _print_reason("  ", "", result["reason"], result["fix"])
    for check in result["checks"]:
        status, colour = _STATUSES[check["status"]]
        status = styled(status.ljust(7), colour, sys.stdout)
        label = f"  {check['tier']:<8}  {status}  "
        print_labelled(label, f"{check['name']}: {check['found']}")
        if check["status"] == "failed":
            _print_reason(" " * 21, "expected: ", check["wanted"], check["fix"])


def _print_reason(indent: str, label: str, reason: str | None, fix: str | None) -> None:
    if reason:
        print_labelled(f"{indent}{label}", reason)
    if fix:
        print_labelled(f"{indent}fix: ", fix, wrap=False)  # not wrapped: users copy the command
