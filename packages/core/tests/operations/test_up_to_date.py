"""A second deployment does nothing if nothing has changed, and says what has."""

from __future__ import annotations

import importlib
import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch

import enginebay as eb
from enginebay.errors import ArtifactExistsError, UsageError
from enginebay.operations.read_files import watch_files
from enginebay_testing.command_runs import run_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")

NET = """
from pathlib import Path
import torch
from parts_of_net import width
HERE = Path(__file__).parent

def build():
    torch.manual_seed(0)
    eps = float((HERE / "eps.txt").read_text())
    layers = torch.nn.Linear(4, width), torch.nn.LayerNorm(width, eps=eps)
    return torch.nn.Sequential(*layers).eval(), torch.ones(1, 4)
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model in two modules, which reads a file."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "parts_of_net.py").write_text("width = 3\n")
    (tmp_path / "eps.txt").write_text("1e-5")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("parts_of_net", None)


def deploy(model: object = "net.py:build", *args: Any, **options: Any) -> eb.Deployment:
    options.setdefault("reuse", True)
    return eb.deploy(model, *args, backend="loopback", work_dir="out", **options)


def built_again(deployment: eb.Deployment) -> str:
    """Return what the deployment says has changed."""
    (note,) = (note for note in deployment.notes if "built again" in note)
    return note


def test_nothing_changed_is_up_to_date(net: Path) -> None:
    first = deploy()
    second = deploy()
    assert first.steps
    assert not second.steps
    assert second.verdict == "verified"
    assert second.notes == ("up to date: nothing that it was built from has changed",)
    assert second.artifact.manifest == first.artifact.manifest


@pytest.mark.parametrize(
    ("file", "content", "state"),
    [
        ("net.py", NET.replace("manual_seed(0)", "manual_seed(1)"), "has changed"),
        ("parts_of_net.py", "width = 5\n", "has changed"),
        ("eps.txt", "1e-3", "has changed"),
    ],
)
def test_changed_file_is_named(net: Path, file: str, content: str, state: str) -> None:
    deploy()
    old = (net / file).stat()
    (net / file).write_text(content)
    os.utime(net / file, ns=(old.st_atime_ns, old.st_mtime_ns))  # its time proves nothing
    sys.modules.pop("parts_of_net", None)
    assert built_again(deploy()) == f"built again: {net / file} {state}"


def test_pipe_that_the_model_reads_is_not_read_again(net: Path) -> None:
    os.mkfifo(net / "pipe")
    read = "    os.read(os.open(HERE / 'pipe', os.O_RDONLY | os.O_NONBLOCK), 1)\n"
    (net / "net.py").write_text("import os" + NET.replace("    layers", f"{read}    layers"))
    deploy()
    assert not deploy().steps


def test_parameter_of_a_class_of_its_own_is_text(net: Path) -> None:
    params = {"file_name": "net.onnx"}
    deploy(params=params)
    assert not deploy(params=params).steps
    again = built_again(deploy())
    assert again == "built again: params.file_name: net.onnx → default"


def test_deployments_at_once_hear_each_file(tmp_path: Path) -> None:
    first, second = watch_files(), watch_files()
    files = [tmp_path / name for name in ("a", "b", "c")]
    for file in files:
        file.touch()
    opened = first.__enter__()
    files[0].read_text()
    also = second.__enter__()
    files[1].read_text()
    first.__exit__(None, None, None)  # the threads end in any order
    files[2].read_text()
    second.__exit__(None, None, None)
    a, b, c = map(str, files)
    assert ({a, b} <= opened, c in opened) == (True, False)
    assert ({b, c} <= also, a in also) == (True, False)


def test_touched_file_is_no_change(net: Path) -> None:
    deploy()
    (net / "net.py").write_text(NET)
    os.utime(net / "eps.txt")
    assert not deploy().steps


def test_missing_file_is_named(net: Path) -> None:
    (net / "net.py").write_text(NET.replace('(HERE / "eps.txt")', 'next(HERE.glob("*.txt"))'))
    deploy()
    (net / "eps.txt").rename(net / "other.txt")
    assert built_again(deploy()) == f"built again: {net / 'eps.txt'} is gone"


def test_changed_option_is_named(net: Path) -> None:
    deploy()
    opened = deploy(dynamic="batch")
    assert built_again(opened) == "built again: dynamic: none → batch"
    looser = deploy(dynamic="batch", verify={"rtol": 0.01})
    assert built_again(looser) == "built again: verify.rtol: default → 0.01"
    both = built_again(deploy())
    assert both == "built again: dynamic: batch → none, verify.rtol: 0.01 → default"


def test_other_example_is_a_change(net: Path) -> None:
    deploy("net.py:build", torch.zeros(1, 4))
    assert not deploy("net.py:build", torch.zeros(1, 4)).steps
    assert "args: " in built_again(deploy("net.py:build", torch.ones(1, 4)))


def test_weights_file_counts_by_its_content(net: Path) -> None:
    weights = net / "best.pt"
    state = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3)).state_dict()
    torch.save(state, weights)
    model = f"net.py:build?weights={weights}"
    deploy(model)
    assert not deploy(model).steps
    torch.save({name: value + 1 for name, value in state.items()}, weights)
    assert built_again(deploy(model)) == f"built again: {weights} has changed"


def test_external_data_of_a_file_counts(net: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.ones((4, 300), np.float32), "w")
    x = onnx.helper.make_tensor_value_info("x", 1, [1, 4])
    y = onnx.helper.make_tensor_value_info("y", 1, [1, 300])
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weight])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(model, net / "m.onnx", save_as_external_data=True, location="m.bin")
    deploy("m.onnx")
    assert not deploy("m.onnx").steps
    data = (net / "m.bin").read_bytes()
    (net / "m.bin").write_bytes(data[:-1] + b"\x40")
    assert built_again(deploy("m.onnx")) == f"built again: {net / 'm.bin'} has changed"


def test_new_file_in_the_folder_of_the_data_is_a_change(net: Path) -> None:
    data = net / "items"
    data.mkdir()
    for number in range(3):
        np.savez(data / f"{number}.npz", input=np.full((1, 4), number, np.float32))
    deploy(data="items")
    assert not deploy(data="items").steps
    np.savez(data / "9.npz", input=np.full((1, 4), 9, np.float32))
    assert built_again(deploy(data="items")) == f"built again: {data / '9.npz'} is new"


def test_module_counts_by_its_weights_and_structure(net: Path) -> None:
    torch.manual_seed(0)
    module, x = torch.nn.Linear(4, 3), torch.ones(1, 4)
    deploy(module, x)
    assert not deploy(module, x).steps
    with torch.no_grad():
        module.bias += 1
    with pytest.raises(ArtifactExistsError, match="contains an artifact"):
        deploy(module, x)


HIDDEN = """
import sqlite3
from pathlib import Path
import torch
HERE = Path(__file__).parent

def build():
    (seed,) = sqlite3.connect(HERE / "seed.db").execute("SELECT seed FROM seeds").fetchone()
    torch.manual_seed(seed)
    bias = not (HERE / "no_bias").exists()
    try:
        import optional_part
    except ImportError:
        pass
    return torch.nn.Linear(4, 3, bias=bias), torch.ones(1, 4)
"""


@pytest.fixture
def hidden(net: Path) -> Path:
    """The folder of a model that reads a file in C, and looks for what is not there."""
    (net / "net.py").write_text(HIDDEN)
    with sqlite3.connect(net / "seed.db") as base:
        base.execute("CREATE TABLE seeds (seed)")
        base.execute("INSERT INTO seeds VALUES (0)")
    base.close()
    yield net
    sys.modules.pop("optional_part", None)


def test_weights_that_nobody_hears_reading_are_compared(hidden: Path) -> None:
    deploy()
    assert not deploy().steps
    with sqlite3.connect(hidden / "seed.db") as base:
        base.execute("UPDATE seeds SET seed = 1")
    base.close()
    assert built_again(deploy()) == "built again: the model has other weights"


def test_file_that_was_looked_for_counts_when_it_is_there(hidden: Path) -> None:
    deploy()
    (hidden / "no_bias").touch()
    layers, weights = "other layers, or other settings of them", "the model has other weights"
    assert built_again(deploy()) == f"built again: the model has {layers}, {weights}"


def test_module_that_was_looked_for_counts_when_it_is_there(hidden: Path) -> None:
    deploy()
    (hidden / "optional_part.py").write_text("")
    importlib.invalidate_caches()
    assert built_again(deploy()) == f"built again: {hidden / 'optional_part.py'} is new"


@pytest.mark.parametrize("read", ["os.environ.get('WIDTH', 3)", "os.getenv('WIDTH') or 3"])
def test_variable_that_the_code_of_weights_reads_counts(
    read: str, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"import os, torch\nNet = lambda: torch.nn.Linear(4, 3, bias=int({read}) < 4)\n"
    (net / "wide.py").write_text(source)
    torch.save(torch.nn.Linear(4, 3).state_dict(), net / "w.pt")

    def deploy_with_weights() -> eb.Deployment:
        options = {"backend": "loopback", "work_dir": net / "out", "reuse": True}
        return eb.deploy("wide.py:Net?weights=w.pt", torch.ones(1, 4), **options)

    read_before = type(os.environ).__getitem__
    deploy_with_weights()
    assert type(os.environ).__getitem__ is read_before
    monkeypatch.setenv("COLUMNS", "99")  # which no model reads
    assert deploy_with_weights().notes[0].startswith("up to date")
    monkeypatch.setenv("WIDTH", "2")
    assert built_again(deploy_with_weights()) == "built again: $WIDTH has changed"


def test_names_are_of_files_and_not_of_texts(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = deploy().artifact.path
    other = net / "other"
    other.mkdir()
    for name in ("net.py", "eps.txt"):
        (other / name).write_text((net / name).read_text())
    monkeypatch.chdir(other)
    with pytest.raises(ArtifactExistsError, match="contains an artifact"):
        eb.deploy("net.py:build", backend="loopback", work_dir=first, reuse=True)
    again = eb.deploy("../net.py:build", backend="loopback", work_dir=first, reuse=True)
    assert not again.steps


def test_mismatch_in_the_manifest_is_not_up_to_date(net: Path) -> None:
    path = deploy().artifact.path / "manifest.json"
    path.write_text(path.read_text().replace('"verdict": "verified"', '"verdict": "mismatched"'))
    assert built_again(deploy()) == "built again: its verdict is mismatched"


def test_another_model_is_not_replaced(net: Path) -> None:
    deploy()
    (net / "other.py").write_text(NET)
    with pytest.raises(ArtifactExistsError, match="contains an artifact"):
        deploy("other.py:build")
    assert not deploy().steps


def test_damaged_artifact_is_not_taken_for_the_same(net: Path) -> None:
    path = deploy().artifact.path
    (path / "model.onnx").write_bytes(b"")
    with pytest.raises(ArtifactExistsError):
        deploy()
    assert deploy(overwrite=True).steps


def test_overwrite_builds_always(net: Path) -> None:
    deploy()
    assert deploy(overwrite=True).steps


def test_without_reuse_an_existing_artifact_is_an_error(net: Path) -> None:
    deploy()
    with pytest.raises(ArtifactExistsError):
        deploy(reuse=False)


def test_object_without_a_text_cannot_be_compared(net: Path) -> None:
    def equal(a: object, b: object) -> bool:
        return True

    with pytest.raises(UsageError, match="Python object"):
        deploy(verify={"compare": {"output": equal}})


def test_version_of_a_library_is_a_change(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import enginebay.operations.recipe as recipe

    deploy()
    found = recipe.installed_version
    monkeypatch.setattr(
        recipe, "installed_version", lambda name: "9.9" if name == "onnx" else found(name)
    )
    assert built_again(deploy()).endswith("onnx: " + str(found("onnx")) + " → 9.9")


@pytest.mark.process
def test_second_command_does_not_import_torch(net: Path) -> None:
    weights = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3)).state_dict()
    torch.save(weights, net / "best.pt")
    words = ("deploy", "net.py:build", "--weights", "best.pt", "--backend", "loopback")
    words = (*words, "--work-dir", "out")
    assert run_command(*words).code == 0
    (net / "torch.py").write_text("raise SystemExit('torch was imported')")
    again = run_command(*words)  # the folder is the first that Python looks in
    assert "up to date" in again.out, again.err


def test_command_is_up_to_date_and_says_so(net: Path) -> None:
    words = ("deploy", "net.py:build", "--backend", "loopback", "--work-dir", "out")
    assert run_command(*words).code == 0
    again = run_command(*words)
    assert (again.code, again.out.count("STEP")) == (0, 0)
    assert "note      up to date: nothing that it was built from has changed" in again.out
    assert "built again: precision" not in run_command(*words, "--overwrite").out
