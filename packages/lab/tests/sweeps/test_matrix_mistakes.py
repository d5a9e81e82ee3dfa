"""Messages about mistakes in the file of a sweep, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from enginebay.environment import install_command
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.read_cells import read_cells

if TYPE_CHECKING:
    from pathlib import Path

Read = Callable[..., list[Cell]]

BASE = """\
models = ["net.py:build", "tiny.onnx"]
backends = ["loopback", "ncnn"]
"""


#: What is wrong in a file, the message, and the hint.
WRONG = [
    (
        "",
        "'sweep.toml' contains no combination of a model and a backend",
        'models = ["file.py:attr"]',
    ),
    (
        "models = []",
        "'sweep.toml' contains no combination of a model and a backend",
        'models = ["file.py:attr"]',
    ),
    (
        'models = ["tiny.onnx"]\nbackends = []',
        "'sweep.toml' contains no combination of a model and a backend",
        'models = ["file.py:attr"]',
    ),
    (
        'models = "tiny.onnx"',
        "sweep.toml: models: 'tiny.onnx' does not fit sweep.models: expected list, found str",
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
        "run the command in the module's folder, or install the module",
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
        "sweep.toml: models.0: 'net.py' does not specify which model in the file",
        "write net.py:NAME; available: build",
    ),
    (
        'models = ["items.npz"]',
        "sweep.toml: models.0: 'items.npz' contains weights, not a model",
        "also pass the model of these weights: file.py:attr --weights items.npz",
    ),
    (
        "[[models]]\nduration = 3",
        "sweep.toml: models.0: 'model' is missing",
        'write model = "…"',
    ),
    (
        '[[models]]\nmodel = "tiny.onnx"\nmetric = ["accuracy"]',
        (
            "sweep.toml: models.0.metric: 'metric' is not a key of models.0; available: atol, "
            "config, data, duration, exporter, inputs, ir, max_drop, metrics, model, params, "
            "probes, rewriters, rtol, seed, take, timeout"
        ),
        "did you mean 'metrics'?",
    ),
    (
        f"{BASE}backend = 'ncnn'",
        (
            "sweep.toml: backend: 'backend' is not a key of the sweep; available: atol, "
            "backends, config, data, duration, exclude, exporter, include, inputs, ir, max_drop, "
            "metrics, models, params, precisions, probes, rewriters, rtol, seed, take, timeout"
        ),
        "did you mean 'backends'?",
    ),
    (
        f"{BASE}duration = -1",
        "sweep.toml: duration: -1 does not fit sweep.duration: expected float >= 0.0",
        None,
    ),
    (
        f"{BASE}timeout = 0",
        "sweep.toml: timeout: 0 does not fit sweep.timeout: expected float > 0.0",
        None,
    ),
    (
        f"{BASE}ir = 'onx'",
        (
            "sweep.toml: ir: 'onx' does not fit sweep.ir: expected one of 'onnx', 'torchscript', "
            "'exported_program', ''"
        ),
        "did you mean 'onnx'?",
    ),
    (
        f"{BASE}metrics = ['accuracy']",
        "sweep.toml: metrics: 'metrics' requires 'data'",
        "add data = …",
    ),
    (
        f"{BASE}data = 'items.npz'\nmetrics = ['acuracy']",
        (
            "sweep.toml: metrics: unknown metric 'acuracy'; available: accuracy, top-5, "
            "mean-absolute-error, cosine, file.py:attr, torchmetrics:NAME, SCHEME:NAME of a "
            "plugin"
        ),
        "did you mean 'accuracy'?",
    ),
    (
        f"{BASE}data = 'items.npz'\nmetrics = ['nets.py:Metric']",
        "sweep.toml: metrics: no file 'nets.py'",
        "did you mean 'net.py'?",
    ),
    (f"{BASE}seed = -1", "sweep.toml: seed: -1 does not fit sweep.seed: expected int >= 0", None),
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
        "sweep.toml: inputs: 'x=1xa' is not a valid input: expected NAME=SHAPE or NAME=FILE",
        "write x=1x3x224x224, ids=1x16:int64, x=file.npy or batch.npz",
    ),
    (
        f"{BASE}data = 'nets.py:items'",
        "sweep.toml: data: no file 'nets.py'",
        "did you mean 'net.py'?",
    ),
    (f"{BASE}take = 3", "sweep.toml: take: 'take' requires 'data'", "add data = …"),
    (
        f"{BASE}max_drop = 0.1",
        "sweep.toml: max_drop: 'max_drop' requires 'metrics'",
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
        "sweep.toml: backends: no backend 'opnvino' is installed; installed: loopback",
        f"did you mean 'openvino'? {install_command('enginebay-openvino')}",
    ),
    (
        f"{BASE}precisions = []",
        "sweep.toml: precisions: the list is empty",
        "remove it to use each backend's default",
    ),
    (
        f"{BASE}precisions = ['fp8']",
        "sweep.toml: precisions: unknown precision 'fp8' of loopback; available: only its default",
        '[[exclude]] with backend = "loopback" and precision = "fp8"',
    ),
    (f"{BASE}params = {{gain = []}}", "sweep.toml: params.gain: the list of values is empty", None),
    (
        f"{BASE}params = {{gain = ['a', 2.0]}}",
        "sweep.toml: params.gain: 'a' does not fit LoopbackParams.gain: expected float, found str",
        None,
    ),
    (
        'models = ["tiny.onnx"]\nparams = {gian = 2.0}',
        "sweep.toml: params.gian: unknown parameter 'gian' for loopback",
        "did you mean 'gain'?",
    ),
    (
        f"{BASE}params = {{precision = 'fp16'}}",
        "sweep.toml: params.precision: 'precision' is not a parameter of a sweep",
        "precisions = ['fp16']",
    ),
    (
        f"{BASE}params = {{work_dir = 'a'}}",
        (
            "sweep.toml: params.work_dir: parameter 'work_dir' cannot be set: the sweep chooses "
            "its value"
        ),
        None,
    ),
    (
        f"{BASE}[[exclude]]\nbackend = 'loopbck'",
        "sweep.toml: exclude.0: no cell has the backend 'loopbck'; available: loopback, ncnn",
        "did you mean 'loopback'?",
    ),
    (
        f"{BASE}[[exclude]]\nprecision = 'fp16'",
        "sweep.toml: exclude.0: no cell has the precision 'fp16'; available: the backend's default",
        None,
    ),
    (
        f"{BASE}[[exclude]]\nbackend = 'ncnn'\nparams = {{threads = 3}}",
        "sweep.toml: exclude.0: no cell has all of these values",
        None,
    ),
    (f"{BASE}[[exclude]]", "sweep.toml: exclude.0: the exclude is empty", "write backend = …"),
    (
        f"{BASE}[[exclude]]\nbackend = 'ncnn'\n[[exclude]]\nbackend = 'loopback'",
        "'sweep.toml' contains no combination of a model and a backend",
        'models = ["file.py:attr"]',
    ),
    (
        f"{BASE}[[include]]\nmodel = 'tiny.onnx'",
        "sweep.toml: include.0: 'backend' is missing",
        'write backend = "…"',
    ),
    (
        f"{BASE}[[include]]\nmodel = 'tiny.onnx'\nbackend = 'loopback'\nparams = {{gian = 2.0}}",
        "sweep.toml: include.0.params.gian: unknown parameter 'gian' for loopback",
        "did you mean 'gain'?",
    ),
    (
        BASE + "[[include]]\nmodel = 'tiny.onnx'\nbackend = 'ncnn'\nseed = 1\n" * 2,
        "sweep.toml: include.1: the same combination as include.0",
        "remove one of them",
    ),
    (
        f"{BASE}[params]\n"
        + "".join(f"p{i} = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" for i in range(9)),
        "sweep.toml: params: the matrix has 2,000,000,002 cells, expected at most 1,000,000",
        None,
    ),
    (
        "models = [",
        "sweep.toml: invalid TOML: Invalid value (at end of document)",
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
            [Cell(model="tiny.onnx", backend="loopback", duration=-1)],
            "cells.0.duration: -1 does not fit cells.0.duration: expected float >= 0.0",
        ),
        ([{"model": "tiny.onnx"}], "cells.0: 'backend' is missing"),
        ([], "the sweep contains no combination of a model and a backend"),
        (["tiny.onnx"], "cells.0 is a str, expected a Cell or a mapping"),
        (3, "'cells' is of type int, expected the path of a file, a mapping, or a list"),
        (
            [{"model": "tiny.onnx", "backend": "ncnn", "params": {"gain": object()}}],
            (
                "cells.0.params: an object of type object cannot be sent to another machine; "
                "expected texts, numbers, lists and mappings"
            ),
        ),
        ("none.toml", "the config 'none.toml' does not exist"),
    ]
    for cells, message in wrong:
        with pytest.raises(UsageError) as caught:
            read_cells(cells)
        assert str(caught.value) == message


def test_a_python_file_with_a_syntax_error_is_refused(sweep: Read, here: Path) -> None:
    (here / "other.py").write_text("def build(:")
    with pytest.raises(UsageError, match=r"models\.0: importing 'other\.py' raised SyntaxError: "):
        sweep('models = ["other.py:build"]')
