"""Weights requested by a model's name or a flag: loaded, recorded, refused."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

from enginebay.errors import ModelSourceError
from enginebay.sources import load_weights
from enginebay.sources.plugin_sources import find_model
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import Ran, call_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NET = """
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)
"""

ZOO = """
import torch
import enginebay as eb
from enginebay.authors.sources import fixed_seed, load_weights, read_options

def build(request):
    options = read_options(request)
    with fixed_seed():
        model = torch.nn.Linear(3, 2)
    if options.checkpoint:
        load_weights(model, options.checkpoint)
    if options.pretrained:
        torch.nn.init.ones_(model.weight)
    return model, torch.ones(1, 3), {"type": "numbers"}, options.weights

@eb.hookimpl
def model_sources():
    return {"zoo": build}

@eb.hookimpl
def tasks():
    return {}
"""


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """``net.py``, and ``best.pth`` with weights for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    state = torch.nn.Linear(3, 2).state_dict()
    torch.save(state, "best.pth")
    return state


def test_weights_file_in_the_model_name_is_loaded(
    weights: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    source = find_model("net.py:Net?weights=best.pth")
    assert torch.equal(source.module.weight, weights["weight"])
    digest = hashlib.sha256((tmp_path / "best.pth").read_bytes()).hexdigest()
    assert source.weights == f"{tmp_path}/best.pth, sha256 {digest}"
    assert source.name == "Net"
    again = find_model(source.named)  # from any folder
    assert torch.equal(again.module.weight, weights["weight"])


@pytest.mark.parametrize(
    ("name", "config", "origin", "ones"),
    [
        ("zoo:a", {}, "random (seed 0)", False),
        ("zoo:a?pretrained", {}, "pretrained", True),
        ("zoo:a", {"type": "zoo", "pretrained": True}, "pretrained", True),
        ("a?pretrained", {"type": "zoo"}, "pretrained", True),
        ("zoo:a?weights=best.pth", {}, "best.pth", False),
        ("zoo:a", {"type": "zoo", "checkpoint": "best.pth"}, "best.pth", False),
    ],
)
@pytest.mark.usefixtures("weights")
def test_recorded_name_loads_the_same_weights_again(
    name: str, config: dict[str, Any], origin: str, ones: bool
) -> None:
    with temporary_backend("zoo", ZOO, group="enginebay.plugins"):
        source = find_model(name, config)
        assert origin in source.weights
        assert bool((source.module.weight == 1).all()) is ones
        again = find_model(source.named)
    assert torch.equal(source.module.weight, again.module.weight)
    assert again.weights == source.weights


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "net.py:Net?pretrained",
            "'net.py:Net' is your own code, which has no pretrained weights",
            "pass a weights file: --weights FILE, or net.py:Net?weights=FILE",
        ),
        (
            "net.py:Net?weights=none.pth",
            "no weights file 'none.pth'",
            "pass --weights FILE",
        ),
        (
            "net.py:Net?trained",
            "'net.py:Net?trained' ends with '?trained'; expected ?pretrained or ?weights=FILE",
            "net.py:Net?pretrained",
        ),
        (
            "net.onnx?weights=best.pth",
            "'net.onnx' is a file that contains weights, which cannot be replaced",
            "pass only the file: net.onnx",
        ),
        (
            "net.onnx?pretrained",
            "'net.onnx' is a file that contains weights, which cannot be replaced",
            "pass only the file: net.onnx",
        ),
        (
            "net.py:Net?weights=net.py",
            "'net.py' cannot be read as weights: Weights only load failed",
            "write the file by torch.save(model.state_dict(), FILE)",
        ),
    ],
)
@pytest.mark.usefixtures("weights")
def test_impossible_weights_in_a_name_are_refused(name: str, message: str, hint: str) -> None:
    with pytest.raises(ModelSourceError) as caught:
        find_model(name)
    assert (str(caught.value), caught.value.hint) == (message, hint)


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "net.model."])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict", "model"])
def test_prefixes_and_wrappers_of_checkpoints_are_removed(
    tmp_path: Path, prefix: str, wrapper: str | None
) -> None:
    trained, file = torch.nn.Linear(3, 2), tmp_path / "best.pt"
    state = {f"{prefix}{name}": value for name, value in trained.state_dict().items()}
    torch.save({"epoch": 3, wrapper: state} if wrapper else state, file)
    model = torch.nn.Linear(3, 2)
    load_weights(model, str(file))
    assert torch.equal(model.weight, trained.weight)


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize("model", ["net.py:Net", "zoo:linear"])
def test_a_removed_prefix_is_told_with_its_file_alone(tmp_path: Path, model: str) -> None:
    state = torch.load("best.pth")
    torch.save({f"module.{name}": value for name, value in state.items()}, "parallel.pth")
    with temporary_backend("zoo", ZOO, group="enginebay.plugins"):
        found = [find_model(f"{model}?weights={file}.pth").weights for file in ("parallel", "best")]
    digests = [
        hashlib.sha256((tmp_path / f"{file}.pth").read_bytes()).hexdigest()
        for file in ("parallel", "best")
    ]
    assert found == [
        f"{tmp_path}/parallel.pth, sha256 {digests[0]}, without the prefix 'module.' of its names",
        f"{tmp_path}/best.pth, sha256 {digests[1]}",
    ]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"weight": torch.ones(2, 3)}, "missing 1 of 2 tensors, such as 'bias'"),
        (
            {"head": torch.ones(2, 3), "tail": torch.ones(2)},
            "missing 2 of 2 tensors, such as 'weight'; unknown 2 of 2 tensors, such as 'head'",
        ),
        (
            {"weight": torch.ones(7, 3), "bias": torch.ones(7)},
            (
                "size mismatch for weight: copying a param with shape torch.Size([7, 3]) from "
                "checkpoint, the shape in current model is torch.Size([2, 3])."
            ),
        ),
    ],
)
def test_mismatched_tensors_are_described_in_the_error(
    tmp_path: Path, state: dict[str, torch.Tensor], why: str
) -> None:
    file = tmp_path / "best.pt"
    torch.save(state, file)
    with pytest.raises(ModelSourceError) as caught:
        load_weights(torch.nn.Linear(3, 2), str(file))
    assert str(caught.value) == f"'{file}' does not fit Linear: {why}"


@pytest.mark.usefixtures("weights")
def test_artifact_records_its_weights(
    loopback: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", loopback)
    cli: Callable[..., Ran] = partial(call_command, capfd)
    line = ("deploy", "net.py:Net", "--backend", loopback, "--input", "input=1x3", "--work-dir")
    ran = cli(*line, "out", "--weights", "best.pth", "--exporter", "torchscript")
    assert ran.code == 0, ran.err
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["model"] == f"{tmp_path}/net.py:Net?weights={tmp_path}/best.pth"
    assert manifest["weights"].startswith(f"{tmp_path}/best.pth, sha256 ")
    assert f"weights   {tmp_path}/best.pth, sha256 " in cli("inspect", "out").out
    ran = cli("export", "net.py:Net", "--input", "input=1x3", "--weights", "none.pth")
    message = f"error: no weights file '{tmp_path}/none.pth'"
    assert (ran.code, ran.err) == (2, f"{message}\nhint: pass --weights FILE\n")


@pytest.mark.usefixtures("weights")
def test_random_weights_are_reported_and_predictions_refused(
    loopback: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", loopback)
    with temporary_backend("zoo", ZOO, group="enginebay.plugins"):
        ran = call_command(
            capfd, *("deploy", "zoo:a", "--backend", loopback, "--exporter", "torchscript")
        )
        assert ran.code == 0, ran.err
        told = "random (seed 0): the outputs are meaningless; use --pretrained or --weights FILE"
        assert told in ran.out
        ran = call_command(capfd, "run", f"zoo-a-{loopback}", "--image", "x.png")
    assert ran.code == 2
    assert "are random (seed 0): predictions are meaningless\n" in ran.err
    assert "or add --allow-random-weights" in ran.err
