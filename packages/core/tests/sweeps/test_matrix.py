"""The file of a sweep: which cells it has, and what it says about mistakes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginebay.errors import EnginebayError, UsageError
from enginebay.sweeps import Cell, read_cells

Read = Callable[..., list[Cell]]

BASE = """\
models = ["net.py:build", "tiny.onnx"]
backends = ["loopback", "ncnn"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two models; loopback is the only backend that can be used here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback")
    Path("net.py").write_text("import missing_everywhere\ndef build(): ...\n")
    Path("tiny.onnx").write_bytes(b"never read")
    Path("items.npz").write_bytes(b"never read")
    return tmp_path


@pytest.fixture
def sweep(here: Path, loopback: str) -> Read:
    """Writes a file and reads its cells."""

    def read(text: str, file: str = "sweep.toml") -> list[Cell]:
        path = here / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text))
        return read_cells(path.relative_to(here))

    return read


def labels(cells: list[Cell]) -> list[str]:
    return [cell.label for cell in cells]


def test_a_matrix_with_an_exclude_and_an_include(sweep: Read) -> None:
    cells = sweep("""\
        backends = ["loopback", "ncnn", "openvino"]
        seconds = 3
        timeout = 60
        [params]
        gain = [1.0, 2.0]
        device = "cpu"
        [[models]]
        model = "net.py:build"
        seconds = 1
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
    assert [cell.seconds for cell in cells] == [1, 1, 1, 1, 1, 3, 3, 3, 1]
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


def test_the_key_is_of_the_cell_and_not_of_its_folder() -> None:
    cell = Cell(model="net.py:build", backend="ncnn", params={"a": 1, "b": 2}, folder="/here")
    assert cell.key == Cell(model="net.py:build", backend="ncnn", params={"b": 2, "a": 1}).key
    assert cell.key != Cell(model="net.py:build", backend="ncnn", params={"a": 1}).key


def test_cells_and_mappings(sweep: Read, here: Path) -> None:
    named = {"model": Path("tiny.onnx"), "backend": "loopback", "params": {"file_name": Path("a")}}
    cells = read_cells([Cell(model="tiny.onnx", backend="ncnn", seconds=2), named])
    assert labels(cells) == ["tiny.onnx on ncnn", "tiny.onnx on loopback file_name=a"]
    assert cells[0].seconds == 2
    assert read_cells(cells) == cells
    table = {"models": [Path("tiny.onnx")], "backends": ("ncnn",), "precisions": ("fp32", "fp16")}
    assert [cell.precision for cell in read_cells(table)] == ["fp32", "fp16"]


#: What is wrong in a file, the message, and the hint.
WRONG = [
    ("", "'sweep.toml' has no cell", 'models = ["file.py:attr"]'),
    ("models = []", "'sweep.toml' has no cell", 'models = ["file.py:attr"]'),
    (
        'models = ["tiny.onnx"]\nbackends = []',
        "'sweep.toml' has no cell",
        'models = ["file.py:attr"]',
    ),
    (
        'models = "tiny.onnx"',
        "sweep.toml: models: 'tiny.onnx' does not fit sweep.models: wanted list, found str",
        None,
    ),
    (
        'models = ["tini.onnx"]',
        "sweep.toml: models.0: no file 'tini.onnx'",
        "did you mean 'tiny.onnx'?",
    ),
    (
        'models = ["nett.py:build"]',
        "sweep.toml: models.0: no file 'nett.py'",
        "did you mean 'net.py'?",
    ),
    (
        '[[models]]\nmodel = "net.py:built"',
        "sweep.toml: models.0.model: 'net.py:built': there is no 'built' in 'net.py'",
        "did you mean 'build'?",
    ),
    (
        'models = ["no.such:build"]',
        "sweep.toml: models.0: no module 'no.such'",
        "run this where the module is, or install it",
    ),
    (
        'models = ["net:build", "nets:build"]',
        "sweep.toml: models.1: no module 'nets'",
        "did you mean 'net'?",
    ),
    (
        'models = ["tim:resnet18"]',
        "sweep.toml: models.0: no module 'tim'",
        "did you mean 'timm:resnet18'?",
    ),
    (
        'models = ["net.py"]',
        "sweep.toml: models.0: 'net.py' does not say which model in the file",
        "write net.py:NAME",
    ),
    (
        'models = ["items.npz"]',
        "sweep.toml: models.0: 'items.npz' holds weights, not a model",
        "write a function that builds the model and loads them: file.py:attr",
    ),
    (
        "[[models]]\nseconds = 3",
        "sweep.toml: models.0: there is no 'model'",
        'write model = "…"',
    ),
    (
        '[[models]]\nmodel = "tiny.onnx"\nmetric = ["accuracy"]',
        (
            "sweep.toml: models.0.metric: 'metric' is not a key of models.0, which may have atol, "
            "config, data, exporter, inputs, ir, max_drop, metrics, model, params, probes, rtol, "
            "seconds, seed, take, timeout"
        ),
        "did you mean 'metrics'?",
    ),
    (
        f"{BASE}backend = 'ncnn'",
        (
            "sweep.toml: backend: 'backend' is not a key of the sweep, which may have atol, "
            "backends, config, data, exclude, exporter, include, inputs, ir, max_drop, metrics, "
            "models, params, precisions, probes, rtol, seconds, seed, take, timeout"
        ),
        "did you mean 'backends'?",
    ),
    (
        f"{BASE}seconds = -1",
        "sweep.toml: seconds: -1 does not fit sweep.seconds: wanted float >= 0.0",
        None,
    ),
    (
        f"{BASE}timeout = 0",
        "sweep.toml: timeout: 0 does not fit sweep.timeout: wanted float > 0.0",
        None,
    ),
    (
        f"{BASE}ir = 'onx'",
        (
            "sweep.toml: ir: 'onx' does not fit sweep.ir: wanted one of 'onnx', 'torchscript', "
            "'exported_program', ''"
        ),
        "did you mean 'onnx'?",
    ),
    (
        f"{BASE}metrics = ['accuracy']",
        "sweep.toml: metrics: 'metrics' needs 'data'",
        "add data = …",
    ),
    (
        f"{BASE}data = 'items.npz'\nmetrics = ['acuracy']",
        (
            "sweep.toml: metrics: there is no metric 'acuracy'; there is accuracy, top-5, "
            "mean-absolute-error, cosine, file.py:attr, torchmetrics:NAME, or SCHEME:NAME of a "
            "plugin"
        ),
        "did you mean 'accuracy'?",
    ),
    (
        f"{BASE}data = 'items.npz'\nmetrics = ['nets.py:Metric']",
        "sweep.toml: metrics: no file 'nets.py'",
        "did you mean 'net.py'?",
    ),
    (f"{BASE}seed = -1", "sweep.toml: seed: -1 does not fit sweep.seed: wanted int >= 0", None),
    (
        f"{BASE}params = {{threads = {10**20}}}",
        (
            "sweep.toml: params: {'threads': 100000000000000000000} cannot be sent to another "
            "machine: can't serialize ints < -2**63 or > 2**64 - 1"
        ),
        None,
    ),
    (
        f"{BASE}inputs = ['x=1x3', 'y=a.npy']",
        "sweep.toml: inputs: no file 'a.npy'",
        None,
    ),
    (
        f"{BASE}inputs = ['x=1xa']",
        "sweep.toml: inputs: 'x=1xa' is not an input",
        "write x=1x3x224x224, ids=1x16:int64, x=file.npy or batch.npz",
    ),
    (
        f"{BASE}data = 'nets.py:items'",
        "sweep.toml: data: no file 'nets.py'",
        "did you mean 'net.py'?",
    ),
    (f"{BASE}take = 3", "sweep.toml: take: 'take' needs 'data'", "add data = …"),
    (
        f"{BASE}max_drop = 0.1",
        "sweep.toml: max_drop: 'max_drop' needs 'metrics'",
        "add metrics = …",
    ),
    (f"{BASE}data = 'none.npz'", "sweep.toml: data: no data set 'none.npz'", None),
    (
        f"{BASE}config = 'none.toml'",
        "sweep.toml: config: the config 'none.toml' does not exist",
        None,
    ),
    (
        'models = ["tiny.onnx"]\nbackends = ["opnvino"]',
        "sweep.toml: backends: no backend 'opnvino' is installed; there is loopback",
        "did you mean 'openvino'? pip install enginebay-openvino",
    ),
    (
        f"{BASE}precisions = []",
        "sweep.toml: precisions: there is none",
        "leave precisions out for each backend's own",
    ),
    (
        f"{BASE}precisions = ['fp8']",
        "sweep.toml: precisions: loopback has no precision 'fp8'; it has only its own",
        '[[exclude]] with backend = "loopback" and precision = "fp8"',
    ),
    (f"{BASE}params = {{gain = []}}", "sweep.toml: params.gain: an empty list is no axis", None),
    (
        f"{BASE}params = {{gain = ['a', 2.0]}}",
        "sweep.toml: params.gain: 'a' does not fit LoopbackParams.gain: wanted float, found str",
        None,
    ),
    (
        'models = ["tiny.onnx"]\nparams = {gian = 2.0}',
        "sweep.toml: params.gian: 'gian' is no parameter of loopback",
        "did you mean 'gain'?",
    ),
    (
        f"{BASE}params = {{precision = 'fp16'}}",
        "sweep.toml: params.precision: a sweep has several precisions",
        "precisions = ['fp16']",
    ),
    (
        f"{BASE}params = {{work_dir = 'a'}}",
        "sweep.toml: params.work_dir: 'work_dir' is no parameter of a cell: the sweep sets it",
        None,
    ),
    (
        f"{BASE}[[exclude]]\nbackend = 'loopbck'",
        "sweep.toml: exclude.0: no cell has the backend 'loopbck'; there is loopback, ncnn",
        "did you mean 'loopback'?",
    ),
    (
        f"{BASE}[[exclude]]\nprecision = 'fp16'",
        "sweep.toml: exclude.0: no cell has the precision 'fp16'; there is the backend's own",
        None,
    ),
    (
        f"{BASE}[[exclude]]\nbackend = 'ncnn'\nparams = {{threads = 3}}",
        "sweep.toml: exclude.0: no cell has all of these values",
        None,
    ),
    (f"{BASE}[[exclude]]", "sweep.toml: exclude.0: it has no value to match", "write backend = …"),
    (
        f"{BASE}[[exclude]]\nbackend = 'ncnn'\n[[exclude]]\nbackend = 'loopback'",
        "'sweep.toml' has no cell",
        'models = ["file.py:attr"]',
    ),
    (
        f"{BASE}[[include]]\nmodel = 'tiny.onnx'",
        "sweep.toml: include.0: there is no 'backend'",
        'write backend = "…"',
    ),
    (
        f"{BASE}[[include]]\nmodel = 'tiny.onnx'\nbackend = 'loopback'\nparams = {{gian = 2.0}}",
        "sweep.toml: include.0.params.gian: 'gian' is no parameter of loopback",
        "did you mean 'gain'?",
    ),
    (
        BASE + "[[include]]\nmodel = 'tiny.onnx'\nbackend = 'ncnn'\nseed = 1\n" * 2,
        "sweep.toml: include.1: it is the cell of include.0 again",
        "leave one of them out",
    ),
    (
        f"{BASE}[params]\n"
        + "".join(f"p{i} = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" for i in range(9)),
        "sweep.toml: params: the matrix has 2,000,000,002 cells: wanted 1,000,000 at most",
        None,
    ),
    (
        "models = [",
        "sweep.toml: this TOML cannot be read: Invalid value (at end of document)",
        None,
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), WRONG, ids=range(len(WRONG)))
def test_each_mistake_is_one_line(sweep: Read, text: str, message: str, hint: str | None) -> None:
    with pytest.raises(EnginebayError) as caught:
        sweep(text)
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert caught.value.exit_code == 2


def test_mistakes_in_python_name_their_keys(here: Path, loopback: str) -> None:
    wrong: list[tuple[Any, str]] = [
        ({"models": ["none.onnx"]}, "models.0: no file 'none.onnx'"),
        (
            [Cell(model="tiny.onnx", backend="loopback", seconds=-1)],
            "cells.0.seconds: -1 does not fit cells.0.seconds: wanted float >= 0.0",
        ),
        ([{"model": "tiny.onnx"}], "cells.0: there is no 'backend'"),
        ([], "the sweep has no cell"),
        (["tiny.onnx"], "cells.0 is a str: wanted a Cell, or a mapping"),
        (3, "the cells are a int: wanted the path of a file, a mapping, or a list"),
        (
            [{"model": "tiny.onnx", "backend": "ncnn", "params": {"gain": object()}}],
            (
                "cells.0.params: an object of type object cannot be sent to another machine: "
                "wanted texts, numbers, lists and mappings"
            ),
        ),
        ("none.toml", "the config 'none.toml' does not exist"),
    ]
    for cells, message in wrong:
        with pytest.raises(UsageError) as caught:
            read_cells(cells)
        assert str(caught.value) == message


def test_a_config_says_whose_a_bare_name_is(sweep: Read, here: Path) -> None:
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


def test_a_file_that_is_no_python(sweep: Read, here: Path) -> None:
    (here / "other.py").write_text("def build(:")
    with pytest.raises(UsageError, match=r"models\.0: 'other\.py:build' cannot be imported: "):
        sweep('models = ["other.py:build"]')


def test_no_model_is_imported_and_neither_is_torch(here: Path) -> None:
    (here / "sweep.toml").write_text(
        'models = ["net.py:build", "net:build"]\nbackends = ["ncnn"]\n'
        'data = "items.npz"\nmetrics = ["accuracy"]\ninputs = ["x=1x3"]'
    )
    code = (
        "import sys; from enginebay.sweeps import read_cells; read_cells('sweep.toml');"
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
