"""The flags of the export and verification options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay.config import ONLY_OF_DEPLOY
from enginebay.params import declared_fields, read_fields

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

DEPLOY = ("deploy", "net.py:build", "--backend", "loopback", "--exporter", "torchscript")
REWRITERS = """\
import enginebay as eb

mine = eb.RewriterSet()


@mine.function("torch.Tensor.relu")
def clamped(ctx, x):
    return x.clamp(min=0)


both = [mine, eb.RewriterSet()]
number = 3
"""
RELU = "torch.Tensor.relu"


def test_every_option_is_a_flag_of_deploy_under_its_heading(cli: Run) -> None:
    shown = cli("deploy", "--help-all").out
    _, export, verify = shown.replace("verification options:", "export options:").split(
        "export options:"
    )
    for options, text in ((eb.ExportOptions, export), (eb.VerifyOptions, verify)):
        assert [*read_fields(options.__doc__ or "")] == [*declared_fields(options)]
        for name in declared_fields(options):
            assert f"\n  --{name.replace('_', '-')}" in text


@pytest.mark.parametrize("command", ["export", "verify"])
def test_other_commands_lack_the_options_of_deploy_alone(cli: Run, command: str) -> None:
    options = {"export": eb.ExportOptions, "verify": eb.VerifyOptions}[command]
    shown = cli(command, "--help-all").out
    for name in declared_fields(options):
        assert (f"\n  --{name.replace('_', '-')} " in shown) == (name not in ONLY_OF_DEPLOY)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--ir onxx", "argument --ir: invalid choice: 'onxx' (choose from "),
        ("--exporter trace", "argument --exporter: invalid choice: 'trace' (choose from "),
        ("--opset new", "--opset: 'new' does not fit ExportOptions.opset: expected int"),
        ("--input-names", "argument --input-names: expected one argument"),
        ("--probes few", "--probes: 'few' does not fit VerifyOptions.probes: expected int"),
        ("--rtol x", "--rtol: 'x' does not fit VerifyOptions.rtol: expected float"),
        ("--rtol", "argument --rtol: expected one argument"),
        ("--timeout soon", "--timeout: 'soon' does not fit VerifyOptions.timeout: expected float"),
        ("--domain x", "argument --domain: 'x' is not a valid entry: expected KEY=A,B"),
        ("--domain x=0", "--domain: 'x=0' does not fit VerifyOptions.domain: expected list of "),
        ("--domain x=0,1 --domain x=0,2", "argument --domain: 'x' is specified twice"),
        (
            "--compare output",
            "argument --compare: 'output' is not a valid entry: expected KEY=VALUE",
        ),
        ("--compare a=set --compare a=set", "argument --compare: 'a' is specified twice"),
        ("--keep-ir=yes", "argument --keep-ir/--no-keep-ir: ignored explicit argument 'yes'"),
        ("--cut a", "is not among the arguments of enginebay deploy\nhint: did you mean --cuts?"),
    ],
)
def test_a_wrong_value_is_one_line_of_usage(cli: Run, words: str, message: str, here: Path) -> None:
    ran = cli(*DEPLOY, *words.split())
    assert ran.code == 2
    assert message in ran.err
    assert not (here / "net-build-loopback").exists()


def test_a_repeated_single_value_overrides_the_first(cli: Run) -> None:
    assert cli(*DEPLOY, "--opset", "13", "--opset", "17", "--keep-ir", "--no-keep-ir").code == 0
    ir = eb.open_artifact("net-build-loopback").manifest.ir
    assert ir is not None
    assert ir.opset == 17


def test_names_of_inputs_and_outputs(cli: Run) -> None:
    assert cli(*DEPLOY, "--input-names", "features", "--output-names", "logits").code == 0
    artifact = eb.open_artifact("net-build-loopback")
    assert [one.name for one in (*artifact.inputs, *artifact.outputs)] == ["features", "logits"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("named", ["mine.py:mine", "mine.py:both", "mine:mine"])
def test_rewriters_of_a_file(cli: Run, here: Path, named: str) -> None:
    (here / "mine.py").write_text(REWRITERS)
    ran = cli(*DEPLOY, "--rewriters", named)
    assert ran.code == 0, ran.err
    assert "rewriters fired: torch.Tensor.relu (" in " ".join(ran.out.split())
    exported = cli("export", "net.py:build", "--rewriters", named, "--json")
    assert exported.code == 0, exported.err


def test_rewriters_of_a_config(cli: Run, here: Path) -> None:
    (here / "mine.py").write_text(REWRITERS)
    (here / "config.toml").write_text('[export_config]\nrewriters = ["mine.py:mine"]\n')
    ran = cli(*DEPLOY, "--config", "config.toml")
    assert "rewriters fired: torch.Tensor.relu (" in " ".join(ran.out.split()), ran.err


def test_overridden_rewriters_are_listed_with_the_winner(cli: Run, here: Path) -> None:
    from enginebay_testing import temporary_backend

    (here / "mine.py").write_text(REWRITERS)
    pack = (
        "import enginebay as eb\n"
        "pack = eb.RewriterSet()\n"
        "@pack.function('torch.Tensor.relu', ir='onnx')\n"
        "def relu(ctx, self): return self\n"
        "@eb.hookimpl\n"
        "def rewriters(request): return pack\n"
    )
    with temporary_backend("pack", pack, group="enginebay.plugins"):
        listed = cli("rewriters", "--backend", "loopback", "--rewriters", "mine.py:mine", "--json")
        ran = cli(*DEPLOY, "--rewriters", "mine.py:mine")
        document = cli(*DEPLOY, "--rewriters", "mine.py:mine", "--overwrite", "--json").document
    (mine, packs) = (each for each in listed.document["rewriters"] if each["name"] == RELU)
    assert (mine["distribution"], mine["lost_to"]) == (None, None)
    assert packs["lost_to"].endswith(".clamped")
    line = " ".join(ran.out.split())
    assert re.search(
        rf"function {RELU}: \S+\.relu was not used, \S+\.clamped has priority", line
    ), ran.out
    (lost,) = document["rewriting"]["lost"]
    assert (lost["name"], lost["lost_to"]) == (RELU, packs["lost_to"])


@pytest.mark.parametrize(
    ("named", "error", "hint"),
    [
        ("mine.py:mien", "'mine.py:mien': there is no 'mien' in 'mine.py'", "did you mean 'mine'?"),
        ("mien.py:mine", "no file 'mien.py'", "did you mean 'mine.py'?"),
        (
            "mine.py:number",
            "'rewriters' contains a int, expected a sequence of enginebay.RewriterSet",
            "rewriters=[my_set]",
        ),
        (
            "raises.py:mine",
            "importing 'raises.py' raised ZeroDivisionError: division by zero",
            "",
        ),
    ],
)
def test_an_object_that_is_not_a_rewriter_set(
    cli: Run, here: Path, named: str, error: str, hint: str
) -> None:
    (here / "mine.py").write_text(REWRITERS)
    (here / "raises.py").write_text("mine = 1 / 0\n")
    ran = cli(*DEPLOY, "--rewriters", named)
    assert (ran.code, ran.err) == (2, f"error: {error}\n" + (f"hint: {hint}\n" if hint else ""))
