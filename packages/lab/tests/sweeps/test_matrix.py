"""The file of a sweep: which cells it has, each once and in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.read_cells import read_cells

Read = Callable[..., list[Cell]]

BASE = """\
models = ["net.py:build", "tiny.onnx"]
backends = ["loopback", "ncnn"]
"""


def labels(cells: list[Cell]) -> list[str]:
    return [cell.label for cell in cells]


def test_a_matrix_with_an_exclude_and_an_include(sweep: Read) -> None:
    cells = sweep("""\
        backends = ["loopback", "ncnn", "openvino"]
        duration = 3
        timeout = 60
        [params]
        gain = [1.0, 2.0]
        device = "cpu"
        [[models]]
        model = "net.py:build"
        duration = 1
        data = "items.npz"
        metrics = ["accuracy"]
        max_drop = 0
        [[models]]
        model = "tiny.onnx"
        [[exclude]]
        backend = "ncnn"
        params = {gain = 2.0}
        [[exclude]]
        model = "tiny.onnx"
        backend = "loopback"
        [[include]]
        model = "net.py:build"
        backend = "loopback"
        params = {gain = 3}
        atol = 1
        """)
    assert labels(cells) == [
        "net.py:build on loopback gain=1.0 device=cpu",
        "net.py:build on loopback gain=2.0 device=cpu",
        "net.py:build on ncnn gain=1.0 device=cpu",
        "net.py:build on openvino gain=1.0 device=cpu",
        "net.py:build on openvino gain=2.0 device=cpu",
        "tiny.onnx on ncnn gain=1.0 device=cpu",
        "tiny.onnx on openvino gain=1.0 device=cpu",
        "tiny.onnx on openvino gain=2.0 device=cpu",
        "net.py:build on loopback device=cpu gain=3",
    ]
    assert {cell.timeout for cell in cells} == {60}
    assert [cell.duration for cell in cells] == [1, 1, 1, 1, 1, 3, 3, 3, 1]
    assert (cells[-1].data, cells[-1].metrics, cells[-1].max_drop) == (
        "items.npz",
        ("accuracy",),
        0,
    )
    assert [cell.atol for cell in cells[-2:]] == [None, 1]


def test_a_backend_takes_its_own_parameters_and_equal_cells_are_one(sweep: Read) -> None:
    cells = sweep("""\
        models = ["tiny.onnx", "tiny.onnx"]
        backends = ["loopback", "ncnn"]
        [params]
        threads = [1, 2]
        """)
    assert labels(cells) == [
        "tiny.onnx on loopback",
        "tiny.onnx on ncnn threads=1",
        "tiny.onnx on ncnn threads=2",
    ]


def test_all_installed_backends_by_default(sweep: Read) -> None:
    assert labels(sweep('models = ["tiny.onnx"]')) == ["tiny.onnx on loopback"]


def test_a_list_of_lists_is_an_axis_of_lists(sweep: Read) -> None:
    cells = sweep("""\
        models = ["tiny.onnx"]
        backends = ["ncnn"]
        params = {layers = [["a", "b"]]}
        """)
    assert [cell.params for cell in cells] == [{"layers": ["a", "b"]}]


def test_other_formats_and_inheritance(sweep: Read, here: Path) -> None:
    (here / "base.toml").write_text(BASE)
    cells = sweep(
        'backends_of_mine = ["ncnn"]\nbackends = backends_of_mine\n_base_ = "base.toml"', "a.py"
    )
    assert labels(cells) == ["net.py:build on ncnn", "tiny.onnx on ncnn"]
    assert labels(sweep('{"models": ["tiny.onnx"]}', "a.json")) == ["tiny.onnx on loopback"]


def test_paths_begin_in_the_folder_of_the_file(sweep: Read, here: Path) -> None:
    (here / "models").mkdir()
    (here / "models/inner.py").write_text("class Net: ...")
    (cell,) = sweep('models = ["inner.py:Net"]', "models/sweep.toml")
    assert (cell.model, cell.folder) == ("inner.py:Net", str(here / "models"))
    (other,) = read_cells([{"model": "models/inner.py:Net", "backend": "loopback"}])
    assert other.folder == str(here)


def test_the_key_does_not_depend_on_the_folder() -> None:
    cell = Cell(model="net.py:build", backend="ncnn", params={"a": 1, "b": 2}, folder="/here")
    assert cell.key == Cell(model="net.py:build", backend="ncnn", params={"b": 2, "a": 1}).key
    assert cell.key != Cell(model="net.py:build", backend="ncnn", params={"a": 1}).key


def test_cells_and_mappings(sweep: Read, here: Path) -> None:
    named = {"model": Path("tiny.onnx"), "backend": "loopback", "params": {"file_name": Path("a")}}
    cells = read_cells([Cell(model="tiny.onnx", backend="ncnn", duration=2), named])
    assert labels(cells) == ["tiny.onnx on ncnn", "tiny.onnx on loopback file_name=a"]
    assert cells[0].duration == 2
    assert read_cells(cells) == cells
    table = {"models": [Path("tiny.onnx")], "backends": ("ncnn",), "precisions": ("fp32", "fp16")}
    assert [cell.precision for cell in read_cells(table)] == ["fp32", "fp16"]


def test_a_config_names_the_source_of_a_bare_model_name(sweep: Read, here: Path) -> None:
    (here / "deploy.toml").write_text('codebase_config = {type = "zoo"}')
    (cell,) = sweep('models = ["resnet18"]\nconfig = "deploy.toml"')
    assert cell.model == "resnet18"


@pytest.mark.parametrize(
    "text",
    [
        "from missing_everywhere import *",
        "globals()['net'] = 1",
        "def __getattr__(name): ...",
        "if True:\n    with open('x') as f:\n        net = 1",
        "try:\n    import nothing as net\nexcept ImportError:\n    net = None",
        "match 1:\n    case _:\n        class net: ...",
        "(net, other), third = 1, 2",
    ],
)
def test_a_name_that_a_file_may_have(sweep: Read, here: Path, text: str) -> None:
    (here / "other.py").write_text(text)
    assert len(sweep('models = ["other.py:net.inner"]')) == 1


@pytest.mark.process
def test_no_model_is_imported_and_neither_is_torch(here: Path) -> None:
    (here / "sweep.toml").write_text(
        'models = ["net.py:build", "net:build"]\nbackends = ["ncnn"]\n'
        'data = "items.npz"\nmetrics = ["accuracy"]\ninputs = ["x=1x3"]'
    )
    code = (
        "import sys; from enginebay_lab.sweeps.read_cells import read_cells;"
        "read_cells('sweep.toml');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


names = st.lists(st.sampled_from(["ncnn", "openvino", "tensorrt"]), min_size=1, unique=True)
axes = st.dictionaries(
    st.sampled_from(["a", "b"]), st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)
)
precisions = st.lists(st.sampled_from(["", "fp32", "fp16"]), min_size=1, unique=True)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(names, precisions, axes, st.data())
def test_every_combination_once_and_in_order(
    here: Path,
    backends: list[str],
    precisions: list[str],
    params: dict[str, Any],
    data: st.DataObject,
) -> None:
    models = ["net.py:build", "tiny.onnx"]
    table: dict[str, Any] = {
        "models": models,
        "backends": backends,
        "precisions": precisions,
        "params": params,
    }
    cells = read_cells(table)
    assert len(cells) == 2 * len(backends) * len(precisions) * _product(params)
    assert len({cell.key for cell in cells}) == len(cells)
    places = [
        (
            models.index(cell.model),
            backends.index(cell.backend),
            precisions.index(cell.precision),
            *(params[name].index(cell.params[name]) for name in params),
        )
        for cell in cells
    ]
    assert places == sorted(places)

    chosen = data.draw(st.sampled_from(cells))
    keys = data.draw(
        st.sets(st.sampled_from(["model", "backend", "precision", "params"]), min_size=1)
    )
    wanted = {key: getattr(chosen, key) for key in keys}
    left = [c for c in cells if any(getattr(c, key) != value for key, value in wanted.items())]
    include = {
        "model": chosen.model,
        "backend": chosen.backend,
        "precision": chosen.precision,
        "params": chosen.params,
    }
    found = read_cells({**table, "exclude": [wanted], "include": [include]})
    assert {cell.key for cell in found} == {cell.key for cell in (*left, chosen)}
    assert [cell.key for cell in found[: len(left)]] == [cell.key for cell in left]


def _product(params: dict[str, list[int]]) -> int:
    count = 1
    for axis in params.values():
        count *= len(axis)
    return count
