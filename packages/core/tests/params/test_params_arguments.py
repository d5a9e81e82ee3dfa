"""Documented fields become flags of argparse."""

from __future__ import annotations

import argparse
import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay.errors import ParamsError
from enginebay.params import BackendParams, FileName, Shapes, format_dims


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Flags(BackendParams):
    """All kinds of flags.

    Attributes:
        work_dir: Folder.
        file_name: File.
        input_shapes: Main shapes.
        fp16 (bool): Half precision.
        cache: Reuse a built engine.
        precision: Which precision.
        opset: Which opset.
        mode: Which mode.
        threads: How many threads.
        eps: Tolerance.
        scale: Another tolerance.
        pads: Padding.
        providers: Where to run, in order of preference.
        options: Settings of the engine.
        levels: Numbers by name.
        nested: Options by provider.
        streams: A number, or auto.
        library: Custom operators.
        extra_file: Another file.
        more_shapes: Other shapes.
        bounds: Bounds by name.
        choices: Objects, or their names.
        by_output: Objects by name.
    """

    file_name: FileName = FileName("model", suffix=".engine")
    fp16: bool = False
    cache: bool | None = None
    precision: Literal["fp32", "fp16"] = "fp32"
    opset: Literal[17, 18] | None = None
    mode: Mode = Mode.FAST
    threads: Annotated[int, msgspec.Meta(ge=1)] = 1
    eps: float | None = None
    scale: float = 0.5
    pads: tuple[int, int] = (1, 2)
    providers: tuple[str, ...] = ()
    options: dict[str, str] = {}
    levels: dict[str, int] = {}
    nested: dict[str, dict[str, int]] = {}
    streams: int | str = "auto"
    library: Path | None = None
    extra_file: FileName | None = None
    more_shapes: Shapes = {}
    bounds: dict[str, tuple[float, float]] = {}
    choices: Sequence[Any] = ()
    by_output: Mapping[Any, Any] | None = None
    hidden: int = 7


def parse(*args: str) -> Flags:
    parser = argparse.ArgumentParser("tool")
    Flags.add_arguments(parser)
    return Flags.from_args(parser.parse_args(args))


HELP = """\
usage: tool [-h] [--work-dir WORK_DIR] [--file-name FILE_NAME]
            [--input-shapes NAME:1x3x...] [--fp16 | --no-fp16]
            [--cache | --no-cache] [--precision {fp32,fp16}] [--opset {17,18}]
            [--mode {fast,slow}] [--threads THREADS] [--eps EPS]
            [--scale SCALE] [--pads A,B,...] [--providers A,B,...]
            [--options KEY=VALUE] [--levels KEY=VALUE] [--nested JSON]
            [--streams STREAMS] [--library LIBRARY] [--extra-file EXTRA_FILE]
            [--more-shapes NAME:1x3x...] [--bounds KEY=A,B]
            [--choices A,B,...] [--by-output KEY=VALUE]

options:
  -h, --help            show this help message and exit
  --work-dir WORK_DIR   Folder.
  --file-name FILE_NAME
                        File.
  --input-shapes NAME:1x3x...
                        Main shapes.
  --fp16, --no-fp16     Half precision. (default: no)
  --cache, --no-cache   Reuse a built engine.
  --precision {fp32,fp16}
                        Which precision. (default: fp32)
  --opset {17,18}       Which opset.
  --mode {fast,slow}    Which mode. (default: fast)
  --threads THREADS     How many threads. (default: 1)
  --eps EPS             Tolerance.
  --scale SCALE         Another tolerance. (default: 0.5)
  --pads A,B,...        Padding. (default: 1,2)
  --providers A,B,...   Where to run, in order of preference.
  --options KEY=VALUE   Settings of the engine.
  --levels KEY=VALUE    Numbers by name.
  --nested JSON         Options by provider.
  --streams STREAMS     A number, or auto. (default: auto)
  --library LIBRARY     Custom operators.
  --extra-file EXTRA_FILE
                        Another file.
  --more-shapes NAME:1x3x...
                        Other shapes.
  --bounds KEY=A,B      Bounds by name.
  --choices A,B,...     Objects, or their names.
  --by-output KEY=VALUE
                        Objects by name.
"""


def test_help_lists_every_documented_field(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        parse("--help")
    assert capsys.readouterr().out == HELP


@pytest.mark.parametrize(
    ("args", "changes"),
    [
        ("", {}),
        ("--work-dir out", {"work_dir": "out"}),
        ("--file-name net", {"file_name": "net.engine"}),
        ("--extra-file net", {"extra_file": "net"}),
        ("--fp16", {"fp16": True}),
        ("--fp16 --no-fp16", {"fp16": False}),
        ("--no-cache", {"cache": False}),
        ("--precision fp16", {"precision": "fp16"}),
        ("--opset 18", {"opset": 18}),
        ("--mode slow", {"mode": Mode.SLOW}),
        ("--threads 4", {"threads": 4}),
        ("--eps 1e-5", {"eps": 1e-5}),
        ("--scale 2", {"scale": 2.0}),
        ("--pads 3,4", {"pads": (3, 4)}),
        ("--providers CUDA,CPU", {"providers": ("CUDA", "CPU")}),
        ("--providers CUDA", {"providers": ("CUDA",)}),
        ("--providers=", {"providers": ()}),
        ("--providers CUDA --providers CPU,A", {"providers": ("CUDA", "CPU", "A")}),
        ("--pads 3,4 --pads 5,6", {"pads": (5, 6)}),
        ("--bounds a=0,1 --bounds b=-1,1e3", {"bounds": {"a": (0, 1), "b": (-1, 1000)}}),
        ("--choices f.py:a,b --choices 3", {"choices": ["f.py:a", "b", "3"]}),
        ("--by-output a,b=set:1", {"by_output": {"a,b": "set:1"}}),
        (
            "--options a=1 --options b=x=y --options c=",
            {"options": {"a": "1", "b": "x=y", "c": ""}},
        ),
        ("--levels a=1", {"levels": {"a": 1}}),
        ('--nested {"CUDA":{"id":1}}', {"nested": {"CUDA": {"id": 1}}}),
        ("--streams 4", {"streams": 4}),
        ("--streams many", {"streams": "many"}),
        ("--library /opt/a.so", {"library": Path("/opt/a.so")}),
        ("--input-shapes x:1x?,y:", {"input_shapes": {"x": (1, None), "y": ()}}),
        ("--more-shapes 1x3", {"more_shapes": {"": (1, 3)}}),
    ],
)
def test_flags_become_fields(args, changes):
    assert parse(*args.split()) == Flags(**changes)


E_ = "tool: error: argument "


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--threads x", "--threads: 'x' does not fit Flags.threads: expected int"),
        ("--threads 0", "--threads: '0' does not fit Flags.threads: expected int >= 1"),
        ("--threads 1.5", "--threads: '1.5' does not fit Flags.threads: expected int"),
        ("--eps x", "--eps: 'x' does not fit Flags.eps: expected float"),
        ("--pads 1", "--pads: '1' does not fit Flags.pads: expected list of length 2"),
        ("--pads 1,a", "--pads: '1,a' does not fit Flags.pads: expected int at [1]"),
        ("--options a", "--options: 'a' is not a valid entry: expected KEY=VALUE"),
        ("--options =a", "--options: '=a' is not a valid entry: expected KEY=VALUE"),
        ("--options a=1 --options a=2", "--options: 'a' is specified twice"),
        ("--levels a=b", "--levels: 'a=b' does not fit Flags.levels: expected int at [...]"),
        ("--bounds a", "--bounds: 'a' is not a valid entry: expected KEY=A,B"),
        (
            "--bounds a=0:1",
            "--bounds: 'a=0:1' does not fit Flags.bounds: expected list of length 2 at [...]",
        ),
        (
            "--bounds a=0,x",
            "--bounds: 'a=0,x' does not fit Flags.bounds: expected float at [...][1]",
        ),
        ("--bounds a=0,1 --bounds a=0,1", "--bounds: 'a' is specified twice"),
        ("--by-output a", "--by-output: 'a' is not a valid entry: expected KEY=VALUE"),
        ("--choices", "--choices: expected one argument"),
        ("--nested {", "--nested: '{' is not JSON: Input data was truncated"),
        ("--nested 3", "--nested: '3' does not fit Flags.nested: expected dict"),
        (
            "--file-name a/b",
            (
                "--file-name: 'a/b' does not fit Flags.file_name: 'a/b' is not a file name: "
                "expected a name without a folder (pass the folder as --work-dir)"
            ),
        ),
        (
            "--input-shapes x:-2x3",
            (
                "--input-shapes: 'x:-2x3' does not fit Flags.input_shapes: "
                "'x:-2x3' is not a shape: expected NAME:1x3x224x224 "
                "(write ? for a dynamic dim)"
            ),
        ),
    ],
)
def test_an_invalid_flag_value_is_reported_in_one_line(args, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(*args.split())
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == E_ + message


@pytest.mark.parametrize("args", ["--precision fp61", "--opset 19", "--mode x", "--hidden 1"])
def test_unknown_choices_and_undocumented_fields_are_refused(args, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(*args.split())
    assert stop.value.code == 2
    assert args.split()[0] in capsys.readouterr().err.splitlines()[-1]


@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_./:=]{0,6}", fullmatch=True), st.just((1, None))),
    st.integers(1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.from_regex(r"[A-Za-z]+", fullmatch=True)),
)
def test_typed_values_reach_the_params(shapes, threads, eps, providers):
    wanted = Flags(input_shapes=shapes, threads=threads, eps=eps, providers=providers)
    assert wanted == parse(
        f"--input-shapes={','.join(f'{n}:{format_dims(d)}' for n, d in shapes.items())}",
        f"--threads={threads}",
        f"--eps={eps}",
        f"--providers={','.join(providers)}",
    )


def test_only_given_flags_replace_other_values():
    parser = argparse.ArgumentParser()
    parser.add_argument("ir")
    Flags.add_arguments(parser)
    namespace = parser.parse_args(["a.onnx", "--threads", "2", "--no-fp16"])
    assert Flags.given_arguments(namespace) == {"threads": 2, "fp16": False}
    section = {"threads": 8, "fp16": True, "scale": 2.0}
    layered = Flags.from_mapping(section).replace(**Flags.given_arguments(namespace))
    assert (layered.threads, layered.fp16, layered.scale) == (2, False, 2.0)
    assert Flags.from_args(namespace, threads=3, hidden=9) == Flags(threads=3, hidden=9)
    assert Flags.from_args(argparse.Namespace()) == Flags()


def test_flags_can_be_added_to_groups_and_subcommands(capsys):
    parser = argparse.ArgumentParser("tool")
    convert = parser.add_subparsers().add_parser("convert")
    Flags.add_arguments(convert.add_argument_group("engine settings"))
    assert Flags.from_args(parser.parse_args(["convert", "--threads", "2"])).threads == 2
    with pytest.raises(SystemExit):
        parser.parse_args(["convert", "-h"])
    assert "engine settings:\n  --work-dir WORK_DIR" in capsys.readouterr().out


class Needy(BackendParams):
    """N.

    Args:
        name: A name.
    """

    name: str


def test_a_field_without_a_default_is_a_required_flag(capsys):
    parser = argparse.ArgumentParser("tool")
    Needy.add_arguments(parser)
    assert Needy.from_args(parser.parse_args(["--name", "a"])).name == "a"
    with pytest.raises(SystemExit):
        parser.parse_args([])
    assert "the following arguments are required: --name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        (
            ("--threads",),
            "threads cannot become the flag --threads: the parser already has --threads",
        ),
        (("--no-fp16",), "fp16 cannot become the flag --fp16: the parser already has --no-fp16"),
        (("scale",), "scale cannot become the flag --scale: the parser already has 'scale'"),
    ],
)
def test_a_taken_flag_is_refused_and_none_is_added(taken, message):
    parser = argparse.ArgumentParser("tool")
    parser.add_argument(*taken)
    before = parser.format_help()
    with pytest.raises(ParamsError) as refusal:
        Flags.add_arguments(parser)
    assert str(refusal.value) == "Flags." + message
    assert refusal.value.hint == "rename the field, or leave it out of Flags's docstring"
    assert parser.format_help() == before


def test_a_taken_destination_is_named_by_its_flag():
    parser = argparse.ArgumentParser("tool")
    parser.add_argument("-j", "--jobs", dest="threads")
    with pytest.raises(ParamsError, match=r"the parser already has -j/--jobs\nhint: [^\n]+$"):
        Flags.add_arguments(parser)


def test_adding_flags_twice_is_refused():
    parser = argparse.ArgumentParser("tool")
    Flags.add_arguments(parser)
    with pytest.raises(ParamsError, match="the parser already has --work-dir"):
        Flags.add_arguments(parser)
