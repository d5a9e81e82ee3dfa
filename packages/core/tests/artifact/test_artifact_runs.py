"""Runs on other machines are recorded in the manifest, completely or not at all."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from enginebay.artifact import RunRecord, open_artifact, record_run
from enginebay.errors import ArtifactError
from enginebay.verdict import Verification

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from enginebay.artifact import RunRecord, open_artifact, record_run
from enginebay.verdict import Verification

def run(device):
    return RunRecord(
        host="lab", device=device, engine_version="1", time="now",
        verification=Verification(verdict="verified"),
    )

artifact = open_artifact(sys.argv[1])
"""


def run(device: str, verdict: str = "verified", host: str = "lab") -> RunRecord:
    return RunRecord(
        host=host,
        device=device,
        engine_version="1",
        time="now",
        verification=Verification(verdict=verdict, reason=f"on {device}"),
    )


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def devices(folder: Path) -> list[str]:
    return [record.device for record in open_artifact(folder).manifest.runs]


@pytest.fixture
def cross_built(tmp_path, publish) -> Path:
    return publish(tmp_path / "model", built_for="a board").path


def test_the_verdict_is_the_worst_of_the_latest_runs(cross_built):
    artifact = open_artifact(cross_built)
    for device, verdict in [("A", "verified"), ("B", "crashed"), ("C", "mismatched")]:
        record_run(artifact, run(device, verdict))
    assert devices(cross_built) == ["A", "B", "C"]
    assert open_artifact(cross_built).verdict == "crashed"
    record_run(artifact, run("B"))
    worst = open_artifact(cross_built)
    assert devices(cross_built) == ["A", "C", "B"]
    assert worst.manifest.verification == Verification(verdict="mismatched", reason="on C")
    record_run(artifact, run("C"))
    assert open_artifact(cross_built).manifest.verification == run("C").verification


def test_a_crash_replaces_the_runs_of_its_host(cross_built):
    artifact = open_artifact(cross_built)
    record_run(artifact, run("A", host="other"))
    record_run(artifact, run("B"))
    record_run(artifact, run("", "crashed"))
    assert (devices(cross_built), open_artifact(cross_built).verdict) == (["A", ""], "crashed")
    record_run(artifact, run("B"))
    assert (devices(cross_built), open_artifact(cross_built).verdict) == (["A", "B"], "verified")


def test_recording_a_run_leaves_open_artifacts_usable(cross_built):
    artifact = open_artifact(cross_built)
    record_run(artifact, run("A"))
    artifact.check_current()
    assert artifact.samples() == []
    assert open_artifact(cross_built).digest == artifact.digest


def test_a_run_of_a_replaced_artifact_is_not_recorded(cross_built, publish):
    artifact = open_artifact(cross_built)
    publish(cross_built, b"other", overwrite=True, built_for="a board")
    before = (cross_built / "manifest.json").read_bytes()
    with pytest.raises(ArtifactError) as caught:
        record_run(artifact, run("A"))
    assert str(caught.value).startswith(
        f'"{cross_built}" was replaced by another artifact after it was opened'
    )
    assert (cross_built / "manifest.json").read_bytes() == before


def test_concurrent_processes_record_every_run(cross_built):
    code = "for i in range(15): record_run(artifact, run(sys.argv[2] + str(i)))"
    children = [start(code, cross_built, name) for name in "pqr"]
    seen = []
    while any(child.poll() is None for child in children):
        seen.append(len(devices(cross_built)))
    assert [child.communicate() for child in children] == [("", None)] * 3
    assert seen == sorted(seen)
    assert sorted(devices(cross_built)) == sorted(f"{name}{i}" for name in "pqr" for i in range(15))
    assert list(cross_built.glob(".manifest*")) == []


def test_a_kill_at_any_moment_leaves_a_whole_manifest(cross_built, publish):
    for seed in range(4):
        child = start("print(flush=True)\nwhile True: record_run(artifact, run('A'))", cross_built)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.01, 0.03))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert devices(cross_built) in ([], ["A"])


def test_part_files_of_a_killed_writer_are_removed(cross_built, publish):
    code = (
        "import os, signal\n"
        "os.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "record_run(artifact, run('A'))\n"
    )
    before = (cross_built / "manifest.json").read_bytes()
    for _ in range(2):
        start(code, cross_built).communicate()
        assert (cross_built / "manifest.json").read_bytes() == before
        assert len(list(cross_built.glob(".manifest.json.*.part"))) == 1
    record_run(open_artifact(cross_built), run("A"))
    assert list(cross_built.glob(".manifest*")) == []
    start(code, cross_built).communicate()
    publish(cross_built, overwrite=True)
    assert list(cross_built.glob(".manifest*")) == []


def test_a_full_disk_leaves_the_manifest_as_it_is(cross_built):
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (800, 800))\n"
        "try: record_run(artifact, run('A'))\n"
        "except OSError as err: print(err.strerror)\n"
    )
    before = (cross_built / "manifest.json").read_bytes()
    assert len(before) > 800
    assert start(code, cross_built).communicate()[0] == "File too large\n"
    assert (cross_built / "manifest.json").read_bytes() == before
    assert list(cross_built.glob(".manifest*")) == []


def test_a_manifest_without_runs_omits_their_fields(tmp_path, publish):
    publish(tmp_path / "model")
    data = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert not {"built_for", "runs"} & data.keys()
    manifest = open_artifact(tmp_path / "model").manifest
    assert (manifest.built_for, manifest.runs) == ("", ())
