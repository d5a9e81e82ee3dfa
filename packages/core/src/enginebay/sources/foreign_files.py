"""Model files of other frameworks and engines, with the way from each to a file that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TENSORFLOW = "python -m tf2onnx.convert {} --output model.onnx (pip install tf2onnx)"
_OF_ONE_ENGINE = (
    "a file of one engine, which leads back to no model",
    "pass the model that it was built from: file.py:attr, or its .onnx file",
)
_PICKLED = (
    "a pickled Python object, which is not loaded since unpickling runs code",
    "in Python: load it, and pass the object; for scikit-learn: skl2onnx.to_onnx(model, inputs)",
)

#: Suffix → what the file is, and the way from it to a model; ``{}`` is the file.
_KNOWN = {
    ".tflite": ("a TensorFlow Lite model", _TENSORFLOW.format("--tflite {}")),
    ".pb": ("a TensorFlow graph", _TENSORFLOW.format("--graphdef {}")),
    ".keras": ("a Keras model", 'in Keras 3: model.export("model.onnx", format="onnx")'),
    ".mlmodel": ("a Core ML model", "pass the model that it was made from: file.py:attr"),
    ".mlpackage": ("a Core ML model", "pass the model that it was made from: file.py:attr"),
    ".pdmodel": (
        "a PaddlePaddle model",
        "paddle2onnx --model_dir . --model_filename {} --save_file model.onnx",
    ),
    ".gguf": ("weights in GGUF, not a model", "pass the model of these weights: file.py:attr"),
    **dict.fromkeys((".ort", ".xml", ".param", ".engine", ".plan", ".pte"), _OF_ONE_ENGINE),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), _PICKLED),
}


def describe_foreign(path: Path) -> tuple[str, str] | None:
    """Return what a file or folder of another framework is, and what to type; None if unknown.

    Example:
        >>> from pathlib import Path
        >>> describe_foreign(Path("net.tflite"))[0]
        'a TensorFlow Lite model'
    """
    if (path / "saved_model.pb").is_file():
        return "a TensorFlow model", _TENSORFLOW.format(f"--saved-model {path}")
    known = _KNOWN.get(path.suffix.lower())
    return known and (known[0], known[1].replace("{}", str(path)))
