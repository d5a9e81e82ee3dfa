"""``python -m tests.transformers_exports [WORD …] [--missing] [--record]``: judge the exports.

Exit code 1 if a verdict differs from the recorded one, or if tokens are wrong.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from tests.zoo.results import installed

from .models import CASES, DECODERS
from .page import Results, load, record, verdict
from .trial import ENGINES, try_export, try_tokens

VERSIONS = ("transformers", "torch", "onnx", "onnxscript", "onnxruntime", "openvino")


def main() -> int:
    """Export and judge the models, print what differs, and record the results if asked to."""
    parser = argparse.ArgumentParser(prog="nox -s transformers-exports --", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of names; default: all")
    parser.add_argument("--record", action="store_true", help="write the results and the page")
    parser.add_argument("--missing", action="store_true", help="only models without a result")
    wanted = parser.parse_args()
    before, wrong = load(), []
    results = Results(
        date=datetime.now(UTC).date().isoformat(),
        versions=installed(VERSIONS),
        rows=dict(before.rows),
        tokens=dict(before.tokens),
    )

    def chosen(name: str, known: bool) -> bool:
        named = not wanted.words or any(word in name for word in wanted.words)
        return named and not (wanted.missing and known)

    for name in CASES:
        if not chosen(name, name in before.rows):
            continue
        row = try_export(name)
        for engine in ENGINES:
            found = verdict(row, engine)
            print(f"{name} on {engine}: {found} {row.exported} {row.breaches}", flush=True)
            was = verdict(before.rows[name], engine) if name in before.rows else found
            if was != found:
                wrong.append(f"{name} on {engine}: {found}, and {was} as recorded")
        results.rows[name] = row
        results.rows = {each: results.rows[each] for each in CASES if each in results.rows}
        if wanted.record:
            record(results)
    for name in DECODERS:
        if not chosen(f"tokens of {name}", name in before.tokens):
            continue
        results.tokens[name] = {engine: try_tokens(name, engine) for engine in ENGINES}
        print(f"tokens of {name}: {results.tokens[name]}", flush=True)
        wrong += [f"{name} on {e}: {t}" for e, t in results.tokens[name].items() if t.wrong]
        if wanted.record:
            record(results)
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
