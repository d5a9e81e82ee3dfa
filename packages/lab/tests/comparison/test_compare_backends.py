"""``compare`` on the loopback backend: rows of deployments, and requests that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
import pytest
import torch

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactExistsError, BackendNotFoundError, ParamsError, UsageError
from enginebay_lab.comparison.comparison import ROWS_FILE

if TYPE_CHECKING:
    from pathlib import Path

EXPORT = eb.ExportOptions(exporter="torchscript")
VERIFY = eb.VerifyOptions(probes=0, allow_unverified=True)


def compare(folder: Path, **options: Any) -> lab.Comparison:
    torch.manual_seed(0)
    known: dict[str, Any] = {"backends": ["loopback"], "duration": 0, "export": EXPORT} | options
    return lab.compare(torch.nn.Linear(4, 3), torch.ones(1, 4), work_dir=folder, **known)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, loopback: str) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    compare(folder, verify=VERIFY)
    return folder


def test_the_row_has_the_figures_of_the_artifact(folder: Path) -> None:
    (row,) = lab.report(folder).comparisons[0].rows
    artifact = eb.open_artifact(folder / "loopback")
    assert (row.backend, row.precision, row.verdict) == ("loopback", "", "verified")
    assert row.artifact == str(artifact.path)
    assert row.size == sum(file.size for file in artifact.manifest.files)
    assert row.verification == artifact.manifest.verification
    assert row.seconds > 0
    assert row.speed is None


def test_a_wrong_engine_is_a_row_with_its_verdict(tmp_path: Path, loopback: str) -> None:
    found = compare(tmp_path, params={"gain": 2.0}, verify=VERIFY)
    (row,) = found.rows
    assert (row.verdict, row.artifact, row.hint) == ("mismatched", None, "")
    assert row.verification
    assert row.reason.startswith("mismatched against the PyTorch model, unpatched on the example")
    assert 'place    "output" at [0, ' in row.reason
    assert row.max_abs_error == row.verification.outputs[0].max_abs_error > 0
    assert found.verified == ()
    assert (tmp_path / ROWS_FILE).exists()
    assert not (tmp_path / "loopback").exists()


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"duration": -1}, UsageError, "'duration' is -1, expected 0 or more"),
        ({"duration": float("nan")}, UsageError, "'duration' is nan, expected 0 or more"),
        ({"duration": float("inf")}, UsageError, "'duration' is inf, expected 0 or more"),
        ({"backend": "loopback"}, UsageError, "unknown argument 'backend'"),
        ({"precision": "fp16"}, UsageError, "unknown argument 'precision'"),
        ({"durations": 1}, UsageError, "unknown argument 'durations'"),
        ({"backends": []}, UsageError, "no backend to compare"),
        ({"params": ["gain"]}, UsageError, "'params' is a list, expected a mapping"),
        ({"params": {"precision": "fp16"}}, UsageError, "'params' cannot contain 'precision'"),
        ({"params": {"gian": 2}}, ParamsError, "unknown parameter 'gian' for loopback"),
        ({"params": {"gain": []}}, ParamsError, "the list of values of 'gain' is empty"),
    ],
    ids=[
        *("negative", "nan", "inf", "backend", "precision", "unknown"),
        *("none", "list", "in params", "typo", "empty"),
    ],
)
def test_a_wrong_argument_writes_nothing(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        compare(tmp_path / "out", **options)
    assert str(caught.value) == message
    assert not (tmp_path / "out").exists()


def test_a_list_of_a_parameter_is_a_row_for_each_value(tmp_path: Path, loopback: str) -> None:
    found = compare(tmp_path, params={"gain": [1.0, 2.0, 1.0], "device": "cpu"}, verify=VERIFY)
    assert [(row.label, row.verdict, row.params) for row in found.rows] == [
        ("loopback gain=1.0", "verified", {"gain": 1.0}),
        ("loopback gain=2.0", "mismatched", {"gain": 2.0}),
    ]
    # What did not pass names its engine too.
    engines = [row.receipt and row.receipt.engine for row in found.rows]
    assert engines == [f"onnx.reference {onnx.__version__}"] * 2
    artifact = eb.open_artifact(tmp_path / "loopback-gain=1.0")
    assert artifact.manifest.params["gain"] == 1.0
    assert lab.report(tmp_path).comparisons[0].rows == found.rows


def test_folders_of_rows_have_different_names(tmp_path: Path, loopback: str) -> None:
    names = ["a/b", "a b", "é" * 99 + "1", "é" * 99 + "2"]
    found = compare(tmp_path, params={"file_name": names}, verify=VERIFY)
    assert [(row.artifact or "").removeprefix(f"{tmp_path}/") for row in found.rows[1:]] == [
        "loopback-file_name=a-b~2",
        f"loopback-file_name={'é' * 90}",
        f"loopback-file_name={'é' * 90}~2",
    ]


@pytest.mark.usefixtures("loopback")
def test_an_unknown_backend_ends_the_comparison(tmp_path: Path) -> None:
    with pytest.raises(BackendNotFoundError):
        compare(tmp_path / "out", backends=["loopback", "loopbak"])
    assert not (tmp_path / "out").exists()


def test_artifacts_are_not_replaced_without_overwrite(folder: Path) -> None:
    before = (folder / ROWS_FILE).read_bytes()
    with pytest.raises(ArtifactExistsError):
        compare(folder)
    with pytest.raises(ArtifactExistsError) as caught:
        compare(folder / "loopback")
    assert str(caught.value) == (
        f"'{folder / 'loopback'}' is an artifact, expected a folder that may contain artifacts"
    )
    assert (folder / ROWS_FILE).read_bytes() == before


@pytest.mark.usefixtures("loopback")
def test_a_request_that_every_backend_refuses_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        compare(tmp_path / "out", precisions=["fp16", "int8"])
    assert not (tmp_path / "out" / ROWS_FILE).exists()


def test_one_name_is_a_list_of_one(tmp_path: Path, loopback: str) -> None:
    (row,) = compare(tmp_path / "out", backends=loopback).rows
    assert row.backend == loopback


def test_an_argument_of_deploy_with_another_name_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        compare(tmp_path / "out", backend="loopback")
    assert caught.value.hint == "pass backends="
    with pytest.raises(UsageError) as caught:
        compare(tmp_path / "out", verfy={})
    assert caught.value.hint == "did you mean 'verify'?"
