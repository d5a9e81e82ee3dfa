"""An artifact that was published although it is wrong says so wherever it runs, once."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.cli import main

if TYPE_CHECKING:
    from pathlib import Path


class Net(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.fixture(scope="module")
def wrong(loopback: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rewriters = eb.RewriterSet()
    rewriters.function(f"{__name__}.Net.forward")(lambda ctx, self, x: x * 3)
    folder = tmp_path_factory.mktemp("wrong") / "out"
    deployment = eb.deploy(
        Net(),
        torch.ones(2, 3),
        backend=loopback,
        work_dir=folder,
        export=eb.ExportOptions(rewriters=[rewriters]),
        verify=eb.VerifyOptions(allow_mismatch=True),
    )
    assert deployment.verdict == "mismatched"
    return folder


def message(folder: Path) -> str:
    return (
        f"the recorded verdict of '{folder}' is mismatched, so its outputs are not the model's: "
        f"enginebay inspect {folder}"
    )


@pytest.mark.parametrize("isolated", [False, True])
def test_load_warns_once_and_calls_do_not(wrong: Path, isolated: bool) -> None:
    with pytest.warns(eb.VerdictWarning) as caught:
        wrapper = eb.load(wrong, isolated=isolated)
    assert [(str(each.message), each.filename) for each in caught] == [(message(wrong), __file__)]
    with wrapper, warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapper({"x": np.ones((2, 3), np.float32)})


def test_a_warning_that_is_an_error_leaves_no_engine_open(wrong: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(eb.VerdictWarning):
            eb.load(wrong, isolated=True)


def test_run_prints_a_line(wrong: Path, capsys: Any) -> None:
    with pytest.warns(eb.VerdictWarning, match="the recorded verdict of .* is mismatched"):
        assert main(["run", str(wrong)]) == 0
    assert "OUTPUT" in capsys.readouterr().out


def test_inspect_says_that_the_verdict_is_recorded_and_when(wrong: Path, capsys: Any) -> None:
    main(["inspect", str(wrong)])
    made = eb.open_artifact(wrong).manifest.created
    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("verdict")]
    assert line.split(maxsplit=1)[1].startswith("recorded: mismatched against the PyTorch model")
    assert line.endswith(f"; {made}")


def test_the_digest_of_the_reference_follows_its_weights(
    loopback: str, tmp_path: Path, capsys: Any
) -> None:
    digests = []
    for number, value in enumerate((1.0, 1.0, 2.0)):
        model = nn.Linear(2, 1)
        nn.init.constant_(model.weight, value)
        nn.init.zeros_(model.bias)
        folder = tmp_path / str(number)
        made = eb.deploy(
            model,
            torch.ones(1, 2),
            backend=loopback,
            work_dir=folder,
            export={"exporter": "torchscript"},
            verify={"probes": 1},
        )
        digests.append(made.artifact.manifest.reference_sha256)
    assert digests[0] == digests[1] != digests[2]
    main(["inspect", str(folder)])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    assert ["model", f"sha256 {digests[2]}"] in lines
