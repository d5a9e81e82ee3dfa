"""Reports: the records that they collect and refuse, and the files that they are written to."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import numpy as np
import pytest
from tests.report_schema import json_schema

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactError, UsageError
from enginebay_lab.sweeps.rows_file import RowsFile
from enginebay_testing.command_runs import Ran, call_command

if TYPE_CHECKING:
    from pathlib import Path

#: The artifact "bad" is wrong on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the recorded verdict of:enginebay.VerdictWarning")

Run = Callable[..., Ran]
EXPECTED = (
    "expected the folder of a comparison, a sweep or an artifact, or a JSON file that deploy, "
    "benchmark, evaluate, verify, sensitivity, sweep or report wrote"
)
NET = """\
import torch


def build(seed=0, outputs=3):
    torch.manual_seed(seed)
    return torch.nn.Linear(4, outputs).eval(), torch.full((1, 4), 1.0 + seed)
"""


def network(seed: int = 0, outputs: int = 3) -> Any:
    namespace: dict[str, Any] = {}
    exec(NET, namespace)
    return namespace["build"](seed, outputs)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, loopback: str) -> Path:
    """Two artifacts of a model, one of other weights, one of another width; and some data."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "net.py").write_text(NET)
    export = {"exporter": "torchscript"}
    lab.compare(*network(), work_dir=folder / "all", backends=[loopback], export=export)
    shutil.copytree(folder / "all" / loopback, folder / "good")
    for name, seed, outputs, gain in [
        ("bad", 0, 3, -1.0),
        ("weights", 1, 3, 1.0),
        ("wide", 0, 5, 1.0),
    ]:
        eb.deploy(
            *network(seed, outputs),
            backend=loopback,
            work_dir=folder / name,
            params={"gain": gain},
            export=export,
            verify={"allow_mismatch": True},
        )
    x = np.random.default_rng(0).normal(size=(20, 1, 4)).astype(np.float32)
    np.savez(folder / "data.npz", input=x, target=np.zeros(20, np.int64))
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the artifacts to a new current folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(here: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return partial(call_command, capfd)


def test_records_of_one_model_are_collected(here: Path) -> None:
    data = eb.DataSet("data.npz")
    evaluation = lab.evaluate(["good", "bad"], data, "accuracy", model="net.py:build")
    found = lab.report("good", evaluation)
    assert found.evaluations == (evaluation,)
    assert [artifact.path for artifact in found.artifacts] == [f"{here}/good", f"{here}/bad"]
    assert [artifact.size for artifact in found.artifacts] == [
        sum(file.size for file in eb.open_artifact(name).manifest.files) for name in ("good", "bad")
    ]


def test_the_json_document_fits_its_schema_and_can_be_read_again(here: Path) -> None:
    lab.report("all", "bad", command="make").save("one.json")
    plain = json.loads((here / "one.json").read_text())
    jsonschema.Draft202012Validator.check_schema(json_schema())
    jsonschema.validate(plain, json_schema())
    assert lab.report("one.json").to_json() == plain
    both = lab.report("one.json", "good").to_json()
    assert both["comparisons"] == plain["comparisons"]
    assert [each["path"] for each in both["artifacts"]] == [
        f"{here}/{name}" for name in ("all/loopback", "bad", "good")
    ]


def test_a_comparison_adds_its_artifacts_that_still_exist(here: Path) -> None:
    (row,) = lab.report("all").comparisons[0].rows
    assert row.artifact is not None
    assert row.artifact == f"{here}/all/loopback"  # the folder was copied after it was made
    assert [artifact.path for artifact in lab.report("all").artifacts] == [row.artifact]
    shutil.rmtree("all/loopback")
    shutil.copytree("bad", "all/loopback")  # another verdict: not what the row was about
    assert lab.report("all").artifacts == ()
    shutil.rmtree("all/loopback")
    (lost,) = lab.report("all").comparisons[0].rows
    assert lost.verification == row.verification


def test_a_new_verdict_replaces_that_of_the_manifest(here: Path) -> None:
    verdict = eb.Verification.unverified("nobody looked")
    found = lab.report("good", verdict).artifacts[0]
    assert found.manifest.verification == verdict
    with pytest.raises(UsageError, match="a verdict without its artifact cannot be reported"):
        lab.report(verdict)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (
            "weights",
            (
                "the reference outputs recorded for the same inputs differ, so the weights may "
                "differ"
            ),
        ),
        (
            "wide",
            "their outputs are output float32[1, 3] and output float32[1, 5]",
        ),
    ],
)
def test_artifacts_of_different_models_are_refused(here: Path, other: str, difference: str) -> None:
    with pytest.raises(UsageError) as caught:
        lab.report("good", "bad", other)
    assert str(
        caught.value
    ) == f"'{here}/good' and '{here}/{other}' are not of the same model: " + (difference)
    assert caught.value.hint == "make a separate report for each model"


def test_sources_that_cannot_be_reported_are_refused(here: Path) -> None:
    (here / "foreign").mkdir()
    for name, text in {
        "some.json": '{"a": 1, "b": 2}',
        "list.json": "[1]",
        "text.json": "hello",
        "empty.json": "",
        "rows.json": '{"kind": "comparison", "model": "m", "rows": []}',
        "cut.json": '{"kind": "comparison", "model": "m", "rows": [{"backend": 1}]}',
        "deep.json": '{"a": ' + "[" * 100_000,
        "within.json": '{"kind": "report", "a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "error.json": '{"schema": 1, "error": {"message": "no model"}}',
        "new.json": '{"kind": "report", "schema": 9, "artifacts": []}',
    }.items():
        (here / name).write_text(text)
    neither = f"contains neither comparison.json nor manifest.json; {EXPECTED}"
    none, malformed = (
        "is not JSON that a command wrote",
        "JSON is malformed: invalid character (byte 0)",
    )
    for source, message in [
        ("nowhere", f"'nowhere' does not exist; {EXPECTED}"),
        ("foreign", f"'foreign' {neither}"),
        (".", f"'.' {neither}"),
        ("some.json", f"'some.json' has no field 'kind'; {EXPECTED}"),
        ("list.json", f"'list.json' {none}: Expected `object`, got `array`; {EXPECTED}"),
        ("text.json", f"'text.json' {none}: {malformed}; {EXPECTED}"),
        ("empty.json", f"'empty.json' {none}: it is empty; {EXPECTED}"),
        ("deep.json", f"'deep.json' {none}: the JSON is nested too deeply; {EXPECTED}"),
        ("within.json", f"'within.json' {none}: the JSON is nested too deeply; {EXPECTED}"),
        ("rows.json", "'rows.json' contains no rows, so there is nothing to report"),
        ("cut.json", "'cut.json' is damaged: Expected `str`, got `int` - at `$.rows[0].backend`"),
        ("error.json", "'error.json' contains only the error of a command: no model"),
        (
            "new.json",
            "'new.json' is a report of schema 9, expected schema 1 of this Enginebay",
        ),
    ]:
        with pytest.raises(UsageError) as caught:
            lab.report(source)
        assert str(caught.value) == message
    with pytest.raises(UsageError, match=r"nothing to report; expected the folder"):
        lab.report()
    with pytest.raises(UsageError, match=r"a report cannot show a int; expected a result"):
        lab.report(3)
    (here / "good" / "manifest.json").write_text("{}")
    with pytest.raises(ArtifactError, match="is not an Enginebay manifest"):
        lab.report("good")


def test_hints_suggest_the_similar_file_or_the_folders(here: Path) -> None:
    for source, hint in [(".", "name its subfolders: enginebay report ./*/"), ("god", "good")]:
        with pytest.raises(UsageError) as caught:
            lab.report(source)
        assert caught.value.hint is not None
        assert hint in caught.value.hint


def test_a_report_replaces_a_report_and_nothing_else(here: Path) -> None:
    found = lab.report("good")
    found.save("out.json")
    found.save("out.json")
    for name, message in [
        ("net.py", "the report's name 'net.py' does not end with .html or .json"),
        ("net.py/a/out.json", f"'{here}/net.py' is not a folder"),
        ("all/comparison.json", "'all/comparison.json' exists and is not a report, so it is not "),
        ("folder.json", "'folder.json' exists and is not a report, so it is not replaced"),
    ]:
        (here / "folder.json").mkdir(exist_ok=True)
        with pytest.raises(UsageError) as caught:
            found.save(name)
        assert str(caught.value).startswith(message)
    assert lab.report("all").comparisons
    assert not list(here.glob(".*.part"))


def test_report_on_the_command_line(cli: Run, here: Path) -> None:
    assert cli("report", "good", "bad", "--output", "out.json").code == 0
    document = cli("report", "out.json", "--json").document
    assert len(document["artifacts"]) == 2
    assert document["command"] == (
        f"cd {shlex.quote(str(here))} && enginebay report good bad --output out.json"
    )
    assert not (here / "report.html").exists()
    refused = cli("report", "good", "wide", "--output", "two.json")
    assert refused.code == 2
    assert "are not of the same model" in refused.err
    assert not (here / "two.json").exists()


def test_report_of_the_commands_that_measure(cli: Run, here: Path) -> None:
    data = ("--data", "data.npz", "--metric", "accuracy", "--model", "net.py:build")
    for code, words, key in [
        (0, ("evaluate", "good", *data, "--report", "e.json"), "evaluations"),
        (0, ("benchmark", "good", "--duration", "0.2", "--report", "b.json"), "benchmarks"),
        (0, ("report", "bad", "--output", "new/v.json"), "artifacts"),
    ]:
        ran = cli(*words)
        assert ran.code == code, ran.err
        assert words[0] == "report" or f"report: {words[-1]}\n" in ran.err
        assert json.loads((here / words[-1]).read_text())[key]
    together = lab.report("e.json", "new/v.json", "b.json")
    assert [artifact.path for artifact in together.artifacts] == [f"{here}/good", f"{here}/bad"]


def test_a_wrong_report_file_is_refused_before_anything_is_measured(cli: Run, here: Path) -> None:
    benchmark = ("benchmark", "good", "wide", "--duration", "60", "--output", "rows.jsonl")
    assert cli(*benchmark, "--report", "b.json").code == 2
    assert cli("bisect", "good", "--report", "net.py").code == 2
    for words in ("net.py", "net.py/out.html"):
        refused = cli("compare", "net.py:build", "--backend", "loopback", "--report", words)
        assert refused.code == 2
    assert not (here / "rows.jsonl").exists()
    assert not (here / "net-build-comparison").exists()


def test_rows_files_make_a_report(cli: Run, here: Path) -> None:
    data = ("--data", "data.npz", "--metric", "accuracy", "--metric", "top-2")
    assert cli("evaluate", "good", "bad", *data, "--output", "rows.jsonl").code == 0
    assert len(lab.report("rows.jsonl").evaluations[0].rows) == 4
    lines = (here / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (here / "rows.jsonl").write_bytes(b"".join(lines[:1]) + lines[1][:20])
    assert len(lab.report("rows.jsonl").evaluations[0].rows) == 1
    assert cli("benchmark", "good", "--duration", "0.2", "--output", "speed.jsonl").code == 0
    assert len(lab.report("speed.jsonl").benchmarks[0].rows) == 1
    (here / "speed.jsonl").write_bytes((here / "speed.jsonl").read_bytes().splitlines(True)[0])
    with pytest.raises(UsageError, match=r"'speed.jsonl' contains no complete row; expected"):
        lab.report("speed.jsonl")


def test_a_sweep_is_of_many_models(cli: Run, here: Path) -> None:
    fields: dict[str, Any] = {"backend": "loopback", "precision": ""}
    rows = [
        lab.SweepRow(key=f"{n}", model=model, verdict=verdict, **fields)
        for n, (model, verdict) in enumerate([("b.py", "verified"), ("a.py", "lost")])
    ]
    with RowsFile(here / "out" / "rows.jsonl", resume=False) as file:
        file.append(rows[0])
        assert lab.report("out").sweeps == (lab.Sweep(rows=(rows[0],)),)
        file.append(rows[1])
    found = lab.report("out/rows.jsonl", "good", "all")
    assert found.sweeps == (lab.Sweep(rows=(rows[1], rows[0])),)
    assert len(found.artifacts) == 2
    assert cli("report", "out", "--output", "one.json").code == 0
    jsonschema.validate(json.loads((here / "one.json").read_text()), json_schema())
    assert lab.report("one.json", "good").sweeps == found.sweeps
    (here / "two.json").write_bytes(msgspec.json.encode(found.sweeps[0]))
    assert lab.report("two.json").sweeps == found.sweeps
    for name, text, message in [
        (
            "rows.json",
            '{"kind": "sweep", "rows": []}',
            "contains no rows, so there is nothing",
        ),
        (
            "new.jsonl",
            '{"kind":"sweep row","schema":2,"key":""}',
            "contains sweep rows of version 2",
        ),
        (
            "bad.jsonl",
            '{"kind":"sweep row","schema":1,"key":""}',
            "contains no sweep rows: Object m",
        ),
    ]:
        (here / name).write_text(text)
        refused = cli("report", name, "--output", "refused.json")
        assert refused.code == 2
        assert refused.err.startswith(f"error: '{name}' {message}")


def test_documents_of_commands_are_sources(cli: Run, here: Path) -> None:
    for name, words in {
        "inspected.json": ("inspect", "good", "--json"),
        "verified.json": ("verify", "bad", "--json"),
    }.items():
        (here / name).write_text(cli(*words).out)
    good, bad = lab.report("inspected.json", "verified.json").artifacts
    assert (good.path, bad.path) == (f"{here}/good", f"{here}/bad")
    assert bad.manifest.verification is not None
    assert bad.manifest.verification.verdict == "mismatched"
