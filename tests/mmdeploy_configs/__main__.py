"""``python -m tests.mmdeploy_configs CHECKOUT [WORD …] [--record]``: deploy MMDeploy's configs.

Only configs of codebases that are installed are tried. Exit code 1 if an outcome differs from the
recorded one.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from .configs import CASES, check_checkout, codebase_of
from .page import load, record
from .trial import try_config


def main() -> int:
    """Deploy the configs, print what differs, and record the results if asked to."""
    parser = argparse.ArgumentParser(prog="nox -s mmdeploy-configs --", description=__doc__)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="a checkout of MMDeploy")
    codebases = tuple(dict.fromkeys(map(codebase_of, CASES)))
    parser.add_argument("--codebase", choices=codebases, help="only configs of this codebase")
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of paths; default: all")
    parser.add_argument("--record", action="store_true", help="write the results and the page")
    parser.add_argument("--missing", action="store_true", help="only configs without a result")
    wanted = parser.parse_intermixed_args()
    folder = check_checkout(wanted.checkout)
    differing = []
    for config, case in CASES.items():
        before = load(codebase_of(config)).rows.get(config)
        named = not wanted.words or any(word in config for word in wanted.words)
        named &= wanted.codebase in (None, codebase_of(config))
        if not named or not case.model or (wanted.missing and before):
            continue
        if not find_spec(codebase_of(config)):
            print(f"{config}: not tried, {codebase_of(config)} is not installed", flush=True)
            continue
        row = try_config(config, folder)
        print(f"{config}: {row.outcome} {row.seconds} s, {row.memory} GiB {row.cause}", flush=True)
        if before and before.outcome != row.outcome:
            differing.append(f"{config}: {row.outcome}, and {before.outcome} as recorded")
        if wanted.record:
            results = load(codebase_of(config))
            results.rows[config] = row
            results.date = datetime.now(UTC).date().isoformat()
            record(codebase_of(config), results)
    print(*differing, sep="\n")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
