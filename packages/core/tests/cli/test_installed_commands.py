"""Commands of other distributions: listed by metadata, imported when they are used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from enginebay.environment import install_command
from enginebay.plugins import discovery, forget_plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .conftest import Run

COUNT = '''"""``enginebay count-words``: count the words of a text."""

from enginebay.commands import print_fields, print_json

EXAMPLES = ("enginebay count-words text",)


def add_arguments(parser, argv):
    parser.add_argument("text")


def run(args):
    number = len(args.text.split())
    if args.json:
        print_json({"words": number})
    else:
        print_fields([("words", str(number))])
    return 0 if number else 1
'''


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a distribution with one command: ``bring(name, source, distribution="words")``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, source: str, distribution: str = "words") -> None:
        module = f"{distribution}_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{distribution}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        with (info / "entry_points.txt").open("a") as entries:
            entries.write(f"[enginebay.commands]\n{name} = {module}\n")

    forget_plugins()
    yield write
    forget_plugins()
    for module in [each for each in sys.modules if each.startswith(("words_", "other_"))]:
        del sys.modules[module]


def listed(cli: Run, name: str) -> dict[str, str]:
    """Return the row of a command in ``enginebay backends``."""
    rows = cli("backends", "--json").document["commands"]
    (found,) = [row for row in rows if row["name"] == name]
    return found


def test_an_installed_command_is_listed_and_runs(cli: Run, bring: Callable[..., None]) -> None:
    bring("count-words", COUNT)
    bring("loud", '"""``enginebay loud``: never imported."""\nraise SystemExit(7)\n')
    _, _, groups = cli("-h").out.partition("commands of words 1.0:\n")
    assert [" ".join(line.split()) for line in groups.splitlines()[:2]] == [
        "count-words count the words of a text",
        "loud never imported",
    ]
    ran = cli("count-words", "a b c")
    assert (ran.code, ran.out) == (0, "words  3\n")
    assert cli("count-words", "", "--json").document["words"] == 0
    shown = cli("help", "count-words").out
    assert "Count the words of a text." in shown
    assert shown.endswith("examples:\n  enginebay count-words text\n")
    assert "count-words" in cli("completion", "bash").out


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "from enginebay.authors import of_tomorrow\n",
            "'words_broken' requires a version of enginebay other than 0.1.0: ImportError:",
        ),
        ("1 / 0\n", "importing 'words_broken' raised ZeroDivisionError: division by zero"),
        ("import os\nos._exit(9)\n", "importing 'words_broken' ended with exit code 9"),
        ("def run(args): ...\n", "'words_broken' does not define add_arguments"),
        ("", "'words_broken' does not define add_arguments and run"),
    ],
)
def test_a_broken_command_does_not_affect_others(
    cli: Run, bring: Callable[..., None], source: str, reason: str
) -> None:
    bring("broken", source)
    ran = cli("broken")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"error: command 'broken' of words 1.0 cannot be used: {reason}")
    row = listed(cli, "broken")
    assert (row["state"], row["distribution"]) == ("broken", "words")
    assert f"broken broken: {reason}" in " ".join(cli("-h").out.split())
    assert cli("completion", "bash").code == 0


def test_two_distributions_with_one_command_are_both_named(
    cli: Run, bring: Callable[..., None]
) -> None:
    bring("count", COUNT)
    bring("count", COUNT, "other")
    ran = cli("count", "x")
    assert ran.code == 3
    for word in ("words 1.0", "other 1.0", "pip uninstall other"):
        assert word in ran.err


def test_a_command_cannot_replace_a_command_of_core(cli: Run, bring: Callable[..., None]) -> None:
    bring("inspect", COUNT)
    assert "Describe an artifact or an IR file." in cli("inspect", "-h").out
    row = listed(cli, "inspect")
    assert (row["state"], row["reason"]) == (
        "disabled",
        "enginebay has a command of this name itself",
    )


def test_a_command_of_a_distribution_that_is_not_installed(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "entry_points", list)
    ran = cli("evaluate", "artifact")
    assert ran.code == 3
    assert ran.err == (
        "error: 'enginebay evaluate' is a command of enginebay-lab, which is not installed\n"
        f"hint: {install_command('enginebay-lab')}\n"
    )


def test_an_unknown_command_suggests_the_nearest(cli: Run, bring: Callable[..., None]) -> None:
    bring("count-words", COUNT)
    ran = cli("count-wrods")
    assert (ran.code, ran.err.splitlines()[-1]) == (
        2,
        "hint: did you mean 'enginebay count-words'?",
    )
