"""Completion scripts: the words that the shells offer."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

#: Calls the script's function as bash does when the last word is to be completed.
ASK = """\
source completion.bash
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shtab_enginebay
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("enginebay de", {"deploy"}),
        ("enginebay deploy --backend loop", {"loopback"}),
        ("enginebay deploy --allow-", {"--allow-env", "--allow-mismatch", "--allow-unverified"}),
        ("enginebay deploy --ga", {"--gain"}),
        ("enginebay check-env l", {"loopback"}),
        ("enginebay inspect ti", {"tiny.onnx"}),
        ("enginebay completion b", {"bash"}),
    ],
)
def test_bash_completes_valid_words(cli: Run, here: Path, line: str, offered: set[str]) -> None:
    (here / "completion.bash").write_text(cli("completion", "bash").out)
    done = subprocess.run(
        ["bash", "-c", ASK, "-", *line.split()], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == offered
    assert done.stderr == ""


FISH = [
    ("enginebay de", {"deploy"}),
    ("enginebay deploy --backend loop", {"loopback"}),
    ("enginebay deploy --allow-", {"--allow-env", "--allow-mismatch", "--allow-unverified"}),
    ("enginebay deploy --ga", {"--gain"}),
    ("enginebay deploy --ir to", {"torchscript"}),
    ("enginebay check-env l", {"loopback"}),
    ("enginebay inspect ti", {"tiny.onnx"}),
    ("enginebay run --output ti", {"tiny.onnx"}),
    ("enginebay completion f", {"fish"}),
    ("enginebay backends ti", set()),
]


def test_fish_completes_valid_words(cli: Run, here: Path) -> None:
    script = cli("completion", "fish").out
    assert re.search(r"^complete -c enginebay -n .*deploy.* -l gain ", script, re.MULTILINE)
    if not (fish := shutil.which("fish")):
        return
    (here / "script.fish").write_text(script)
    for line, offered in FISH:
        done = subprocess.run(
            [fish, "--no-config", "-c", f"source script.fish; complete -C '{line}'"],
            capture_output=True,
            text=True,
            check=True,
        )
        found = {row.partition("\t")[0] for row in done.stdout.splitlines()}
        assert (found, done.stderr) == (offered, ""), line


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_scripts_of_other_shells_complete(cli: Run, here: Path, shell: str) -> None:
    ran = cli("completion", shell)
    assert "allow-mismatch" in ran.out
    if program := shutil.which(shell):
        (here / "script").write_text(ran.out)
        subprocess.run([program, "-f", *(["-n"] if shell == "zsh" else []), "script"], check=True)


def test_the_script_as_json(cli: Run) -> None:
    document = cli("completion", "bash", "--json").document
    assert document["shell"] == "bash"
    assert "_shtab_enginebay" in document["script"]


def test_a_broken_backend_does_not_stop_completion(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "")
    ran = cli("completion", "bash")
    assert (ran.code, ran.err) == (0, "")
    assert "--allow-mismatch" in ran.out


def test_an_unknown_shell_is_an_error_with_the_known_shells(cli: Run) -> None:
    ran = cli("completion", "elvish")
    assert ran.code == 2
    assert "'elvish'" in ran.err
    assert "'bash', 'zsh', 'fish', 'tcsh'" in ran.err
