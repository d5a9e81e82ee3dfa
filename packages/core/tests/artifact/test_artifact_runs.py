"""Runs on other machines are written into the manifest, whole or not at all."""

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
    return [one.device for one in open_artifact(folder).manifest.runs]


@pytest.fixture
def ahead(tmp_path, publish) -> Path:
    return publish(tmp_path / "model", built_for="a board").path


def test_each_device_has_its_latest_run_and_the_worst_one_is_the_verdict(ahead):
    artifact = open_artifact(ahead)
    for device, verdict in [("A", "verified"), ("B", "crashed"), ("C", "mismatched")]:
        record_run(artifact, run(device, verdict))
    assert devices(ahead) == ["A", "B", "C"]
    assert open_artifact(ahead).verdict == "crashed"
    record_run(artifact, run("B"))
    found = open_artifact(ahead)
    assert devices(ahead) == ["A", "C", "B"]
    assert found.manifest.verification == Verification(verdict="mismatched", reason="on C")
    record_run(artifact, run("C"))
    assert open_artifact(ahead).manifest.verification == run("C").verification


def test_a_crash_names_no_device_and_is_one_of_its_machines(ahead):
    artifact = open_artifact(ahead)
    record_run(artifact, run("A", host="other"))
    record_run(artifact, run("B"))
    record_run(artifact, run("", "crashed"))
    assert (devices(ahead), open_artifact(ahead).verdict) == (["A", ""], "crashed")
    record_run(artifact, run("B"))
    assert (devices(ahead), open_artifact(ahead).verdict) == (["A", "B"], "verified")


def test_an_artifact_that_is_open_stays_usable(ahead):
    artifact = open_artifact(ahead)
    record_run(artifact, run("A"))
    artifact.check_current()
    assert artifact.samples() == []
    assert open_artifact(ahead).digest == artifact.digest


def test_an_artifact_that_took_its_place_gets_no_line_of_it(ahead, publish):
    artifact = open_artifact(ahead)
    publish(ahead, b"other", overwrite=True, built_for="a board")
    before = (ahead / "manifest.json").read_bytes()
    with pytest.raises(ArtifactError) as caught:
        record_run(artifact, run("A"))
    assert str(caught.value).startswith(
        f'"{ahead}" was replaced by another artifact after it was opened'
    )
    assert (ahead / "manifest.json").read_bytes() == before


def test_several_at_once_lose_no_run_and_readers_meet_whole_manifests(ahead):
    code = "for i in range(15): record_run(artifact, run(sys.argv[2] + str(i)))"
    children = [start(code, ahead, name) for name in "pqr"]
    seen = []
    while any(child.poll() is None for child in children):
        seen.append(len(devices(ahead)))
    assert [child.communicate() for child in children] == [("", None)] * 3
    assert seen == sorted(seen)
    assert sorted(devices(ahead)) == sorted(f"{name}{i}" for name in "pqr" for i in range(15))
    assert list(ahead.glob(".manifest*")) == []


def test_a_kill_at_any_moment_leaves_a_whole_manifest(ahead, publish):
    for seed in range(4):
        child = start("print(flush=True)\nwhile True: record_run(artifact, run('A'))", ahead)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.01, 0.03))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert devices(ahead) in ([], ["A"])


def test_what_a_killed_writer_leaves_is_in_nobodys_way(ahead, publish):
    code = (
        "import os, signal\n"
        "os.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "record_run(artifact, run('A'))\n"
    )
    before = (ahead / "manifest.json").read_bytes()
    for _ in range(2):
        start(code, ahead).communicate()
        assert (ahead / "manifest.json").read_bytes() == before
        assert len(list(ahead.glob(".manifest.json.*.part"))) == 1
    record_run(open_artifact(ahead), run("A"))
    assert list(ahead.glob(".manifest*")) == []
    start(code, ahead).communicate()
    publish(ahead, overwrite=True)
    assert list(ahead.glob(".manifest*")) == []


def test_a_full_disk_leaves_the_manifest_as_it_is(ahead):
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (800, 800))\n"
        "try: record_run(artifact, run('A'))\n"
        "except OSError as err: print(err.strerror)\n"
    )
    before = (ahead / "manifest.json").read_bytes()
    assert len(before) > 800
    assert start(code, ahead).communicate()[0] == "File too large\n"
    assert (ahead / "manifest.json").read_bytes() == before
    assert list(ahead.glob(".manifest*")) == []


def test_a_manifest_without_runs_says_nothing_of_them(tmp_path, publish):
    publish(tmp_path / "model")
    data = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert not {"built_for", "runs"} & data.keys()
    manifest = open_artifact(tmp_path / "model").manifest
    assert (manifest.built_for, manifest.runs) == ("", ())
