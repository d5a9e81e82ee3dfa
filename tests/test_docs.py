"""README and docs are true: blocks run, links have targets, and every public name is documented.

The ``python`` and ``sh`` blocks of a page run in order, in a folder of that page, which contains
the README's ``net.py`` unless the page writes its own. After the language of a block, ``file=NAME``
writes the block to that file, and ``exit=N`` expects that exit code of its last line. A ``text``
block that directly follows a block that ran contains the expected output; ``…`` matches any text.
A command with ``--duration`` measures for a tenth of a second, whatever the page says.
The line above a block may be a comment: ``<!-- not run: REASON -->``, or ``<!-- part of the
loopback backend -->``; the guide shows the whole source of that backend.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import types
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

import enginebay as eb
import enginebay_lab as lab
import enginebay_vision as vision
from enginebay import authors, commands
from tests.command_lines import parse_line, parser_of
from tests.fork_server import write_command
from tests.house import PUBLIC_MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
#: The modules of `enginebay.authors`; the reference shows each of their names.
DOORS = {name for name in PUBLIC_MODULES if name.startswith("enginebay.authors.")}
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    + [page for where in ("packages", "examples") for page in ROOT.glob(f"{where}/*/README.md")]
)
LANGUAGES = {"python", "sh", "text", "toml", "json", "yaml"}
#: Lines of shell blocks that do not run, by their first words, with the reason.
ELSEWHERE = {
    "pip install": "it installs the package under test",
    "git clone": "it fetches the repository under test",
    "nox": "it runs this test",
    "pytest": "it runs this test",
}

BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n+)?"
    r"^```(?P<language>\S*)(?: file=(?P<file>\S+)| exit=(?P<exit>\d+))?\n"
    r"(?P<code>.*?)^```$(?P<gap>\s*)",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    file: str | None
    exit_code: int
    code: str
    comment: str
    follows: bool  # directly after the previous block

    @property
    def where(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def why_not_run(self) -> str:
        return self.comment.removeprefix("not run: ") if self.comment.startswith("not run:") else ""

    @property
    def is_loopback(self) -> bool:
        return self.comment == "part of the loopback backend"

    @property
    def runs(self) -> bool:
        elsewhere = self.file or self.why_not_run or self.is_loopback
        return self.language in ("python", "sh") and not elsewhere


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    end = -1
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        follows = match.start() == end
        end = match.end()
        part = match.groupdict()
        yield Block(
            *(page, line, part["language"], part["file"], int(part["exit"] or 0)),
            *(part["code"], part["comment"] or "", follows),
        )


BLOCKS = {page: list(blocks_of(page)) for page in PAGES}
README = ROOT / "README.md"
NET = next(block.code for block in BLOCKS[README] if block.file == "net.py")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.runs for block in BLOCKS[page])], ids=name_of
)
def test_code_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as if Python had been started in the folder
    Path("net.py").write_text(NET, encoding="utf-8")
    module = types.ModuleType("page_" + page.stem.replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = dict(vars(module))
    printed = None
    for block in BLOCKS[page]:
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.code, encoding="utf-8")
        elif block.runs:
            if page == README:  # whose blocks are copied one by one
                vars(module).clear()
                vars(module).update(names)
            printed = run_python(block, module) if block.language == "python" else run_shell(block)
        elif block.language == "text" and block.follows and printed is not None:
            assert_prints(block, printed)
            printed = None
    for name, imported in list(sys.modules.items()):
        if str(getattr(imported, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]  # the next page has files of the same names


def run_python(block: Block, module: types.ModuleType) -> str:
    code = compile("\n" * block.line + block.code, str(block.page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, vars(module))
    return printed.getvalue()


def run_shell(block: Block) -> str:
    code = re.sub(r"--duration [\d.]+", "--duration 0.1", block.code)
    lines = [line for line in code.splitlines() if not line.startswith(tuple(ELSEWHERE))]
    with TemporaryDirectory() as folder:
        write_command(Path(folder))
        return _run_shell(block, lines, folder)


def _run_shell(block: Block, lines: list[str], *folders: str) -> str:
    path = os.pathsep.join([*folders, str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"},
    )
    assert run.returncode == block.exit_code, f"{block.where}: {run.stderr or run.stdout}"
    return run.stderr if block.exit_code else run.stdout


def assert_prints(block: Block, printed: str) -> None:
    wanted = re.escape(unspaced(block.code)).replace("…", ".*?")
    assert re.fullmatch(wanted, unspaced(printed), re.DOTALL), f"{block.where}: found\n{printed}"


def unspaced(text: str) -> str:
    """Join repeated blanks: figures of a different length move the columns of a table."""
    return re.sub(" +", " ", text).strip()


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in BLOCKS[page] if block.why_not_run],
    ids=lambda block: block.where,
)
def test_skipped_blocks_have_a_reason(block: Block) -> None:
    pytest.skip(f"{block.where}: {block.why_not_run}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_have_known_languages_and_comments(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(BLOCKS[page])
    for block in BLOCKS[page]:
        assert block.language in LANGUAGES, block.where
        assert block.why_not_run or block.is_loopback or not block.comment, block.where
        if block.language == "toml":
            tomllib.loads(block.code)
        if block.language == "json":
            json.loads(block.code)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_workflows_call_commands_that_exist(page: Path) -> None:
    """The YAML is valid, and Enginebay's commands in it accept their flags."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for block in BLOCKS[page]:
        if block.language == "yaml":
            for job in yaml.safe_load(block.code)["jobs"].values():
                for step in job["steps"]:
                    assert ("uses" in step) != ("run" in step), block.where
                    words = shlex.split(re.sub(r"\$\{\{.*?'(.*?)' }}", r"\1", step.get("run", "")))
                    if words[:1] == ["enginebay"]:
                        parse_line(words[1:])


def test_the_guide_shows_the_whole_loopback_backend() -> None:
    from enginebay_testing import loopback

    guide = BLOCKS[ROOT / "docs/tutorials/write-a-backend.md"]
    parts = [block.code for block in guide if block.is_loopback]
    assert lines_of("".join(parts)) == lines_of(Path(loopback.__file__).read_text(encoding="utf-8"))


def lines_of(code: str) -> list[str]:
    return [line for line in code.splitlines() if line]


def test_first_command_of_the_readme_runs_the_example(tmp_path: Path) -> None:
    (command,) = [
        line for block in BLOCKS[README] for line in block.code.splitlines() if "digits.py" in line
    ]
    install, run = command.split(" && ")
    assert "packages/core[export]" in install
    assert "packages/backend-onnxruntime[cpu,int8]" in install
    run = run.replace("python examples", f"{sys.executable} {ROOT}/examples")
    done = subprocess.run(
        shlex.split(run), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("verified")]
    expected = [("onnxruntime", "fp32"), ("onnxruntime", "int8")]
    if find_spec("nncf"):
        expected += [("openvino", "fp32"), ("openvino", "int8")]
    assert [(backend, precision) for backend, precision, *_ in rows] == expected
    for _, precision, *figures, size, unit, _ in rows:
        pytorch, found, drop = (float(figure.removesuffix("%")) for figure in figures)
        assert pytorch > 90
        assert drop == pytest.approx(pytorch - found, abs=0.011)
        assert abs(drop) <= (0 if precision == "fp32" else 1)
        assert float(size) > 0
        assert unit == "kB"


def test_figures_in_the_readme_are_on_the_linked_pages() -> None:
    """Each number of a reason is on the page that the reason links to."""
    text = README.read_text(encoding="utf-8")
    reasons = text.partition("## Why\n")[2].partition("\n## ")[0].split("\n- ")[1:]
    quoted = 0
    for reason in reasons:
        *_, page = LINK.findall(reason)
        figures = set(re.findall(r"(?<![\w-])\d[\d.]*\b", prose_of(ROOT / page)))
        for number in re.findall(r"(?<![\w-])\d[\d.]*\b", reason):
            assert number in figures, f"{number} is not on {page}"
            quoted += 1
    assert quoted > 8


def test_messages_on_the_errors_page_are_in_the_sources() -> None:
    """The longest part of each message without values is in the sources or in a test."""
    page = (ROOT / "docs" / "how-to" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([^`]+)`.* \| .* \|$", page.partition("## Exit codes")[0], re.MULTILINE
    )
    sources = [path.read_text(encoding="utf-8") for path in ROOT.glob("packages/*/*/**/*.py")]
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))  # a text in several lines
    assert len(rows) > 15
    for row in rows:
        parts = re.split(r"""…|'[^']*'|"[^"]*"|net\.py:14|\bNet\b|\d+| in n\b""", row)
        assert max(parts, key=len).strip(" :") in joined, row


def prose_of(page: Path) -> str:
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h)).strip("-").lower() for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_have_existing_targets(page: Path) -> None:
    links = LINK.findall(prose_of(page))
    for link in links:
        if link.startswith(("http:", "https:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        generated = {
            ROOT / "docs" / name
            for name in (
                "reference/command-line.md",
                "reference/changelog.md",
                "how-to/report-example.html",
            )
        }
        assert target.is_file() or target in generated, link
        assert not anchor or target in generated or anchor in anchors_of(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_addresses_are_well_formed(page: Path) -> None:
    """Checks the form alone, since there may be no network."""
    for address in re.findall(r"https?:[^\s)>\"`]*", page.read_text(encoding="utf-8")):
        parts = urlsplit(address)
        assert parts.scheme == "https", address
        assert re.fullmatch(r"([\w-]+\.)+[a-z]{2,}", parts.netloc), address


def shown_on(page: str) -> set[str]:
    return set(names_on(page))


def names_on(page: str) -> list[str]:
    """Return the names that have a heading of their own, or a row in a table of names."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    mark = r"### " if page == "reference/hooks.md" else r"\| "
    return re.findall(rf"^{mark}`(enginebay[\w.]+)`", text, re.MULTILINE)


def test_the_reference_has_every_public_name() -> None:
    names = {f"enginebay.{name}" for name in eb.__all__}
    names |= {f"enginebay.authors.{name}" for name in authors.__all__}
    for door in DOORS:
        names |= {f"{door}.{name}" for name in import_module(door).__all__}
    names |= {f"enginebay.commands.{name}" for name in commands.__all__}
    names |= {f"enginebay_lab.{name}" for name in lab.__all__}
    names |= {f"enginebay_vision.{name}" for name in vision.__all__}
    on_the_page_of_the_hooks = {f"enginebay.{name}" for name in ("API_VERSION", "BackendInfo")}
    in_words = {"enginebay.hookimpl", "enginebay.__version__"}
    assert names - on_the_page_of_the_hooks - in_words <= shown_on("reference/python.md")


@pytest.mark.parametrize("page", ["reference/python.md", "reference/hooks.md"])
def test_the_reference_has_each_name_once_and_where_it_is_now(page: str) -> None:
    shown = names_on(page)
    assert sorted(shown) == sorted(set(shown))
    for name in shown:
        resolve_name(name)  # of a former name it warns, which is an error


#: Suffixes of the classes that hooks take and return.
ENDINGS = ("Info", "Request", "Data", "Result", "Aligned", "Layer", "BuiltFor", "Task")


def test_hooks_page_lists_every_hook_and_value() -> None:
    from enginebay import hooks

    specs = {name for name, value in vars(hooks).items() if hasattr(value, "enginebay_spec")}
    values = {name for name in vars(hooks) if name.endswith(ENDINGS)}
    assert {f"enginebay.hooks.{name}" for name in specs | values} == shown_on("reference/hooks.md")


def imported_by_plugins() -> Iterator[str]:
    loopback = ROOT / "packages/core/src/enginebay_testing/loopback.py"
    ours = [
        path
        for kind in ("backend", "codebase")
        for path in ROOT.glob(f"packages/{kind}-*/src/**/*.py")
    ]
    for path in (loopback, *ours):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("enginebay."):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_own_plugins_use_only_documented_names() -> None:
    public = shown_on("reference/python.md") | shown_on("reference/hooks.md")
    errors = {name for name in imported_by_plugins() if name.startswith("enginebay.errors.")}
    assert set(imported_by_plugins()) - public - DOORS - errors == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_in_the_text_exist(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    groups = {"enginebay.backends", "enginebay.plugins", "enginebay.commands"}  # of entry points
    for code in re.findall(r"`([^`\n]+)`", prose):
        for name in re.findall(r"(?<![\w.\-/])(?:eb|enginebay)(?:\.\w+)+", code):
            assert name in groups or resolve_name(re.sub(r"^eb\.", "enginebay.", name)), name
        for name in re.findall(r"^enginebay (\w[\w-]*)", code):
            assert parser_of(name), code
