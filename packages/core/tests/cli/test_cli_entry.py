"""The command line without any work: help, usage errors, exit codes, JSON, and imports."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import enginebay
from enginebay.authors import forget_plugins
from enginebay.cli import command_parser
from enginebay.cli.installed_commands import (
    OWN,
    all_commands,
    import_command,
    module_of,
    read_summary,
)
from enginebay.environment import install_command
from enginebay.errors import next_command
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import command as command_line, environment

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
    for name in OWN:
        what = read_summary(module_of(name))
        assert what
        assert re.search(rf"^  {name} +{re.escape(what)}$", text, re.MULTILINE)
    assert "0 ok, 1 failed, 2 usage, 3 backend or command unavailable, 130 interrupted" in text
    assert max(map(len, text.splitlines())) <= 92


@pytest.mark.parametrize("name", OWN)
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


def test_a_backends_flags_have_a_separate_heading(cli: Run) -> None:
    for words in (("deploy", "--help-all"), ("convert", "loopback", "-h")):
        _, _, own = cli(*words).out.partition("parameters of loopback:\n")
        own, _, _ = own.partition("\nexamples:\n")
        assert "  --gain GAIN" in own
        assert "Factor of every floating-point output" in own
        assert "--work-dir" not in own, "it is the command's"
    assert "--gain" not in cli("convert", "-h").out


def test_a_short_help_fits_one_screen_and_names_real_flags(cli: Run) -> None:
    for name in ("deploy", "export"):
        shown, everything = cli(name, "-h").out, cli(name, "--help-all").out
        assert shown == cli("help", name).out == cli(name, "--backend", "none", "--help").out
        assert shown.count("\n") <= 40
        assert max(map(len, shown.splitlines())) <= 100
        assert everything.count("\n") > 1.5 * shown.count("\n")
        flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown))
        listed = {word.strip(",") for word in everything.split()}
        assert flags - {"--precision", "--device"} <= listed, "loopback has none of the two"


def test_every_command_has_examples_that_can_be_typed(loopback: str) -> None:
    for name in OWN:
        module = import_command(name)
        for line in module.EXAMPLES:
            words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"'))
            assert words[:2] == ["enginebay", name]
            assert len(line) <= 90
            argv = [each.replace("{backend}", loopback) for each in words[2:]]
            command_parser(name, module, argv).parse_args(argv)


def test_the_help_command(cli: Run) -> None:
    assert cli("help").out == cli("-h").out
    shown = cli("help", "verify")
    assert (shown.code, shown.out) == (0, cli("verify", "-h").out)
    examples = shown.out.partition("\nexamples:\n")[2].splitlines()
    assert examples == [f"  {line}" for line in import_command("verify").EXAMPLES]
    wrong = cli("help", "verfy")
    assert (wrong.code, wrong.err.splitlines()[-1]) == (2, "hint: did you mean 'enginebay verify'?")


def test_the_short_flag_of_the_version(cli: Run) -> None:
    assert cli("-V").out == cli("--version").out


def test_help_works_without_the_backend(cli: Run) -> None:
    ran = cli("deploy", "--backend", "lopback", "--help-all")
    assert (ran.code, ran.err) == (0, "")
    text = " ".join(ran.out.split())
    assert "The parameters of 'lopback' are not shown: no backend 'lopback' is installed" in text
    assert "Hint: did you mean 'loopback'?" in text


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            "deply m.onnx",
            f"'deply' is not a command; available: {', '.join(all_commands())}",
            "did you mean 'enginebay deploy'?",
        ),
        (
            "--verbose backends",
            f"'--verbose' is not a command; available: {', '.join(all_commands())}",
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
        *(
            (
                f"deploy m.onnx {words}",
                f"'{words}' is not among the arguments of enginebay deploy",
                hint,
            )
            for words, hint in (
                ("-b ncnn", "--backend NAME"),
                ("--half", "--precision fp16, or int8 with --data DATA"),
                ("--imgsz 224", "--input NAME=1x3xHEIGHTxWIDTH"),
            )
        ),
        ("run a b", "'b' is not among the arguments of enginebay run", "enginebay run -h"),
        (
            "deploy m.onnx --gain x",
            "argument --gain: 'x' does not fit LoopbackParams.gain: expected float",
            "enginebay deploy -h",
        ),
        ("run", "the following arguments are required: ARTIFACT", "enginebay run -h"),
        (
            "verify out --input x=1x2",
            "--input requires --model, to compute the expected outputs",
            "add --model MODEL, or remove --input",
        ),
        (
            "run out --output y",
            "expected a .npz file for the outputs, found 'y'",
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
    found = ran.document["error"]
    assert found.pop("next") == (hint.split() if hint.endswith(" -h") else [])
    assert found == {"type": "UsageError", "message": error, "hint": hint}


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            "deploy m.onnx --backend lopback",
            "no backend 'lopback' is installed; installed: loopback",
            "did you mean 'loopback'?",
        ),
        (
            "convert ncn m.onnx",
            "no backend 'ncn' is installed; installed: loopback",
            f"did you mean 'ncnn'? {install_command('enginebay-ncnn')}",
        ),
        (
            "check-env lopback",
            None,
            None,
        ),
    ],
)
def test_a_missing_backend_is_exit_code_3(
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
        following = shlex.split(install_command("enginebay-ncnn")) if "ncnn'?" in str(hint) else []
        assert document["error"].pop("next") == following
        assert document["error"] == {"message": error, "hint": hint}


def test_the_backend_is_found_at_any_position(cli: Run) -> None:
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
    (here / "broken.py").write_text("import no_such_thing_here\nx = 1\n")
    ran = cli("deploy", "broken.py:x", "--traceback")
    assert ran.code == 3
    assert "ModuleNotFoundError: No module named 'no_such_thing_here'" in ran.err
    assert "The above exception was the direct cause" in ran.err
    package = "no_such_thing_here"
    assert ran.err.splitlines()[-2:] == [
        f"error: importing 'broken.py' needs the package '{package}', which is not installed",
        f"hint: pip install {package}, or the package that provides it",
    ]
    assert "Traceback" not in cli("deploy", "broken.py:x").err


def test_backends_lists_installed_and_broken_plugins(cli: Run) -> None:
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


FAULTY = {
    "crash": (
        (
            "try:\n    int('no')\n"
            "except ValueError as err:\n    raise OSError('no libengine') from err\n"
        ),
        "raised OSError: no libengine",
        "report it to the authors of temporary-crash, or correct temporary_crash_",
    ),
    "old": (
        (
            "import enginebay as eb\n@eb.hookimpl\ndef backend_info():\n"
            "    return eb.BackendInfo(name='old', irs=('onnx',), api_version=0)\n"
        ),
        (
            f"the plugin requires API version 0, but enginebay {enginebay.__version__} has API "
            "version 1"
        ),
        "pip install -U temporary-old",
    ),
    "misspelt": (
        "import enginebay as eb\n@eb.hookimpl\ndef build_wraper(request): ...\n",
        "implements 'build_wraper', which is not a hook",
        "rename the function to build_wrapper",
    ),
}


@pytest.fixture
def admitted(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the backends of the tests below."""
    monkeypatch.setenv("ENGINEBAY_BACKENDS", ",".join(["loopback", "twin", *FAULTY]))


@pytest.mark.usefixtures("admitted")
@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("group", ["backends", "plugins"])
def test_load_shows_faults_that_metadata_hides(cli: Run, name: str, group: str) -> None:
    source, reason, fix = FAULTY[name]
    if (name, group) == ("old", "plugins"):
        # They have no API version.
        source, reason = "raise SystemExit(3)", "raised SystemExit(3)"
        fix = "report it to the authors of temporary-old, or correct temporary_old_"
    with temporary_backend(name, source, group=f"enginebay.{group}"):
        (listed,) = [s for s in cli("backends", "--json").document[group] if s["name"] == name]
        assert listed["state"] == "installed"
        ran = cli("backends", "--load")
        (found,) = [s for s in cli("backends", "--json").document[group] if s["name"] == name]
    assert ran.code == 0
    (row,) = [line for line in ran.out.splitlines() if line.startswith(name)]
    assert row.split()[:4] == [name, "broken", f"temporary-{name}", "0"]
    assert row.endswith(reason)
    (line,) = [line for line in ran.err.splitlines() if line.startswith(name)]
    assert line.startswith(f"{name}: {fix}")
    assert (found["state"], found["fix"][: len(fix)]) == ("broken", fix)


@pytest.mark.usefixtures("admitted")
def test_load_with_traceback_prints_the_causes(cli: Run) -> None:
    for group in ("backends", "plugins"):
        with temporary_backend("crash", FAULTY["crash"][0], group=f"enginebay.{group}"):
            said = cli("backends", "--load", "--traceback").err
        assert "ValueError: invalid literal" in said
        assert "OSError: no libengine" in said
        assert "\ncrash: report it to the authors of temporary-crash, or correct " in said


@pytest.mark.usefixtures("admitted")
@pytest.mark.parametrize("group", ["backends", "plugins"])
def test_strict_plugins_make_a_broken_plugin_an_error(
    cli: Run, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    kind = group.removesuffix("s")
    for source, words in (("no_such_package", ()), (FAULTY["crash"][0], ("--load",))):
        with temporary_backend("crash", source, group=f"enginebay.{group}"):
            ran = cli("backends", *words)
        assert (ran.code, ran.out) == (3, "")
        first, last = ran.err.splitlines()
        assert first.startswith(f"error: {kind} 'crash' of temporary-crash 0 cannot be used: ")
        assert first.endswith("; this is an error because ENGINEBAY_STRICT_PLUGINS is set")
        assert last.startswith(("hint: pip install ", "hint: report it to the authors of "))


@pytest.mark.parametrize(
    ("group", "source", "names"),
    [
        ("backends", "no_such_package", ["loopback"]),
        ("plugins", "no_such_package", ["loopback"]),
        ("plugins", FAULTY["crash"][0], ["loopback"]),
        ("backends", FAULTY["crash"][0], ["crash", "loopback"]),
        ("backends", FAULTY["crash"][0], []),
    ],
)
def test_a_broken_plugin_is_not_reported_under_another_backend(
    cli: Run, group: str, source: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "crash,loopback")
    with temporary_backend("crash", source, group=f"enginebay.{group}"):
        ran = cli("check-env", *names)
    assert (ran.code, ran.out) == (3, "")
    first, _ = ran.err.splitlines()
    assert first.startswith(f"error: {group[:-1]} 'crash' of temporary-crash 0 cannot be used: ")
    assert first.endswith("; this is an error because ENGINEBAY_STRICT_PLUGINS is set")


@pytest.mark.usefixtures("admitted")
def test_strict_plugins_still_list_a_disabled_backend(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "")
    ran = cli("check-env", "loopback")
    assert (ran.code, ran.out.splitlines()[0]) == (3, "loopback: NOT OK")


def test_a_broken_plugin_is_a_warning_of_one_line(cli: Run, here: Path) -> None:
    # In a process of its own: in this one pytest turns warnings into errors.
    with temporary_backend("pack", "raise ValueError('no')", group="enginebay.plugins"):
        done = subprocess.run(
            command_line("check-env", "loopback"),
            capture_output=True,
            text=True,
            check=False,
            env=environment(PYTHONWARNINGS=""),
        )
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: plugin 'pack' of temporary-pack 0 cannot be used: importing ")
    fix = "report it to the authors of temporary-pack, or correct temporary_pack_"
    assert f" raised ValueError: no; the plugin is not used. Fix: {fix}" in line


@pytest.mark.usefixtures("admitted")
def test_the_fix_of_a_duplicate_is_printed_once(cli: Run) -> None:
    with (
        temporary_backend("twin", "json", distribution="a"),
        temporary_backend("twin", "string", distribution="b"),
    ):
        ran = cli("backends")
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("twin")]
    assert [row[1:4] for row in rows] == [["duplicate", "b", "0"], ["duplicate", "a", "0"]]
    fix = "twin: name one: twin@a or twin@b, or pip uninstall a, or pip uninstall b"
    assert ran.err.splitlines().count(fix) == 1


def test_a_backend_is_chosen_by_its_distribution(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "")
    chosen = "loopback@temporary-loopback"
    words = ("deploy", "net.py:build", "--exporter", "torchscript", "--work-dir", "out")
    with temporary_backend("loopback", "json", distribution="stranger"):
        ran = cli(*words, "--backend", "loopback")
        assert ran.code == 3
        assert ran.err.splitlines()[-1] == (
            f"hint: name one: loopback@stranger or {chosen}, or pip uninstall stranger, "
            "or pip uninstall temporary-loopback"
        )
        ran = cli(*words, "--backend", chosen, "--gain", "1")
        assert ran.code == 0, ran.err
        assert cli("check-env", chosen).code == 0
        monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "")
        forget_plugins()
        assert cli("run", "out").code == 0  # by the backend that built the artifact


def test_check_env_imports_a_slow_plugin_once(cli: Run, here: Path) -> None:
    log = here / "log"
    source = (
        "import enginebay, os\n"
        f"with open({str(log)!r}, 'a') as log: log.write(f'{{os.getpid()}} ')\n"
        "@enginebay.hookimpl\n"
        "def rewriters(request): return enginebay.RewriterSet()\n"
    )
    with temporary_backend("slow", source, group="enginebay.plugins"):
        assert cli("check-env", "loopback").code == 0
    here_and_in_the_child = log.read_text().split()
    assert len(here_and_in_the_child) == len({*here_and_in_the_child}) == 2


def test_check_env_takes_the_parameters_of_one_backend(cli: Run) -> None:
    ran = cli("check-env", "loopback", "--gain", "1.5")
    assert ran.code == 3
    assert "build, run, compare: wrong by 1" in ran.out
    ran = cli("check-env", "loopback", "--gain", "high")
    assert ran.code == 2
    ran = cli("check-env", "--gain=1.5")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: '--gain=1.5' is not among the arguments of ")


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


def test_check_env_of_a_broken_backend_is_exit_code_3_only_by_name(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback,sick")
    with temporary_backend("sick", "raise RuntimeError('a cold')"):
        named = cli("check-env", "sick")
        document = cli("check-env", "sick", "--json").document
        everything = cli("check-env", "--json")
    assert named.code == 3
    assert named.out.startswith("sick: NOT OK\n  ")
    assert "RuntimeError: a cold" in named.out
    assert "\n  fix: " in named.out
    assert everything.code == 0
    states = {one["name"]: one["ok"] for one in everything.document["backends"]}
    assert (states["loopback"], states["sick"]) == (True, False)
    assert "fix" not in everything.document
    assert document["fix"] == document["backends"][0]["fix"]
    assert document["next"] == next_command(document["fix"])


def test_nothing_is_installed(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from enginebay.plugins import discovery

    monkeypatch.setattr(discovery, "entry_points", list)  # an environment with no plugin at all
    for name in ("backends", "check-env"):
        ran = cli(name)
        assert (ran.code, ran.out) == (0, "")
        assert ran.err == (
            f"No backend is installed. hint: {install_command('enginebay-onnxruntime[cpu]')}\n"
        )
        document = cli(name, "--json").document
        assert document.pop("plugins", []) == document.pop("commands", []) == []
        assert document == {"schema": 1, "backends": []}


LEAN = """
import json, sys
before = set(sys.modules)
from enginebay.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted({name.partition(".")[0] for name in set(sys.modules) - before})]))
"""
HEAVY = {"torch", "numpy", "onnx", "msgspec", "pluggy", "rich", "onnxruntime", "onnxscript"}


def imported_by(*words: str, code: int = 0, **env: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LEAN, *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment(**env),
    )
    found, names = json.loads(done.stdout.splitlines()[-1])
    assert found == code
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
    assert not imported_by("deploy", "-h") & (HEAVY | {"importlib_metadata", "argparse", "json"})


@pytest.mark.parametrize(
    "words",
    [
        ("net.py:biuld",),
        ("nett.py:build",),
        ("missing.onnx",),
        ("net.py:build", "--weights", "none.pt"),
        ("net.py:build", "--input", "x=1x3x"),
        ("net.py:Net",),
        ("net.py:build", "--exporter", "dynamoo"),
        ("net.py:build", "--devise", "cpu"),
    ],
)
def test_a_typo_is_refused_before_torch_is_imported(
    words: tuple[str, ...], here: Path, loopback: str
) -> None:
    assert "torch" not in imported_by("deploy", *words, "--backend", loopback, code=2)
    assert [file.name for file in here.iterdir() if file.is_dir()] == []


def test_inspecting_an_artifact_imports_no_engine_and_no_torch(cli: Run, here: Path) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "tiny").code == 0
    assert not imported_by("inspect", "tiny") & {"torch", "onnx", "onnxruntime", "numpy"}


def test_the_version(cli: Run) -> None:
    assert cli("--version") == (0, f"enginebay {enginebay.__version__}\n", "")
    done = subprocess.run(
        command_line("--version"), capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout == f"enginebay {enginebay.__version__}\n"


@pytest.mark.parametrize(
    ("columns", "widest"), [("50", 48), ("100", 98), ("0", 78), ("-5", 78), ("wide", 78), ("", 78)]
)
def test_the_help_fits_the_terminal(
    cli: Run, columns: str, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    # No terminal, whatever the tests are run in; its size is asked for if COLUMNS is no width.
    monkeypatch.setattr(sys, "__stdout__", None)
    flags = cli("run", "-h").out.partition("options:")[2].partition("examples:")[0]
    assert widest - 15 < max(map(len, flags.splitlines())) <= widest
