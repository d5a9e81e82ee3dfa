"""One word for one thing: the arguments of public functions, and the flags of commands."""

from __future__ import annotations

import importlib
import inspect
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay_testing.command_runs import call_command
from tests.command_lines import parser_of
from tests.house import PUBLIC_MODULES

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterator

#: Words for what already has a word.
INSTEAD = {
    **dict.fromkeys(
        ("seconds", "time_limit", "max_time"),
        "timeout for a limit whose end is an error, duration for a measurement",
    ),
    "metric": "metrics",
    "engine": "backend",
    "engines": "backends",
    **dict.fromkeys(("out", "out_dir", "output_dir", "outdir"), "output, or work_dir"),
    "force": "overwrite",
    **dict.fromkeys(("dataset", "data_set", "calibration", "calibration_data"), "data"),
    "batch": "batches",
    "parameters": "params",
}
#: Functions whose argument is a duration that was measured.
MEASURED = {"human_seconds", "passed", "failed"}
#: Sequences of one thing: what to keep in int8, the rows of one sweep.
SINGULAR = {"int8_keep", "baseline"}
#: Arguments without a flag of that name: objects of Python, and what several flags say together.
NO_FLAGS = {
    *("args", "watch", "command", "executor"),
    *("params", "export", "verify", "options"),
    "reuse",  # without --overwrite, the command does it
}
#: Flags with another word: eb.verify() also takes outputs as its reference.
OTHER_FLAGS = {("export", "path"): "output", ("verify", "reference"): "model"}
PACKAGES = ("enginebay_lab", "enginebay_vision", "enginebay_transformers")


def public_functions() -> Iterator[tuple[str, str, inspect.Signature]]:
    """Yield (module, name, signature) of each public function and each class of options."""
    modules = [*sorted(PUBLIC_MODULES), *(name for name in PACKAGES if find_spec(name))]
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            is_options = name.endswith(("Options", "Config", "Params")) or value is lab.Cell
            if inspect.isfunction(value) or (inspect.isclass(value) and is_options):
                yield module_name, name, inspect.signature(value)


FUNCTIONS = [pytest.param(*case, id=f"{case[0]}.{case[1]}") for case in public_functions()]


def flags_of(command: str) -> dict[str, Action]:
    """Return the actions of a command by the words of its flags."""
    # With the backend's parameters.
    parser = parser_of(command, ["onnxruntime"] if command == "convert" else [])
    return {
        word: action
        for action in parser._actions
        for word in [flag.lstrip("-").replace("-", "_") for flag in action.option_strings]
    }


def test_public_functions_were_found() -> None:
    assert {"deploy", "compare", "evaluate", "Cell", "VerifyOptions"} <= {
        str(case.values[1]) for case in FUNCTIONS
    }


@pytest.mark.parametrize(("module", "name", "signature"), FUNCTIONS)
def test_each_argument_has_the_word_of_its_concept(
    module: str, name: str, signature: inspect.Signature
) -> None:
    wrong = {word: INSTEAD[word] for word in signature.parameters if word in INSTEAD}
    assert not wrong or name in MEASURED, f"{module}.{name}"


@pytest.mark.parametrize(
    ("module", "name", "signature"),
    [case for case in FUNCTIONS if case.values[0] in ("enginebay", *PACKAGES)],
)
def test_several_values_have_a_plural(module: str, name: str, signature: inspect.Signature) -> None:
    singular = [
        parameter.name
        for parameter in signature.parameters.values()
        if "Sequence[" in str(parameter.annotation) and "Mapping" not in str(parameter.annotation)
        if not parameter.name.endswith("s") and parameter.name not in SINGULAR
    ]
    assert singular == [], f"{module}.{name}"


def test_each_flag_has_the_word_of_its_concept(capfd: pytest.CaptureFixture[str]) -> None:
    # A flag that is repeated, or takes names that commas separate, is singular.
    known = INSTEAD.keys() - {"metric", "batch"}
    commands = re.findall(r"^  ([a-z-]+)  ", call_command(capfd, "--help").out, re.MULTILINE)
    assert {"deploy", "benchmark"} <= {*commands}
    for command in commands:
        assert not known & flags_of(command).keys(), command


@pytest.mark.parametrize(
    "command",
    [
        *("deploy", "export", "convert", "verify", "preview"),
        *("audit", "benchmark", "bisect", "compare", "evaluate", "quantize"),
        *("report", "sensitivity", "sweep", "tune"),
    ],
)
def test_a_command_and_its_function_use_the_same_words(command: str) -> None:
    function: Any = getattr(eb, command, None) or getattr(lab, command)
    flags = flags_of(command).keys()
    words = flags | {f"{flag}s" for flag in flags} | {f"{flag}es" for flag in flags}
    missing = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty and name not in NO_FLAGS
        if (command, name) != ("export", "config")  # a mapping, for rewriters
        if OTHER_FLAGS.get((command, name), name) not in words
    ]
    assert missing == []
