"""Files with texts as inputs and outputs are deployed, run and verified like any other."""

from __future__ import annotations

import numpy as np
import pytest

import enginebay as eb
from enginebay.errors import InputError
from enginebay_testing.command_runs import call_command

IMPORTS = '"": 21, "ai.onnx.ml": 3'


@pytest.fixture
def model(write):
    """A classifier of categories, whose labels are texts."""
    return write(
        """(string[n] colour, float[n,1] size) => (string[n] label, float[n,3] scores) {
          one_hot = ai.onnx.ml.OneHotEncoder<cats_strings = ["red", "green"]>(colour)
          scores = Concat<axis = 1>(one_hot, size)
          best = ArgMax<axis = 1, keepdims = 0>(scores)
          label = ai.onnx.ml.LabelEncoder<
            keys_int64s = [0, 1, 2], values_strings = ["a red one", "a green one", "a large one"]
          >(best)
        }""",
        imports=IMPORTS,
    )


@pytest.fixture
def inputs(tmp_path):
    arrays = {
        "colour": np.array(["red", "green", "blue"]),
        "size": np.array([[0.5], [2], [-1]], np.float32),
    }
    np.savez(tmp_path / "inputs.npz", **arrays)
    return arrays


def test_texts_are_verified_and_kept_as_samples(model, inputs, tmp_path):
    done = eb.deploy(model, inputs, backend="onnxruntime", work_dir=tmp_path / "artifact")
    assert done.verdict == "verified"
    assert eb.verify(tmp_path / "artifact").verdict == "verified"
    with eb.load(tmp_path / "artifact") as wrapper:
        found = wrapper(inputs)
    assert found["label"].tolist() == ["a red one", "a large one", "a red one"]
    assert found["scores"].tolist() == [[1, 0, 0.5], [0, 1, 2], [0, 0, -1]]
    label = done.verification.outputs[0]
    assert (label.name, label.dtype, label.passed) == ("label", "string", True)


def test_texts_from_files_are_deployed_run_and_verified_by_commands(
    model, inputs, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    given = ("--input", "inputs.npz")
    flags = (*given, "--backend", "onnxruntime", "--work-dir", "a")
    assert call_command(capfd, "deploy", model.name, *flags).code == 0
    outputs = call_command(capfd, "run", "a", *given, "--output", "o.npz", "--json").document
    dtypes = {each["name"]: each["dtype"] for each in outputs["outputs"]}
    assert dtypes == {"label": "string", "scores": "float32"}
    with np.load("o.npz") as file:
        assert file["label"].tolist() == ["a red one", "a large one", "a red one"]
    assert call_command(capfd, "verify", "a").code == 0


def test_texts_cannot_be_generated(model, tmp_path):
    specs = {"colour": eb.TensorSpec("colour", "string", (2,))}
    with pytest.raises(InputError) as raised:
        eb.deploy(model, specs, backend="onnxruntime", work_dir=tmp_path / "artifact")
    assert str(raised.value) == "cannot generate an input for colour string[2]"
    assert raised.value.hint == (
        "--input colour=file.npy, written by numpy.save('file.npy', ['first text', 'second text'])"
    )
