"""Errors in Python carry their hint as a note, with arguments instead of flags."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import traceback
from pathlib import Path

import msgspec
import pytest

import enginebay as eb
from enginebay.errors import Hint, UsageError, argument, next_command
from enginebay.errors.hints import _ARGUMENTS, _OPTION_CLASSES, translate_hint
from enginebay_testing.command_runs import command, environment

SOURCE = Path(eb.__file__).parent


@pytest.mark.parametrize(
    ("hint", "python"),
    [
        ("did you mean 'image'?", "did you mean 'image'?"),
        ("--rtol 0.01", "rtol=0.01"),
        ("--timeout 3600", "timeout=3600"),
        ("--work-dir FOLDER", "work_dir=FOLDER"),
        ('--work-dir "my models/a"', 'work_dir="my models/a"'),
        ("choose another --work-dir", "choose another work_dir"),
        ("pass --overwrite, or another file name", "pass overwrite=True, or another file name"),
        ("--device cpu", 'device="cpu"'),
        ("--precision fp16", 'precision="fp16"'),
        ("leave --dla-core out", "leave dla_core out"),
        (
            "for fp32, leave out both --int8-keep and --precision",
            "for fp32, leave out both int8_keep and precision",
        ),
        (
            "--min-shapes x:1x3 --max-shapes x:8x3",
            'params={"min_shapes": "x:1x3", "max_shapes": "x:8x3"}',
        ),
        ('--profiles "x:1x3 / x:4x3"', 'params={"profiles": "x:1x3 / x:4x3"}'),
        (
            "write --compare boxes,scores,labels=detections",
            'write eb.VerifyOptions(compare={"boxes,scores,labels": "detections"})',
        ),
        (
            "--compare NAME=set --compare OTHER=set",
            'eb.VerifyOptions(compare={"NAME": "set", "OTHER": "set"})',
        ),
        ("pass --input x=1x3, or a model", 'pass args={"x": …}, or a model'),
        ("pass --allow-env if you trust it", "pass environment=os.environ if you trust it"),
        (
            "--data FILE.npz: numpy.savez('data.npz', x=inputs)",
            "data=\"FILE.npz\": numpy.savez('data.npz', x=inputs)",
        ),
        ("pip install -U --no-deps engine", "pip install -U --no-deps engine"),
        (
            "enginebay check-env ncnn --device cpu; --strict",
            "enginebay check-env ncnn --device cpu; strict=True",
        ),
    ],
)
def test_flags_become_arguments(hint: str, python: str) -> None:
    assert translate_hint(hint) == python


@pytest.mark.parametrize(
    ("hint", "flags", "python"),
    [
        (Hint("{}", argument("metrics", "accuracy")), "--metric accuracy", 'metrics="accuracy"'),
        (Hint("add {}, or", argument("resume", True)), "add --resume, or", "add resume=True, or"),
        (
            Hint("name it: {}", argument("output", "ROWS")),
            "name it: --output ROWS",
            "name it: output=ROWS",
        ),
        (
            Hint("increase {}, or pass other --data", argument("max_drop")),
            "increase --max-drop, or pass other --data",
            "increase max_drop, or pass other data",
        ),
        (
            Hint("{} needs --custom-ops a.so", argument("against", "pytorch")),
            "--against pytorch needs --custom-ops a.so",
            'against="pytorch" needs params={"custom_ops": "a.so"}',
        ),
    ],
)
def test_options_that_are_data_have_both_forms(hint: Hint, flags: str, python: str) -> None:
    assert (hint.text, hint.python) == (flags, python)


def test_a_hint_has_an_option_for_each_place() -> None:
    with pytest.raises(ValueError, match="zip"):
        Hint("leave out {} and {}", argument("strict"))


def test_names_in_plain_text_are_those_of_core() -> None:
    functions = (eb.deploy, eb.export, eb.convert, eb.load, eb.verify, eb.DataSet)
    known = {name for each in functions for name in inspect.signature(each).parameters}
    assert known | {*eb.VerifyOptions.__struct_fields__} >= _ARGUMENTS
    for name, owner in _OPTION_CLASSES.items():
        assert name in getattr(eb, owner.removeprefix("eb.")).__struct_fields__


@pytest.mark.parametrize("options", [eb.ExportOptions, eb.VerifyOptions])
def test_options_are_not_taken_for_parameters_of_a_backend(options: type[eb.ExportOptions]) -> None:
    for name in options.__struct_fields__:
        assert not translate_hint(f"--{name.replace('_', '-')} 0.5").startswith("params=")


def test_hints_of_core_have_no_flags_in_python() -> None:
    """Hints of the command line may contain flags: only the command line shows them."""
    texts = [
        text
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "cli"
        for text in collect_hints(path)
        if "--" in text
    ]
    assert len(texts) > 20
    for text in texts:
        without_commands = re.sub(r"\b(enginebay|pip|wsl) [^,;]*", "", translate_hint(text))
        assert "--" not in without_commands, text


def collect_hints(path: Path) -> list[str]:
    """Return the texts that a file passes as hints, with X for each inserted value."""
    keywords = (
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.keyword)
    )
    found = []
    for keyword in keywords:
        if keyword.arg == "hint" and isinstance(keyword.value, ast.Constant | ast.JoinedStr):
            parts = getattr(keyword.value, "values", [keyword.value])
            found.append("".join(str(getattr(part, "value", "X")) for part in parts if part))
    return [re.sub(r"<ast[^>]*>", "X", text) for text in found]


def test_note_is_updated_with_the_hint() -> None:
    error = UsageError("no drop", hint=Hint("{}", argument("max_drop", 0.01)))
    assert error.hint == "--max-drop 0.01"
    assert error.__notes__ == ["hint: max_drop=0.01"]
    error.add_note("another")
    error.hint = "--device cpu"
    assert error.__notes__ == ["another", 'hint: device="cpu"']
    error.hint = None
    assert error.__notes__ == ["another"]
    assert not hasattr(UsageError("bare"), "__notes__")


def test_uncaught_error_ends_with_its_hint(tmp_path: Path) -> None:
    error = eb.EnginebayError("it is there", hint="--overwrite")
    last = "".join(traceback.format_exception(error)).splitlines()[-2:]
    assert last == ["enginebay.errors.EnginebayError: it is there", "hint: overwrite=True"]
    ran = subprocess.run(
        [*command("run"), "nowhere", "--traceback", "--devise", "cpu"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr.count("hint: ") == 1, "the command line's own"


def test_an_error_has_the_text_of_a_hint_and_passes_on_both_forms() -> None:
    error = UsageError("no drop", hint=Hint("{}", argument("max_drop", 0.01)))
    assert msgspec.json.encode(error.hint) == b'"--max-drop 0.01"'
    other = UsageError("item 3: no drop", hint=error.full_hint)
    assert (other.hint, other.__notes__) == ("--max-drop 0.01", ["hint: max_drop=0.01"])


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (None, []),
        ("did you mean 'enginebay deploy'?", []),
        ("--overwrite, or choose another --work-dir", []),
        ("pip install 'onnx>=1.21,<2'", ["pip", "install", "onnx>=1.21,<2"]),
        ("did you mean 'ncnn'? pip install enginebay-ncnn", ["pip", "install", "enginebay-ncnn"]),
        ("pip install 'a b/core[export]', or leave it", ["pip", "install", "a b/core[export]"]),
        ("name it: enginebay verify out --model MODEL", []),
        ("enginebay verify out --input x=SHAPE, or enginebay inspect out", "enginebay inspect out"),
        ("enginebay deploy net.py:build; or wait", "enginebay deploy net.py:build"),
        ("pip uninstall -y a b && pip install a  # or b", []),
        ("cd /models && enginebay deploy net.py:build", []),
        ("enginebay check-env ncnn  # without --with-custom-ops", "enginebay check-env ncnn"),
        ("it isn't there: enginebay backends", "enginebay backends"),
        (
            "again: enginebay verify 'it'\"'\"'s' --json, and then: enginebay bisect 'it'\"'\"'s'",
            ["enginebay", "verify", "it's", "--json"],
        ),
        ("name its subfolders: enginebay report out/*/", []),
        ("upgrade enginebay and the plugin's package", []),
        ("/usr/bin/enginebay is not the program", []),
    ],
)
def test_the_first_command_that_can_be_typed_comes_next(hint: str | None, words: object) -> None:
    assert next_command(hint) == (words.split() if isinstance(words, str) else words)
