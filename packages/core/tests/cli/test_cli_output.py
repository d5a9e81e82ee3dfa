"""Tables and fields: complete and plain in a file or a pipe, wrapped at words on a terminal."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay.authors import Steps
from enginebay.cli.output import print_table
from enginebay.cli.progress import progress
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import command, environment

from .conftest import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Run

DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
REASON = "a reason of many words, with /usr/lib/python3.11/site-packages/mine in it"


def lines_at(columns: int, *words: str) -> list[str]:
    code, seen = terminal(*words, COLUMNS=str(columns), NO_COLOR="1")
    assert code == 0
    return [line.rstrip() for line in seen.splitlines()]


@pytest.fixture
def broken(here: Path, loopback: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A backend with a long reason, and its row in a pipe."""
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback,broken")
    with temporary_backend("broken", f"raise OSError({REASON!r})"):
        yield "broken"


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_table_on_a_terminal_breaks_between_words_only(columns: int, broken: str) -> None:
    lines = lines_at(columns, "backends", "--load")
    # What to type is to be copied, and not wrapped.
    table = [line for line in lines if not re.match(r"\w+: |.*ENGINEBAY_BACKENDS=", line)]
    assert max(map(len, table)) <= columns
    words = {word for line in lines for word in line.split()}
    assert words >= {"temporary-loopback", "installed", *REASON.split()}


@pytest.mark.parametrize("columns", range(26, 50))
def test_a_number_and_its_unit_are_not_separated(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    cells = ("a name of some words", "1,240 µs", "3.5× (3.4–3.6)")
    print_table(("NAME", "TIME", "SPEED"), [cells], right=("TIME", "SPEED"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, map(str.rstrip, lines))) <= columns
    assert [line for line in lines if "1,240 µs" in line]
    assert [line for line in lines if "3.5× (3.4–3.6)" in line]


def test_a_table_is_as_wide_as_it_needs_to_be(broken: str) -> None:
    (row,) = [line for line in lines_at(250, "backends", "--load") if line.startswith("broken  ")]
    assert row.endswith(f"raised OSError: {REASON}")


def test_rows_that_are_too_wide_are_printed_as_fields(broken: str) -> None:
    text = "\n".join(lines_at(40, "backends", "--load"))
    assert "\nname          loopback\nstate         installed\ndistribution  " in text
    assert "/usr/lib/python3.11/site-packages/mine" in text


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_digest_is_whole_or_ends_in_dots(columns: int, cli: Run, here: Path) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "out").code == 0
    manifest = cli("inspect", "out", "--json").document["manifest"]
    (row,) = [line for line in lines_at(columns, "inspect", "out") if line.startswith("model.onnx")]
    (digest,) = [file["sha256"] for file in manifest["files"] if file["path"] == "model.onnx"]
    shown = row.split()[-1]
    assert shown == digest or (len(shown) > 12 and digest.startswith(shown.removesuffix("…")))
    assert (shown == digest) == (columns == 100)
    assert digest in cli("inspect", "out").out


def test_fields_are_wrapped_but_commands_are_not(cli: Run, here: Path) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "out").code == 0
    lines = lines_at(50, "inspect", "out")
    manifest = cli("inspect", "out", "--json").document["manifest"]
    assert f"command   {manifest['command']}" in lines
    start = lines.index("verdict   recorded: unverified: converted without")
    assert lines[start + 1].startswith(" " * 10 + "a reference to compare with;")


def test_numbers_are_aligned_to_the_right_everywhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = (("NAME", "SIZE", "NOTE"), [("a", "1.5", "short"), ("bcd", "20.25", "[bold]\x1b[2J")])
    expected = ["NAME   SIZE  NOTE", r"a       1.5  short", r"bcd   20.25  [bold]\x1b[2J"]
    print_table(*table, right=("SIZE",))
    assert capsys.readouterr().out.splitlines() == expected
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True)
        patch.setenv("NO_COLOR", "1")
        print_table(*table, right=("SIZE",))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == expected


def test_an_empty_table_prints_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "STATE"), [])
    assert capsys.readouterr().out == "NAME  STATE\n"


def test_colours_can_be_forced(cli: Run, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cli("backends", "--load").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    coloured = cli("backends", "--load").out
    assert coloured.startswith("\x1b[1mNAME")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli("backends", "--load").out == plain


def test_an_ascii_stdout_escapes_other_characters(here: Path, loopback: str, cli: Run) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "out").code == 0
    # As under LC_ALL=C, where this folder's own name may be no text, though.
    ascii_only = {"PYTHONIOENCODING": "ascii:surrogateescape"}
    done = subprocess.run(
        command("run", "out", "--input", "x=1x3x4x4"),
        capture_output=True,
        check=False,
        env=environment(**ascii_only),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    code, seen = terminal("inspect", "out", COLUMNS="60", **ascii_only)
    assert code == 0
    assert seen.isascii()


def test_a_reader_of_coloured_rows_may_leave_early(here: Path, loopback: str) -> None:
    line = " ".join(command("rewriters", "--backend", "loopback"))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} | head -1"],
        capture_output=True,
        check=False,
        env=environment(FORCE_COLOR="1", TERM="xterm"),
    )
    assert done.stderr == b""
    assert done.stdout.startswith(b"\x1b[1mKIND")


def test_results_print_as_their_commands_do_and_are_their_documents(cli: Run, here: Path) -> None:
    def unclocked(text: str) -> str:
        return re.sub(r" +\d+\.\d+", " N", text)

    options = {"backend": "loopback", "work_dir": "out", "overwrite": True}
    deployment = eb.deploy("net.py:build", **options)  # type: ignore[arg-type]  # a dict of several types
    words = ("net.py:build", "--backend", "loopback", "--work-dir", "out", "--overwrite")
    ran, document = cli("deploy", *words), cli("deploy", *words, "--json").document
    assert unclocked(ran.out).startswith(f"{unclocked(str(deployment))}\n\nNext:\n")
    assert deployment.to_dict().keys() == document.keys()
    assert deployment.to_dict()["rewriting"] == document["rewriting"]

    assert f"{eb.verify('out')}\n" == cli("verify", "out").out
    document = cli("verify", "out", "--json").document
    assert document | eb.verify("out").to_dict() == document


def test_long_work_prints_its_step_regularly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lines(io.StringIO):
        def write(self, text: str) -> int:
            told.set()
            return super().write(text)

    told = threading.Event()
    monkeypatch.setattr("sys.stderr", Lines())
    monkeypatch.setattr("enginebay.cli.progress._INTERVAL_SECONDS", 0.01)
    before = threading.active_count()
    with progress() as watch, Steps(watch)("convert") as set_detail:
        set_detail("calibrating on 300 items")
        assert told.wait(60)
    line = sys.stderr.getvalue().splitlines()[0]  # type: ignore[attr-defined]  # it is Lines
    assert re.fullmatch(r"… convert, \d+ s so far(  calibrating on 300 items)?", line)
    assert threading.active_count() == before


BRANCHING = """
import logging

import torch

import enginebay as eb

logging.getLogger("enginebay.mine").info("a note")
mine = eb.RewriterSet()


@mine.function("torch.Tensor.relu")
def clamped(ctx, x):
    return x.clamp(min=0)


class Net(torch.nn.Module):
    def forward(self, x):
        return (x + 1 if x.sum().item() > 0 else x).relu()


def build():
    return Net(), torch.ones(2, 4)
"""


def test_verbose_shows_what_happened(here: Path, loopback: str) -> None:
    (here / "branching.py").write_text(BRANCHING)
    options = ("--rewriters", "branching.py:mine", "--allow-mismatch", "--overwrite")
    words = command("deploy", "branching.py:build", "--backend", "loopback", *options, "--json")
    quiet, ran = (
        subprocess.run(line, capture_output=True, text=True, check=True, env=environment())
        for line in (words, [*words, "-v"])
    )
    assert json.loads(ran.stdout)["kind"] == json.loads(quiet.stdout)["kind"] == "deployment"
    assert "enginebay." not in quiet.stderr
    lines = [line for line in ran.stderr.splitlines() if line.startswith("enginebay.")]
    for expected in (
        rf"enginebay\.versions: Python 3\..*, enginebay {eb.__version__}, torch 2\..*, numpy .*",
        r"enginebay\.mine: a note",
        r"enginebay\.exporters: the default exporter failed: \w+: .+ \(\S*branching\.py:\d+\)",
        r"enginebay\.rewriting: rewriters for torchscript: \d+ × torch\.Tensor\.relu",
        r"enginebay\.exporters: onnx by torch\.onnx torchscript, opset \d+: model\.onnx \(\d+ B\)",
        r"enginebay\.backend: loopback \S+ wrote model\.onnx \(\d+ B\)",
        r"enginebay\.steps: verify took \d+\.\d\d s",
    ):
        assert any(re.fullmatch(expected, line) for line in lines), (expected, ran.stderr)


def test_verbose_names_the_failure_of_a_step_and_draws_no_lines_again(
    here: Path, loopback: str
) -> None:
    (here / "broken.py").write_text("from net import *\n\ndef bad():\n    return Net(), 'no'\n")
    words = ("deploy", "broken.py:bad", "--backend", "loopback", "-v")
    code, seen = terminal(*words, NO_COLOR="1")
    assert code
    assert "\x1b" not in seen
    assert re.search(r"enginebay\.steps: reference failed: \w+Error: ", seen)


def test_the_log_of_a_child_process_is_shown(here: Path, loopback: str) -> None:
    take = "import enginebay as eb; from enginebay.authors.isolation import call; "
    call = f"{take}call('chatty:speak', timeout=60, result_type=str)"
    speak = "logging.getLogger('enginebay.engine').debug('loaded'); print('ready'); return ''"
    (here / "chatty.py").write_text(f"import logging\n\ndef speak():\n    {speak}\n")
    show = "import logging; logging.basicConfig(level='DEBUG', format='%(message)s'); "
    for more, shown in (
        ("", ""),
        (show, "'chatty:speak': enginebay.engine: loaded\n'chatty:speak': ready\n"),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", more + call],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
        )
        assert (ran.stdout, ran.stderr) == ("", shown)


def test_colours_do_not_move_the_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "24")  # what the words need, and no room for a colour's codes
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(("STATE", "ERROR"), [("verified", "0.1")], right=("ERROR",))
    printed = capsys.readouterr().out
    assert "\x1b[32mverified" in printed
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", printed).splitlines()]
    assert lines == ["STATE     ERROR", "verified    0.1"]
