"""``python -m tests.backend_support``: store the reports of backends' sessions, write the page."""

from __future__ import annotations

import sys

from tests.zoo import results as zoo

from .page import PAGE, render
from .reports import KEPT, MADE, NAMES, load, made, save


def main() -> int:
    """Replace each stored report by the new report, if there is a new report."""
    kept = load() if KEPT.exists() else {}
    found = {name: report for name in NAMES if (report := made(name))}
    kept = {name: report for name in NAMES if (report := found.get(name) or kept.get(name))}
    if missing := [name for name in NAMES if name not in kept]:
        print(f"no {MADE / missing[0]}.json: run nox -s onnxruntime openvino ncnn tensorrt")
        return 1
    save(kept)
    PAGE.write_text(render(kept, zoo.load()), encoding="utf-8")
    print(f"{', '.join(found) or 'nothing'} is new in {KEPT}\n{PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
