"""Write the parts of ``docs/reference`` that repeat the code, into the pages of the repository.

A reader of a clone has no site. The page about hooks has the docstrings of its names, the page
about Python the arguments and the first sentence of each, and the page about conformance tests the
faults that each law is known to find. A test compares the pages with the code, and this script
writes them: ``python docs/build/write_reference.py``. The site shows whole docstrings instead.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
HOOKS, PYTHON, LAWS = (
    ROOT / "docs" / "reference" / f"{name}.md" for name in ("hooks", "python", "conformance-tests")
)
#: A name with its docstring, up to the next heading.
_SECTION = re.compile(r"^### `(enginebay[\w.]+)`\n.*?(?=^##|\Z)", re.MULTILINE | re.DOTALL)
#: A table of names, and a row of it.
_TABLE = re.compile(r"^\| name \| \|\n\|---\|---\|\n((?:\| .*\n)+)", re.MULTILINE)
_ROW = re.compile(r"^\| `(enginebay[\w.]+)` \|.*\n", re.MULTILINE)
_FAULTS = re.compile(r"(?<=<!-- faults -->\n).*?(?=<!-- end of faults -->)", re.DOTALL)
#: The site's options for a name.
_OPTIONS = {
    "enginebay.Backend": "    options:\n      inherited_members: true\n",
    # The arguments in its docstring are those of __new__.
    "enginebay.FileName": "    options: { docstring_options: { warnings: false } }\n",
}
_ROLE = re.compile(r":(?:class|func|meth|attr|data|mod|exc):`~?([^`]+)`")
_PART = re.compile(r"^(\w+):\n((?:(?:    .*)?\n?)+)", re.MULTILINE)


def write_hooks(page: str) -> str:
    """Return the page about hooks with the present docstrings."""
    return _SECTION.sub(lambda found: _section(found[1]), page).rstrip() + "\n"


def write_python(page: str) -> str:
    """Return the page about Python with the present arguments and first sentences."""
    return _TABLE.sub(lambda table: _ROW.sub(lambda found: _row(found[1]), table[0]), page)


def write_faults(page: str) -> str:
    """Return the page about conformance tests with the faults that the tests of the laws plant."""
    return _FAULTS.sub(lambda _: "\n".join(_faults()), page)


def as_directives(page: str) -> str:
    """Replace the texts of names by directives, for which the site shows whole docstrings."""

    def directive(found: re.Match[str]) -> str:
        return f"::: {found[1]}\n{_OPTIONS.get(found[1], '')}"

    page = _SECTION.sub(directive, page)
    return _TABLE.sub(lambda table: _ROW.sub(directive, table[1]), page)


def _section(name: str) -> str:
    value = resolve_name(name)
    lines = [f"### `{name}`", *_markdown(_docstring(value))]
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        takes = [f"{each.name}: {each.annotation}" for each in signature.parameters.values()]
        called = f"{value.__name__}({', '.join(takes)}) -> {signature.return_annotation}"
        lines.insert(1, f"`{called}`")
    return "\n\n".join(lines) + "\n\n"


def _row(name: str) -> str:
    value = resolve_name(name)
    text = _plain(" ".join(_docstring(value).partition("\n\n")[0].split()))
    if callable(value) and not isinstance(value, type) and not hasattr(value, "__origin__"):
        text = f"`({', '.join(_arguments(inspect.signature(value)))})` {text}"
    return f"| `{name}` | {text.replace('|', '&#124;').strip()} |\n"


def _docstring(value: Any) -> str:
    """Return a value's own docstring: a constant has only that of its type."""
    if isinstance(value, str):
        return "A text."
    if not callable(value) or hasattr(value, "__origin__"):
        return "A type."
    return inspect.getdoc(value) or ""


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    """Yield a function's arguments as it is called: ``model``, ``*``, ``backend``."""
    starred = False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        yield str(each.replace(annotation=each.empty, default=each.empty))


def _markdown(docstring: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring in Google's style; its sections become lists."""
    end = 0
    for part in _PART.finditer(docstring):
        yield from _paragraphs(docstring[end : part.start()])
        end = part.end()
        title, body = part[1], inspect.cleandoc(part[2])
        if title.startswith("Example"):
            yield f"```text\n{body}\n```"
        elif title in ("Returns", "Yields"):
            yield f"{title}: {_plain(body)}"
        else:
            items = re.sub(
                r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?:", r"- `\1`:", _plain(body), flags=re.M
            )
            yield f"{title}:\n\n" + re.sub(r"^    ", "  ", items, flags=re.M)
    yield from _paragraphs(docstring[end:])


def _paragraphs(text: str) -> Iterator[str]:
    yield from (_plain(part) for part in re.split(r"\n{2,}", text.strip()) if part.strip())


def _plain(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def _faults() -> Iterator[str]:
    """Yield the rows of a table: each law, and the faults of backends that it finds."""
    from enginebay_testing.conformance.suite import laws

    folder = ROOT / "packages" / "core" / "tests" / "testing"
    sys.path.insert(0, str(folder))
    try:
        broken = import_module("broken").BROKEN
    finally:
        sys.path.remove(str(folder))
    yield "| law | a backend with one of these faults fails it |\n|---|---|"
    for law in laws():
        faults = [fault for fault, each in broken.items() if each.law == law.name]
        if faults:
            yield f"| `{law.name}` | {'; '.join(faults)} |"
    yield ""


def main() -> None:
    """Write each page that differs from the code."""
    for page, write in ((HOOKS, write_hooks), (PYTHON, write_python), (LAWS, write_faults)):
        text = page.read_text(encoding="utf-8")
        if (written := write(text)) != text:
            page.write_text(written, encoding="utf-8")
            sys.stdout.write(f"wrote {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
