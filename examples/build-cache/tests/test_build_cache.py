"""The build cache with real engines: hits, misses and their reasons, damage and parallel use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import UsageError
from enginebay_build_cache.command import main
from enginebay_build_cache.plugin import CacheWarning
from enginebay_build_cache.store import Entry, Store, parse_size
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

BACKENDS = ("onnxruntime", "openvino")
CHANGED = {
    "onnxruntime": ({"graph_optimization": "basic"}, "params.graph_optimization", '"all"'),
    "openvino": ({"fp16_weights": True}, "params.fp16_weights", "false"),
}

#: The loopback backend under another name.
LOOPBACK = """
import enginebay as eb
from enginebay_testing import loopback
from enginebay_testing.loopback import LoopbackParams

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="loop", irs=("onnx",), params=LoopbackParams)

@eb.hookimpl
def to_backend(request):
    {body}
    return loopback.to_backend(request)

@eb.hookimpl
def bound_to(request):
    import os
    return {{"board": os.environ.get("BOARD", "A")}}

build_wrapper, check_env = loopback.build_wrapper, loopback.check_env
"""


def loop(body: str = "pass", version: str = "1") -> AbstractContextManager[Path]:
    return temporary_backend("loop", LOOPBACK.format(body=body), version=version)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the cache's folder, which does not exist yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBAY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ENGINEBAY_CACHE_SIZE", raising=False)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def ir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a linear layer and ReLU to ONNX, float32[2, 4] → float32[2, 3]."""
    return export(tmp_path_factory.mktemp("ir") / "net.onnx")


def export(path: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    eb.export(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.ones(2, 4), path=path)
    return path


def deploy(ir: Path, backend: str, work_dir: str, **params: object) -> tuple[eb.Deployment, str]:
    """Deploy a model; return the deployment and the cache's line about it."""
    details: list[str] = []
    deployment = eb.deploy(
        ir,
        torch.randn(2, 4),
        backend=backend,
        work_dir=work_dir,
        params=params,
        watch=lambda step: details.append(step.detail),
    )
    return deployment, next(text for text in details if text.startswith("build cache: "))[13:]


def entries() -> list[Entry]:
    return Store.from_environment().entries()


def convert(ir: Path, work_dir: str, backend: str = "loop", **params: object) -> eb.Artifact:
    return eb.convert(ir, backend=backend, work_dir=work_dir, params=params, overwrite=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_second_deployment_hits(backend: str, ir: Path) -> None:
    first, said = deploy(ir, backend, "first")
    assert "miss, the cache has no build of this backend" in said
    second, said = deploy(ir, backend, "second")
    assert said.endswith(" hit")
    assert first.verdict == second.verdict == "verified"
    assert first.artifact.manifest.model_files == second.artifact.manifest.model_files
    assert first.artifact.manifest.files[0].sha256 == second.artifact.manifest.files[0].sha256
    assert len(entries()) == 1


#: Hooks that make the loopback a backend whose engines run on other machines.
AHEAD = """pass
    if request.simulation:
        import shutil
        path = request.simulation / "graph.onnx"
        {graph}
    return loopback.to_backend(request)

@eb.hookimpl
def built_for(request):
    from enginebay.hooks import BuiltFor
    return BuiltFor("a board", "no board")

@eb.hookimpl(tryfirst=True)
def build_wrapper(request):
    import msgspec
    graph = msgspec.structs.replace(request, files=("simulation/graph.onnx",))
    return loopback.LoopbackWrapper(graph)

def unused(request):"""


@pytest.mark.parametrize(
    "graph",
    [
        "shutil.copyfile(request.ir.path, path)",
        "path.symlink_to(request.ir.path.resolve())",
    ],
)
def test_a_hit_restores_the_graph_of_an_engine_for_another_machine(ir: Path, graph: str) -> None:
    with loop(AHEAD.format(graph=graph)):
        first, _ = deploy(ir, "loop", "first")
        second, said = deploy(ir, "loop", "second")
    assert said.endswith(" hit")
    assert first.verification.simulation is not None
    assert second.verification.simulation is not None
    assert second.artifact.manifest.model_files == first.artifact.manifest.model_files


def test_a_build_whose_graph_links_elsewhere_is_not_stored(ir: Path, tmp_path: Path) -> None:
    other = export(tmp_path / "other.onnx")
    with loop(AHEAD.format(graph=f"path.symlink_to({str(other)!r})")):
        first, _ = deploy(ir, "loop", "first")
    assert first.verification.simulation is not None
    assert not entries()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_that_is_exported_twice_hits(backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    for number in range(2):
        eb.deploy(model, torch.ones(1, 3, 8, 8), backend=backend, work_dir=f"{number}")
    (entry,) = entries()
    assert "the cache has no build of this backend" in entry.about.missed


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_verdict_is_computed_for_a_hit(
    backend: str, ir: Path, tmp_path: Path, folder: Path
) -> None:
    # The cached files, and their digests, are replaced by another model's.
    deploy(ir, backend, "a")
    deploy(export(tmp_path / "b.onnx", seed=1), backend, "b")
    b, a = (folder / "entries" / entry.digest for entry in entries())
    shutil.rmtree(a / "files")
    shutil.copytree(b / "files", a / "files")
    about = json.loads((a / "entry.json").read_bytes())
    about["files"] = json.loads((b / "entry.json").read_bytes())["files"]
    (a / "entry.json").write_text(json.dumps(about))
    with pytest.raises(eb.NotVerifiedError):
        deploy(ir, backend, "again")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_changed_parameter_misses_and_is_explained(
    backend: str, ir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, field, before = CHANGED[backend]
    deploy(ir, backend, "first")
    now = json.dumps(next(iter(change.values())))
    made, said = deploy(ir, backend, "second", **change)
    assert made.verdict == "verified"
    (nearest,) = [entry for entry in entries() if "most similar" not in entry.about.missed[0]]
    wanted = f"miss, the most similar build was {nearest.digest[:12]}; {field}: {now}, was {before}"
    assert said.endswith(wanted)
    assert main(["explain"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"  the most similar build was {nearest.digest[:12]}",
        f"  {field}: {now}, was {before}",
    ]
    assert deploy(ir, backend, "third", **change)[1].endswith(" hit")


def test_a_build_of_one_backend_is_a_miss_for_another(ir: Path) -> None:
    for backend in BACKENDS:
        assert "the cache has no build of this backend" in deploy(ir, backend, backend)[1]


def test_external_weights_are_part_of_the_key(ir: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(ir)
    apart = tmp_path / "apart" / "net.onnx"
    apart.parent.mkdir()
    onnx.save_model(model, apart, save_as_external_data=True, location="net.bin", size_threshold=0)
    deploy(apart, "onnxruntime", "first")
    made, said = deploy(apart, "onnxruntime", "second")
    assert said.endswith(" hit")
    assert made.verdict == "verified"
    weights = apart.with_name("net.bin")
    weights.write_bytes(weights.read_bytes()[::-1])
    deploy(apart, "onnxruntime", "third")
    assert [line.split(":")[0] for line in entries()[0].about.missed[1:]] == ["ir.digest"]


@pytest.mark.parametrize("attribute", ["", ":attr"], ids=["a path", "an object of a file"])
def test_a_changed_file_that_a_parameter_names_is_a_miss(
    ir: Path, tmp_path: Path, attribute: str
) -> None:
    samples = tmp_path / "samples.npz"
    samples.write_bytes(b"one")
    convert(ir, "a", "onnxruntime", session_options={"log": f"{samples}{attribute}"})
    samples.write_bytes(b"two")
    convert(ir, "b", "onnxruntime", session_options={"log": f"{samples}{attribute}"})
    fields = [line.split(":")[0] for line in entries()[0].about.missed[1:]]
    assert fields == ["content.session_options.log"]


def test_other_calibration_data_is_a_miss(ir: Path) -> None:
    def calibrated(value: float, work_dir: str) -> eb.Artifact:
        data = [np.full((2, 4), value, np.float32), np.ones((2, 4), np.float32)]
        params = {"precision": "int8"}
        return eb.convert(ir, backend="onnxruntime", work_dir=work_dir, params=params, data=data)

    first = calibrated(2, "a")
    assert calibrated(2, "b").manifest.data == first.manifest.data
    assert len(entries()) == 1
    calibrated(3, "c")
    assert [line.split(":")[0] for line in entries()[0].about.missed[1:]] == ["calibration"]


def test_other_nodes_in_floating_point_are_a_miss(tmp_path: Path) -> None:
    path = tmp_path / "two.onnx"
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    eb.export(model, torch.ones(2, 4), path=path)
    given = {"params": {"precision": "int8"}, "data": [np.eye(2, 4, dtype=np.float32)]}
    for number, keep in enumerate([[], ["node_linear"]]):
        eb.convert(path, backend="onnxruntime", work_dir=f"k{number}", int8_keep=keep, **given)
    assert [line.split(":")[0] for line in entries()[0].about.missed[1:]] == ["keep"]


def test_other_unordered_outputs_are_a_miss(tmp_path: Path) -> None:
    # A backend may convert a model differently if the order of an output is free.
    with loop():
        for number, compare in enumerate([{}, {"output": "set"}]):
            eb.deploy(
                torch.nn.ReLU(),
                torch.randn(3, 2),
                backend="loop",
                work_dir=tmp_path / f"u{number}",
                verify=eb.VerifyOptions(compare=compare),
            )
    assert [line.split(":")[0] for line in entries()[0].about.missed[1:]] == ["unordered"]


def test_another_plugin_version_source_or_binding_is_a_miss(
    ir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loop():
        convert(ir, "a")
        monkeypatch.setenv("BOARD", "B")
        convert(ir, "b")
    assert entries()[0].about.missed[1:] == ('bound_to.board: "B", was "A"',)
    with loop(version="2"):
        convert(ir, "c")
    assert entries()[0].about.missed[1:] == ('version.temporary-loop: "2", was "1"',)
    with loop("print", version="2"):
        convert(ir, "d")
    assert [line.split(":")[0] for line in entries()[0].about.missed[1:]] == ["source"]


def test_the_engine_and_its_version_are_in_the_key(ir: Path) -> None:
    import onnxruntime

    convert(ir, "a", "onnxruntime")
    key = entries()[0].about.key
    assert json.loads(key["version.onnxruntime"]) == onnxruntime.__version__
    assert json.loads(key["version.enginebay"]) == eb.__version__
    assert json.loads(key["params.device"]) == "cpu"
    assert not any("work_dir" in field for field in key)


@pytest.mark.parametrize("damage", ["edited", "emptied", "gone", "description", "escape"])
def test_a_damaged_entry_is_deleted_and_built_again(damage: str, ir: Path, folder: Path) -> None:
    first, _ = deploy(ir, "openvino", "first")
    (entry,) = (folder / "entries").iterdir()
    file = next((entry / "files").glob("*.bin"))
    if damage == "edited":
        file.write_bytes(file.read_bytes()[::-1])
    elif damage == "emptied":
        file.write_bytes(b"")
    elif damage == "gone":
        file.unlink()
    elif damage == "description":
        (entry / "entry.json").write_text("{")
    else:
        text = (entry / "entry.json").read_text()
        (entry / "entry.json").write_text(text.replace('"model.bin"', '"../model.bin"'))
    second, said = deploy(ir, "openvino", "second")
    assert "miss, the entry was damaged: " in said
    assert second.verdict == "verified"
    assert [f.sha256 for f in second.artifact.manifest.files if f.path == "model.bin"] == [
        f.sha256 for f in first.artifact.manifest.files if f.path == "model.bin"
    ]
    assert deploy(ir, "openvino", "third")[1].endswith(" hit")


def test_a_failed_build_is_not_stored(ir: Path) -> None:
    with loop("raise ValueError('no')"), pytest.raises(eb.EnginebayError, match="ValueError: no"):
        convert(ir, "a")
    assert entries() == []


@pytest.mark.parametrize("result", ["[7]", "7", "None", "'model.onnx'"])
def test_core_rejects_a_result_that_is_no_list_of_files(ir: Path, result: str) -> None:
    message = "expected a list of files"
    with loop(f"return {result}"), pytest.raises(eb.EnginebayError, match=message):
        convert(ir, "a")
    assert entries() == []


def test_the_least_recently_used_entry_is_deleted_first(
    ir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loop():
        for number, gain in enumerate((1.0, 2.0, 3.0)):
            convert(ir, "out", gain=gain)
            (entry,) = [e for e in entries() if json.loads(e.about.key["params.gain"]) == gain]
            os.utime(folder / "entries" / entry.digest / "entry.json", (number, number))
        convert(ir, "out", gain=1.0)  # used again
        monkeypatch.setenv("ENGINEBAY_CACHE_SIZE", str(3 * entries()[0].size))
        convert(ir, "out", gain=4.0)
        kept = {json.loads(entry.about.key["params.gain"]) for entry in entries()}
        assert kept == {1.0, 3.0, 4.0}
        monkeypatch.setenv("ENGINEBAY_CACHE_SIZE", "1")
        convert(ir, "out", gain=5.0)  # larger than the limit: it is not stored
        assert len(entries()) == 3


def test_check_env_does_not_use_the_cache(folder: Path) -> None:
    assert eb.get_backend("onnxruntime").check_env().ok
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_only_a_warning(ir: Path, folder: Path) -> None:
    folder.write_text("a file")
    with pytest.warns(CacheWarning, match=r"build cache '.*' cannot be written: ") as caught:
        convert(ir, "out", "onnxruntime")
    assert len(caught) == 1
    assert (Path("out") / "manifest.json").is_file()


def test_an_invalid_size_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, ir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINEBAY_CACHE_SIZE", "much")
    with pytest.raises(UsageError) as caught:
        convert(ir, "out", "onnxruntime")
    wanted = (
        "invalid ENGINEBAY_CACHE_SIZE 'much': expected a number, followed by K, M, G, T or nothing"
    )
    assert str(caught.value) == wanted
    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"error: {wanted}\nhint: ENGINEBAY_CACHE_SIZE=10G\n"
    assert parse_size("2k") == 2048


def test_the_command_lists_explains_and_clears(
    ir: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain"]) == 2
    assert capsys.readouterr().err == (f"error: the build cache '{folder}' is empty\n")
    convert(ir, "out", "onnxruntime")
    (entry,) = entries()
    assert main(["list"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{entry.digest[:12]}  onnxruntime  {entry.size} bytes  built ")
    assert last == f"1 build, {entry.size} of {10 << 30} bytes, in {folder}"
    assert main(["explain", entry.digest[:4]]) == 0
    assert "  the cache has no build of this backend\n" in capsys.readouterr().out
    assert main(["explain", "xyz"]) == 2
    assert (
        f"expected one build whose name starts with 'xyz' in the cache '{folder}', found 0"
        in capsys.readouterr().err
    )
    assert main(["clear"]) == 0
    assert capsys.readouterr().out == f"1 build deleted from {folder}\n"
    assert entries() == []


RACE = """
import sys
import enginebay as eb
for number in range(12):
    params = {"gain": 1.0 + number % 3}
    eb.convert(sys.argv[1], backend="loop", work_dir=sys.argv[2], params=params, overwrite=True)
    eb.open_artifact(sys.argv[2])
"""


def test_processes_share_a_folder(ir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Four processes build, find and delete the same three entries in a folder for two.
    with loop() as plugin:
        convert(ir, "out", gain=9.0)
        size = entries()[0].size
        monkeypatch.setenv("ENGINEBAY_CACHE_SIZE", str(2 * size))
        path = os.pathsep.join([str(plugin), *filter(None, sys.path)])
        running = [
            subprocess.Popen(
                [sys.executable, "-W", "error", "-c", RACE, str(ir), f"out{number}"],
                env={**os.environ, "PYTHONPATH": path},
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(4)
        ]
        said = [process.communicate()[1] for process in running]
        assert [process.returncode for process in running] == [0] * 4, said
        assert list((folder / "scratch").iterdir()) == []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for gain in (1.0, 2.0, 3.0):
                convert(ir, "out", gain=gain)
        assert sum(entry.size for entry in entries()) <= 2 * size
