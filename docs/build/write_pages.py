"""Write the pages of the site into ``build/pages``, where Zensical reads them: ``nox -s docs``.

A README is included unchanged, so its text exists once. The command line's page is written from
the parsers, and the list of changes from its fragments: neither can become outdated.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from argparse import HelpFormatter
from pathlib import Path
from typing import TYPE_CHECKING

from write_reference import as_directives

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "pages"

#: Where people read the sources.
SOURCES = "https://github.com/enginebay/enginebay/blob/main"

#: The data of the report that the site shows; ``docs/how-to/report.md`` links to its page.
EXAMPLE = ROOT / "docs" / "how-to" / "report-example.json"

#: Files of the repository that are pages of the site.
INCLUDED = {
    "CONTRIBUTING.md": "reference/contributing.md",
    "examples/build-cache/README.md": "reference/build-cache.md",
    "packages/lab/README.md": "reference/lab.md",
    "packages/vision/README.md": "reference/vision.md",
    **{
        path.relative_to(ROOT).as_posix(): f"reference/{pages}/{path.parent.name[len(kind) :]}.md"
        for kind, pages in (("backend-", "backends"), ("codebase-", "models"))
        for path in sorted(ROOT.glob(f"packages/{kind}*/README.md"))
    },
}
#: Files that the pages show, in addition to their texts.
BESIDE = [
    *(path for kind in ("css", "js", "svg") for path in sorted(ROOT.glob(f"docs/**/*.{kind}"))),
    ROOT / "docs" / "reference" / "report.schema.json",
]
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_FILE = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
_NAVIGATION = re.compile(r"^ +- .*: (\S+\.md)$", re.MULTILINE)
_EXIT = re.compile(r"^```sh exit=\d+$", re.MULTILINE)


def write_pages() -> None:
    """Write every page, and fail if the navigation has a different set of pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for name, text in pages():
        target = PAGES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for file in BESIDE:
        target = PAGES / file.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    write_report()
    check_navigation()


def write_report() -> None:
    """Write the page of a real report from its data."""
    import enginebay_lab as lab

    lab.report(EXAMPLE).save(PAGES / "how-to" / "report-example.html")


def pages() -> Iterator[tuple[str, str]]:
    """Each page's path in the site and its text."""
    docs = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")]
    sources = {path: path.removeprefix("docs/") for path in docs} | INCLUDED
    python = sources.pop("docs/reference/python.md")
    for source, page in sources.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        yield page, adapted(as_directives(text), source, page)
    yield from python_pages(python)
    yield "reference/command-line.md", "\n".join(command_line())
    yield "reference/changelog.md", changelog()


def python_pages(page: str) -> Iterator[tuple[str, str]]:
    """A page for each part of ``docs/reference/python.md``, and one that lists them."""
    source = f"docs/{page}"
    text = as_directives((ROOT / source).read_text(encoding="utf-8"))
    overview, *parts = re.split(r"^## ", text, flags=re.M)
    listed = []
    for part in parts:
        title = part.partition("\n")[0]
        name = "python/" + re.sub(r"\W+", "-", title.lower()) + ".md"
        target = posixpath.join(posixpath.dirname(page), name)
        yield target, adapted(f"# {part}", source, target)
        listed.append(f"- [{title}]({name})")
    yield page, adapted(overview, source, page) + "\n".join(listed) + "\n"


def adapted(markdown: str, source: str, page: str) -> str:
    """Turn links between files of the repository into links between pages."""

    def between_pages(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        if target.endswith(".py"):  # no page has the sources
            return f"]({SOURCES}/{target}"
        found = INCLUDED.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(found, posixpath.dirname(page) or '.')}"

    return _EXIT.sub("```sh", _FILE.sub(r'```\1 title="\2"', _LINK.sub(between_pages, markdown)))


def check_navigation() -> None:
    """Compare the navigation with the pages, which Zensical does not do yet."""
    named = set(_NAVIGATION.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    found = {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")}
    if named != found:
        sys.exit(f"mkdocs.yml: the navigation and the pages differ in {sorted(named ^ found)}")


def changelog() -> str:
    """Return the changes of the next release, if there are any, and of earlier releases."""
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "Next release"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    _, first, changes = draft.partition("### ")
    coming = f"## Next release\n\n{first}{changes}" if first else ""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("<!-- releases -->", coming)
    return adapted(text, "CHANGELOG.md", "reference/changelog.md")


def command_line() -> Iterator[str]:
    """Write the page of the command line, line by line, from the parsers."""
    from enginebay.cli import add_common, command_parser
    from enginebay.cli.arguments import add_backend_flags
    from enginebay.cli.installed_commands import all_commands, import_command, read_summary
    from enginebay.cli.parser import Parser
    from enginebay.plugins import list_backends

    common = Parser()
    add_common(common)
    everywhere = {action.dest for action in common._actions}
    yield "# Command line\n"
    yield "Generated from the commands' parsers, as `enginebay COMMAND --help-all` prints them."
    yield "Data goes to stdout, messages and errors to stderr. The exit codes are on the page"
    yield "[Errors and fixes](../how-to/errors.md). Every command has these flags:\n"
    yield from _table(common._actions)
    for name in all_commands():
        module = import_command(name)
        parser = command_parser(name, module, ["-h"])
        yield f"\n## enginebay {name}\n\n{_sentence(read_summary(module.__name__))}\n"
        yield f"```text\n{parser.format_usage().removeprefix('usage: ').strip()}\n```\n"
        # The parameters of one backend have a part below.
        groups = [g for g in parser._action_groups if not (g.title or "").startswith("parameters")]
        for group in groups:
            yield f"\n{_cell(group.description)}\n" if group.description else ""
            yield from _table(a for a in group._group_actions if a.dest not in everywhere)
        if parser.epilog:
            yield f"\n{parser.epilog}"
        examples = "\n".join(parser.examples)
        yield f"\n```sh\n{examples}\n```\n"
    yield "\n## Parameters of the backends\n"
    yield "`enginebay deploy … --backend NAME` and `enginebay convert NAME …` also accept these."
    for status in list_backends():
        parser = Parser(add_help=False)
        add_backend_flags(parser, status.name, [])
        yield f"\n### {status.name}\n"
        yield from _table(parser._action_groups[-1]._group_actions)


def _table(actions: Iterable[Action]) -> Iterator[str]:
    formatter = HelpFormatter("enginebay")
    rows = [
        f"| `{formatter._format_action_invocation(action)}` "
        f"| {_cell(formatter._expand_help(action) if action.help else '')} |"
        for action in actions
    ]
    return iter(["| argument | |", "|---|---|", *rows] if rows else [])


def _cell(text: str) -> str:
    """Escape text for one cell of a Markdown table."""
    return re.sub(r"([|*_<>\[\]])", r"\\\1", " ".join(text.split()))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    write_pages()
