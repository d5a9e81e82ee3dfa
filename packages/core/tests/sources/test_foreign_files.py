"""Files of other frameworks are named, with what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("as_path", [False, True])
@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("m.tflite", "a TensorFlow Lite model", "tf2onnx.convert --tflite {file} --output"),
        ("m.pb", "a TensorFlow graph", "tf2onnx.convert --graphdef {file} --output"),
        ("M.Keras", "a Keras model", 'model.export("model.onnx", format="onnx")'),
        ("m.mlmodel", "a Core ML model", "file.py:attr"),
        ("m.ort", "a file of one engine", "its .onnx file"),
        ("m.pte", "a file of one engine", "its .onnx file"),
        ("m.pkl", "a pickled Python object", "skl2onnx.to_onnx(model, inputs)"),
        ("m.gguf", "weights in GGUF", "file.py:attr"),
        ("m.safetensors", "contains weights", "--weights {file}"),
    ],
)
def test_a_file_of_another_framework_says_what_it_is_and_what_to_type(
    name: str, what: str, hint: str, as_path: bool, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(b"\0")
    with pytest.raises(ModelSourceError) as caught:
        eb.export(file if as_path else str(file))
    assert what in str(caught.value)
    assert hint.format(file=file) in str(caught.value.hint)
    assert "\n" not in str(caught.value)


def test_a_folder_of_tensorflow_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\0")
    with pytest.raises(ModelSourceError, match="is a TensorFlow model") as caught:
        eb.export(tmp_path)
    assert f"--saved-model {tmp_path}" in str(caught.value.hint)
