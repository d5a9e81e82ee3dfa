"""One model on several backends and precisions: rows, failures and measured speed."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import (
    ArtifactExistsError,
    BackendNotFoundError,
    ModelError,
    ParamsError,
    UsageError,
)

from .conftest import derived

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

ENGINES = ("onnxruntime", "openvino")
EXAMPLE = torch.linspace(-1, 1, 48).reshape(1, 3, 4, 4)

NET = """
import torch


def build():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()), torch.ones(1, 3, 8, 8)
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).relu()


#: No benchmark, which would take most of the time of these tests.
compare = partial(lab.compare, duration=0)
QUICK = ("--duration", "0")


@pytest.mark.filterwarnings("ignore:inference precision f16")  # the processor may have none
def test_compare_has_a_row_per_backend_and_precision(tmp_path: Path) -> None:
    comparison = compare(
        *(Net(), EXAMPLE), work_dir=tmp_path / "all", backends=ENGINES, precisions=["fp32", "fp16"]
    )
    half = comparison.rows[-1]
    assert [(row.label, row.verdict) for row in comparison.rows] == [
        ("onnxruntime fp32", "verified"),
        ("onnxruntime fp16", "verified"),
        ("openvino fp32", "verified"),
        (f"openvino {half.precision_text}", "verified"),
    ]
    assert half.precision_text in ("fp16", "fp16 → fp32")  # the processor decides
    for row in comparison.rows:
        assert row.artifact is not None
        artifact = eb.open_artifact(row.artifact)
        assert artifact.manifest.params["precision"] == row.precision
        assert row.size == sum(file.size for file in artifact.manifest.files)
        assert eb.verify(artifact).verdict == "verified"
    saved = json.loads((tmp_path / "all" / "comparison.json").read_text())
    assert [row["artifact"] for row in saved["rows"]] == [row.artifact for row in comparison.rows]


def test_unseeded_model_has_the_same_weights_in_all_rows(
    tmp_path: Path,
) -> None:
    (tmp_path / "net.py").write_text(NET)  # without a seed
    comparison = compare(f"{tmp_path}/net.py:build", work_dir=tmp_path / "all", backends=ENGINES)
    first, second = (eb.open_artifact(row.artifact).samples()[0] for row in comparison.rows)
    assert (first.outputs["output"] == second.outputs["output"]).all()


def test_failed_deployment_is_a_row_with_its_reason(tmp_path: Path) -> None:
    wrong = eb.RewriterSet(backend="openvino")

    @wrong.function("torch.Tensor.relu")
    def doubled(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return ctx.origin_func(x) * 2

    comparison = compare(
        *(Net(), EXAMPLE),
        work_dir=tmp_path / "all",
        backends=ENGINES,
        precisions=["fp32", "bf16"],
        export=eb.ExportOptions(rewriters=[wrong]),
    )
    rows = {row.label: row for row in comparison.rows}
    assert [row.verdict for row in comparison.rows] == [
        "verified",
        "failed",
        "mismatched",
        "mismatched",
    ]
    assert rows["onnxruntime bf16"].reason == (
        "'bf16' does not fit OnnxruntimeParams.precision: expected one of 'fp32', 'fp16', 'int8'"
    )
    mismatched = rows["openvino fp32"]
    assert mismatched.artifact is None
    assert mismatched.verification is not None
    assert mismatched.max_abs_error is not None
    assert mismatched.max_abs_error > 0.01
    assert not (tmp_path / "all" / "openvino-fp32").exists()


def test_invalid_arguments_write_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    for error, message, given in [
        (BackendNotFoundError, "no backend 'openvin' is installed", {"backends": ["openvin"]}),
        (ParamsError, "'bf17' does not fit", {"backends": ENGINES, "precisions": ["bf17"]}),
        (
            ParamsError,
            "unknown parameter 'thread' for",
            {"backends": ENGINES, "params": {"thread": 1}},
        ),
        (UsageError, "no backend to compare", {"backends": []}),
        (
            UsageError,
            "'params' cannot contain .precision",
            {"backends": ENGINES, "params": {"precision": 1}},
        ),
        (ParamsError, "int8", {"backends": ENGINES, "precisions": ["int8"]}),
        (UsageError, "unknown argument 'backend'", {"backend": "openvino"}),
    ]:
        with pytest.raises(error, match=message):
            compare(Net(), EXAMPLE, work_dir=folder, **given)
        assert not folder.exists()


def test_error_in_the_model_ends_the_comparison(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        compare(Net(), torch.ones(1, 5, 4, 4), work_dir=tmp_path / "all", backends=ENGINES)


def test_artifacts_are_replaced_only_with_overwrite(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    compare(Net(), EXAMPLE, work_dir=folder, backends=ENGINES[:1])
    before = (folder / "onnxruntime" / "manifest.json").read_bytes()
    with pytest.raises(ArtifactExistsError):
        compare(Net(), EXAMPLE, work_dir=folder, backends=ENGINES)
    with pytest.raises(ArtifactExistsError, match="is an artifact, expected a folder"):
        compare(Net(), EXAMPLE, work_dir=folder / "onnxruntime", backends=ENGINES)
    assert (folder / "onnxruntime" / "manifest.json").read_bytes() == before
    assert not (folder / "openvino").exists()
    comparison = compare(Net(), EXAMPLE, work_dir=folder, backends=ENGINES, overwrite=True)
    assert len(comparison.verified) == 2


def test_parameters_go_to_the_backends_that_have_them(tmp_path: Path) -> None:
    comparison = compare(
        *(Net(), EXAMPLE), work_dir=tmp_path / "all", backends=ENGINES, params={"streams": 2}
    )
    params = [eb.open_artifact(row.artifact).manifest.params for row in comparison.rows]
    assert [values.get("streams") for values in params] == [None, 2]


def test_an_axis_is_a_row_for_each_value_of_a_parameter(cli: Run, here: Path) -> None:
    (here / "net.py").write_text(NET)
    done = cli(
        *("compare", "net.py:build", "--backend=onnxruntime,openvino", "--file-name=a", *QUICK),
        *("--axis", "intra-op-threads=1 2", "--axis=providers=CPUExecutionProvider nowhere"),
        *("--json", "--work-dir=all"),
    )
    assert done.code == 1
    rows = json.loads(done.out)["rows"]
    assert [(row["backend"], row["verdict"], row["params"]) for row in rows] == [
        *(
            ("onnxruntime", verdict, {"intra_op_threads": count, "providers": [name]})
            for count in (1, 2)
            for name, verdict in (("CPUExecutionProvider", "verified"), ("nowhere", "failed"))
        ),
        ("openvino", "verified", {}),
    ]
    first = eb.open_artifact(rows[0]["artifact"])
    assert first.path.name == "onnxruntime-intra_op_threads=1-providers=CPUExecutionProvider"
    assert first.manifest.params["intra_op_threads"] == 1
    assert [file.name for file in first.files] == ["a.onnx"]


@pytest.mark.parametrize(
    ("axis", "message", "hint"),
    [
        ("thread=1 2", "unknown parameter 'thread' for onnxruntime", None),
        (
            "inter-op-threads",
            "--axis inter-op-threads has no values",
            "--axis 'inter-op-threads=VALUE VALUE'",
        ),
        ("precision=fp32", "--axis cannot set 'precision'", "--precision fp32,fp16"),
        ("device=cpu", "parameter 'device' is specified twice", "remove one of them"),
        (
            "intra_op_threads=1 a",
            (
                "--axis intra_op_threads=1 a: argument --intra-op-threads: 'a' does not fit "
                "OnnxruntimeParams.intra_op_threads: expected int"
            ),
            "--axis 'intra_op_threads=VALUE VALUE'",
        ),
        (
            "profile='",
            "--axis profile=': No closing quotation",
            "--axis 'profile=VALUE VALUE'",
        ),
        (
            "compiled=yes maybe",
            (
                "--axis compiled=yes maybe: argument --compiled/--no-compiled: ignored explicit "
                "argument 'maybe'"
            ),
            "--axis 'compiled=yes no'",
        ),
    ],
)
def test_a_wrong_axis_is_refused(
    cli: Run, here: Path, axis: str, message: str, hint: str | None
) -> None:
    (here / "net.py").write_text(NET)
    done = cli("compare", "net.py:build", "--backend=onnxruntime", "--device=cpu", "--axis", axis)
    assert done.code == 2
    first, *rest = done.err.splitlines()
    assert first == f"error: {message}"
    assert rest == ([f"hint: {hint}"] if hint else [])


def test_command_line_prints_a_row_per_backend(cli: Run, here: Path) -> None:
    (here / "net.py").write_text(NET)
    done = cli(
        *("compare", "net.py:build", "--backend", "onnxruntime,openvino"),
        *("--precision", "fp32", *QUICK),
    )
    assert done.code == 0, done.err
    head, *rows = done.out.splitlines()[:3]
    assert head.split() == ["BACKEND", "PRECISION", "VERDICT", "MAX", "ERROR", "SIZE", "DEPLOY"]
    assert [row.split()[:3] for row in rows] == [
        ["onnxruntime", "fp32", "verified"],
        ["openvino", "fp32", "verified"],
    ]
    assert (here / "net-build-comparison" / "openvino-fp32").is_dir()


def test_command_line_prints_the_fallbacks_of_an_engine(cli: Run, here: Path) -> None:
    (here / "net.py").write_text(NET)
    source = (
        "from msgspec.structs import replace\n"
        "FALLEN = ('no turbo here',)\n"
        "Wrapper.receipt = property(lambda self: replace(self.inner.receipt, fallbacks=FALLEN))\n"
    )
    with derived("fallen", source):
        done = cli("compare", "net.py:build", "--backend=fallen,onnxruntime", *QUICK)
    assert done.code == 0, done.err
    assert re.search(r"^fallen fp32 +no turbo here$", done.out, re.MULTILINE)


def test_command_line_exits_with_1_if_a_row_fails(cli: Run, here: Path) -> None:
    (here / "net.py").write_text(NET)
    done = cli(
        *("compare", "net.py:build", "--backend=onnxruntime", "--precision=fp32,bf16"),
        *("--json", *QUICK),
    )
    assert done.code == 1
    rows = json.loads(done.out)["rows"]
    assert [row["verdict"] for row in rows] == ["verified", "failed"]
    assert "reason" in rows[1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--all", "--backend", "ncnn"], "--all and --backend cannot be combined"),
        (["--backend", "ncnn,onnxruntim"], "no backend 'onnxruntim' is installed"),
    ],
)
def test_bad_command_line_is_refused(cli: Run, here: Path, flags: list[str], message: str) -> None:
    (here / "net.py").write_text(NET)
    done = cli("compare", "net.py:build", *flags)
    assert done.code in (2, 3)
    assert message in done.err
    assert not (here / "net-build-comparison").exists()


def test_every_artifact_is_measured_in_the_same_run(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    comparison = lab.compare(Net(), EXAMPLE, work_dir=folder, backends=ENGINES, duration=0.3)
    for row in comparison.rows:
        assert row.speed is not None
        assert row.speed.artifact == row.artifact
        assert row.latency is not None
    assert comparison.machine is not None
    assert 1 <= len(comparison.fastest) <= len(comparison.rows)
    assert comparison.fastest[0].latency == min(row.latency for row in comparison.rows)
    saved = json.loads((folder / "comparison.json").read_text())
    assert [row["speed"]["backend"] for row in saved["rows"]] == list(ENGINES)


def test_crash_during_the_benchmark_leaves_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "enginebay_lab.measurement.benchmark_subject._CHILD_MODULE", "tests.nowhere"
    )
    comparison = lab.compare(
        *(Net(), EXAMPLE), work_dir=tmp_path / "all", backends=ENGINES, duration=0.3
    )
    assert len(comparison.verified) == 2
    assert comparison.fastest == ()
    assert "no artifact could be measured: " in comparison.notes[0]


@pytest.mark.parametrize("duration", [-1, float("inf"), float("nan")])
def test_invalid_durations_are_refused(tmp_path: Path, duration: float) -> None:
    with pytest.raises(UsageError, match="expected 0 or more"):
        lab.compare(Net(), EXAMPLE, work_dir=tmp_path / "all", duration=duration)
