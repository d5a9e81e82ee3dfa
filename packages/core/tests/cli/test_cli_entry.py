"""Before any work: help, usage, exit codes, documents, and what is not imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import enginebay
from enginebay.cli import COMMANDS
from enginebay.testing import temporary_backend
from enginebay.testing.commands import command, environment

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run


def test_without_a_command_the_help_is_shown_and_it_is_a_usage_error(cli: Run) -> None:
    ran = cli()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == cli("-h").out


def test_the_help_names_every_command_and_exit_code(cli: Run) -> None:
    code, text, err = cli("--help")
    assert (code, err) == (0, "")
    assert text.startswith("usage: enginebay COMMAND ...\n")
    for name, what in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(what)}$", text, re.MULTILINE)
    assert "0 ok, 1 the operation failed, 2 usage, 3 backend unavailable, 130 interrupted" in text
    assert max(map(len, text.splitlines())) <= 92


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_has_the_common_flags(cli: Run, name: str) -> None:
    code, text, err = cli(name, "-h")
    assert (code, err) == (0, "")
    assert text.startswith(f"usage: enginebay {name}")
    assert len(text.partition("\n\n")[0].splitlines()) == 1, "the usage is one line"
    assert "--json" in text
    assert "--traceback" in text
    for line in text.splitlines():
        flag = line.strip().partition(" ")[0]
        if line.startswith("  --"):
            start = text.index(line)
            assert len(text[start:].split("\n  -")[0].split()) > 1, f"{flag} is not explained"


def test_a_backends_flags_stand_under_a_heading_of_their_own(cli: Run) -> None:
    for words in (("deploy", "-h"), ("convert", "loopback", "-h")):
        _, _, own = cli(*words).out.partition("parameters of loopback:\n")
        assert "  --gain GAIN" in own
        assert "Multiplies every floating-point output" in own
        assert "--work-dir" not in own, "it is the command's"
    assert "--gain" not in cli("convert", "-h").out


def test_help_is_there_although_the_backend_is_not(cli: Run) -> None:
    ran = cli("deploy", "--backend", "lopback", "-h")
    assert (ran.code, ran.err) == (0, "")
    told = " ".join(ran.out.split())
    assert "The parameters of 'lopback' are not shown: no backend 'lopback' is installed" in told
    assert "Hint: did you mean 'loopback'?" in told


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            "deply m.onnx",
            f"'deply' is not a command; wanted one of {', '.join(COMMANDS)}",
            "did you mean 'enginebay deploy'?",
        ),
        (
            "--verbose backends",
            f"'--verbose' is not a command; wanted one of {', '.join(COMMANDS)}",
            "enginebay -h",
        ),
        ("deploy", "the following arguments are required: MODEL", "enginebay deploy -h"),
        ("convert loopback", "the following arguments are required: IR", "enginebay convert -h"),
        ("convert", "the following arguments are required: NAME, IR", "enginebay convert -h"),
        (
            "deploy m.onnx --qqq",
            "'--qqq' is not among the arguments of enginebay deploy",
            "enginebay deploy -h",
        ),
        (
            "deploy m.onnx --gian 2",
            "'--gian 2' is not among the arguments of enginebay deploy",
            "did you mean --gain?",
        ),
        (
            "deploy m.onnx --gai 2",
            "'--gai 2' is not among the arguments of enginebay deploy",
            "did you mean --gain?",
        ),
        ("run a b", "'b' is not among the arguments of enginebay run", "enginebay run -h"),
        (
            "deploy m.onnx --gain x",
            "argument --gain: 'x' does not fit LoopbackParams.gain: wanted float",
            "enginebay deploy -h",
        ),
        ("run", "the following arguments are required: ARTIFACT", "enginebay run -h"),
        (
            "verify out --input x=1x2",
            "--input brings inputs, but no outputs to compare with",
            "add --model MODEL, or leave --input out",
        ),
        (
            "run out --output y",
            "'y' cannot keep the outputs: wanted a .npz file",
            "--output y.npz",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_and_a_hint(
    cli: Run, words: str, error: str, hint: str
) -> None:
    ran = cli(*words.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {error}\nhint: {hint}\n"
    ran = cli(*words.split(), "--json")
    assert ran.code == 2
    assert ran.document["error"] == {"type": "UsageError", "message": error, "hint": hint}


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            "deploy m.onnx --backend lopback",
            "no backend 'lopback' is installed; there is loopback",
            "did you mean 'loopback'?",
        ),
        (
            "convert ncn m.onnx",
            "no backend 'ncn' is installed; there is loopback",
            "did you mean 'ncnn'? pip install enginebay-ncnn",
        ),
        (
            "check-env lopback",
            None,
            None,
        ),
    ],
)
def test_a_backend_that_is_not_there_is_exit_code_3(
    cli: Run, words: str, error: str | None, hint: str | None
) -> None:
    ran = cli(*words.split())
    assert ran.code == 3
    if error:
        assert (ran.out, ran.err) == ("", f"error: {error}\nhint: {hint}\n")
    document = cli(*words.split(), "--json").document
    if error:
        error_type = document["error"].pop("type")
        assert error_type == "BackendNotFoundError"
        assert document["error"] == {"message": error, "hint": hint}


def test_the_backend_is_found_wherever_it_stands(cli: Run) -> None:
    for words in (
        ("deploy", "--backend", "loopback", "--gain", "1", "missing.onnx"),
        ("deploy", "missing.onnx", "--gain", "1", "--backend=loopback"),
        ("convert", "loopback", "missing.onnx", "--gain", "1"),
        ("convert", "--gain", "1", "loopback", "missing.onnx"),
        ("convert", "--work-dir", "out", "--gain", "1", "loopback", "missing.onnx"),
    ):
        ran = cli(*words)
        assert ran.code == 2, words
        assert ran.err.startswith("error: no file '"), words
        assert ran.err.endswith("missing.onnx'\n"), words


def test_the_traceback_shows_the_whole_chain(cli: Run, here: Path) -> None:
    (here / "broken.py").write_text("import no_such_thing_here\n")
    ran = cli("deploy", "broken.py:x", "--traceback")
    assert ran.code == 2
    assert "ModuleNotFoundError: No module named 'no_such_thing_here'" in ran.err
    assert "The above exception was the direct cause" in ran.err
    last = "error: importing 'broken.py' raised ModuleNotFoundError: "
    assert ran.err.splitlines()[-1].startswith(last)
    assert "Traceback" not in cli("deploy", "broken.py:x").err


def test_backends_lists_what_is_there_and_what_is_wrong_with_it(cli: Run) -> None:
    with temporary_backend("loopback", "raise RuntimeError('never imported')", distribution="b"):
        code, text, err = cli("backends")
    assert code == 0
    lines = text.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "DISTRIBUTION", "REASON"]
    assert [line.split()[:2] for line in lines[1:] if "loopback" in line.split()[0]] == [
        ["loopback", "duplicate"],
        ["loopback", "duplicate"],
    ]
    assert "loopback: " in err
    document = cli("backends", "--json").document
    (found,) = [one for one in document["backends"] if one["name"] == "loopback"]
    assert found["state"] == "installed"
    assert found["distribution"] == "temporary-loopback"


def test_check_env_of_a_green_backend(cli: Run) -> None:
    code, text, _ = cli("check-env", "loopback")
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == "loopback: ok"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["metadata", "ok"],
        ["import", "ok"],
        ["smoke", "ok"],
    ] or [line.split()[1] for line in lines[1:]] == ["ok"] * (len(lines) - 1)


def test_check_env_of_a_broken_backend_is_exit_code_3_only_where_it_is_named(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback,sick")
    with temporary_backend("sick", "raise RuntimeError('a cold')"):
        named = cli("check-env", "sick")
        everything = cli("check-env", "--json")
    assert named.code == 3
    assert named.out.startswith("sick: NOT OK\n  ")
    assert "RuntimeError: a cold" in named.out
    assert "\n  fix: " in named.out
    assert everything.code == 0
    states = {one["name"]: one["ok"] for one in everything.document["backends"]}
    assert (states["loopback"], states["sick"]) == (True, False)


def test_nothing_is_installed(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from enginebay.plugins import discovery

    monkeypatch.setattr(discovery, "distributions", list)  # an environment with no plugin at all
    for name in ("backends", "check-env"):
        ran = cli(name)
        assert (ran.code, ran.out) == (0, "")
        assert ran.err == (
            "No backend is installed. hint: pip install 'enginebay-onnxruntime[cpu]'\n"
        )
        assert cli(name, "--json").document == {"schema": 1, "backends": []}


LEAN = """
import json, sys
before = set(sys.modules)
from enginebay.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted({name.partition(".")[0] for name in set(sys.modules) - before})]))
"""
HEAVY = {"torch", "numpy", "onnx", "msgspec", "pluggy", "rich", "onnxruntime", "onnxscript"}


def imported_by(*words: str, **env: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LEAN, *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment(**env),
    )
    code, names = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return set(names)


def test_the_version_imports_next_to_nothing() -> None:
    found = imported_by("--version")
    assert not found & (HEAVY | {"argparse", "importlib_metadata", "json", "signal", "pathlib"})


def test_listing_backends_imports_no_plugin_and_nothing_heavy(loopback: str) -> None:
    with temporary_backend("trap", "raise SystemExit('imported')"):
        found = imported_by("backends")
    assert not found & HEAVY
    assert not [name for name in found if name.startswith(("enginebay_", "temporary_"))]
    assert not imported_by("--help") & (HEAVY | {"importlib_metadata"})


def test_inspecting_an_artifact_imports_no_engine_and_no_torch(cli: Run, here: Path) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "tiny").code == 0
    assert not imported_by("inspect", "tiny") & {"torch", "onnx", "onnxruntime", "numpy"}


def test_the_version(cli: Run) -> None:
    assert cli("--version") == (0, f"enginebay {enginebay.__version__}\n", "")
    done = subprocess.run(
        command("--version"), capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout == f"enginebay {enginebay.__version__}\n"
