"""What is deprecated is seen by whoever runs it, and goes when it was said to go."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy
import pytest
from packaging.version import Version

import enginebay as eb
from enginebay.deprecation import Deprecated
from enginebay.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTICE = 2  # minor versions


def test_it_says_what_to_write_and_until_when() -> None:
    warning = Deprecated("f(x)", since="0.2", removed_in="0.4", instead="g(x)")
    assert str(warning) == (
        "f(x) is deprecated since Enginebay 0.2 and will be gone in 0.4; write g(x)"
    )


def test_it_is_shown_outside_of_tests_and_of_main(tmp_path: Path) -> None:
    # Python's own DeprecationWarning is not: this is somebody's module, imported by a program.
    (tmp_path / "somebodys.py").write_text(
        "import warnings\n"
        "from enginebay.deprecation import Deprecated\n"
        "old = Deprecated('f(x)', since='0.2', removed_in='0.4', instead='g(x)')\n"
        "warnings.warn(old)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, ''); import somebodys"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Deprecated: f(x) is deprecated" in run.stderr


def test_a_hook_that_goes_warns_the_plugin_that_has_it() -> None:
    class Specification:
        @staticmethod
        @hookspec(
            warn_on_impl=Deprecated("hook prepare", since="0.2", removed_in="0.4", instead="ready")
        )
        def prepare() -> None: ...

    class Plugin:
        @staticmethod
        @eb.hookimpl
        def prepare() -> None: ...

    manager = pluggy.PluginManager("enginebay")
    manager.add_hookspecs(Specification)
    with pytest.warns(Deprecated, match="hook prepare is deprecated since Enginebay 0.2"):
        manager.register(Plugin)


def deprecations(source: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The line and the versions of each ``Deprecated(…)`` in a source text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Deprecated"):
            given = {word.arg: word.value for word in node.keywords}
            versions = {name: given[name] for name in ("since", "removed_in")}
            yield node.lineno, {name: ast.literal_eval(text) for name, text in versions.items()}


def problem(versions: dict[str, str], now: str) -> str | None:
    """What is wrong with a deprecation in the source of a version, if anything."""
    since, removed_in = Version(versions["since"]), Version(versions["removed_in"])
    if Version(now).release >= removed_in.release:
        return f"should be gone in {removed_in}, and this is {now}"
    if removed_in.major == since.major and removed_in.minor < since.minor + NOTICE:
        return f"goes in {removed_in}, less than {NOTICE} minor versions after {since}"
    return None


@pytest.mark.parametrize(
    ("since", "removed_in", "now", "said"),
    [
        ("0.2", "0.4", "0.3.7", None),
        ("0.2", "0.4", "0.4.0", "should be gone in 0.4, and this is 0.4.0"),
        ("0.2", "0.4", "0.5.1", "should be gone in 0.4, and this is 0.5.1"),
        ("0.2", "0.3", "0.2.0", "goes in 0.3, less than 2 minor versions after 0.2"),
        ("1.9", "2.0", "1.9.3", None),
    ],
)
def test_a_deprecation_that_is_overdue_is_found(
    since: str, removed_in: str, now: str, said: str | None
) -> None:
    source = f"warn(Deprecated('f', since={since!r}, removed_in={removed_in!r}, instead='g'))"
    ((_, versions),) = deprecations(source)
    assert problem(versions, now) == said


def test_nothing_that_is_installed_is_overdue() -> None:
    found = []
    for path in sorted(Path(eb.__file__).parent.rglob("*.py")):
        for line, versions in deprecations(path.read_text(encoding="utf-8")):
            if said := problem(versions, eb.__version__):
                found.append(f"{path}:{line} {said}")
    assert found == []


def test_a_stranger_may_turn_it_into_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Deprecated)
        with pytest.raises(Deprecated):
            warnings.warn(Deprecated("f", since="0.2", removed_in="0.4", instead="g"), stacklevel=1)
