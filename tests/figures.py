"""Tables that sessions write into docs/evidence/how-we-know.md, each between two comments."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.zoo.results import installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "how-we-know.md"


def table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown: words in the first column, numbers in the others."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write_figures(session: str, text: str, page: Path = PAGE) -> None:
    """Put a table, with its date and the versions, in the place of a session's last one.

    Args:
        session: The name between the comments ``<!-- SESSION -->`` and ``<!-- end of SESSION -->``.
        text: The table.
        page: The page.
    """
    before, start, rest = page.read_text(encoding="utf-8").partition(f"<!-- {session} -->\n")
    _, end, after = rest.partition(f"<!-- end of {session} -->\n")
    if not start or not end:
        raise ValueError(f"{page.name} has no place for the table of '{session}'")
    names = ("torch", "onnx", "onnxscript", "onnxruntime", "openvino", "ncnn", "pnnx")
    versions = ", ".join(f"{name} {number}" for name, number in installed(names).items())
    date = datetime.now(UTC).date().isoformat()
    found = f"\nFigures of {date}, with {versions}:\n\n{text}\n\n"
    page.write_text(f"{before}{start}{found}{end}{after}", encoding="utf-8")
