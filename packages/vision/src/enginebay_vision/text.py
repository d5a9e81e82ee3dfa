"""Text recognition: decodes the scores of characters to a line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from enginebay.errors import InferenceError, UsageError
from enginebay_vision.drawing import paint_labels
from enginebay_vision.outputs import Activation, apply_activation, read_finite
from enginebay_vision.results import Text
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.lines import find_text_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray


class TextRecognition(OneOutputTask, frozen=True, kw_only=True, tag="text-recognition"):
    """Text recognition: the model reads one line of text from an image.

    Attributes:
        classes: The characters, in the model's order, without the blank or end symbol.
        output: The output, ``1×T×C`` or ``T×1×C``, with a score for each position and character;
            empty for the model's first output. C is the number of ``classes`` plus 1.
        decoding: ``ctc`` merges equal neighbours and removes blanks; ``attention`` ends the text at
            the first end symbol.
        special: The index of CTC's blank, or of the end symbol of ``attention``, on the axis C; -1
            for the last index.
        activation: The function that converts scores to probabilities: ``softmax``, ``sigmoid``, or
            ``none`` if they are probabilities already.
    """

    decoding: Literal["ctc", "attention"] = "ctc"
    special: int = 0
    activation: Activation = "softmax"

    def __post_init__(self) -> None:
        if not self.classes:
            raise UsageError("'classes' is empty; expected the characters of the texts")
        if not -1 <= self.special <= len(self.classes):
            raise UsageError(
                f"'special' is {self.special}; expected an index from 0 to {len(self.classes)}, or "
                "-1 for the last index"
            )

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the output has one score more than ``classes``."""
        count = dims[-1] if len(dims) == 3 else 0  # 0 never fits: another rank is refused
        if isinstance(count, int) and count != len(self.classes) + 1:
            raise UsageError(
                f"the task has {len(self.classes)} characters and one special entry, but the "
                f"output is {output.describe()}"
            )

    def find_items(self, path: Path) -> Sequence[tuple[Path, object]]:
        """Return pairs (image file, text); without a ``.txt`` file, (image file, None)."""
        lines = find_text_lines(path)
        return super().find_items(path) if lines is None else lines

    def postprocess(self, outputs: Mapping[str, NumpyArray], size: object = None) -> list[Text]:  # noqa: ARG002  # the signature of every task
        """Return a list of one text, whose score is the mean probability of the characters."""
        values = read_finite(outputs, self.output)
        if values.ndim == 3 and values.shape[1] == 1:  # the batch is the second axis of T×1×C
            values = values[:, 0]
        count = len(self.classes) + 1
        if values.ndim != 2 or values.shape[1] != count:
            raise InferenceError(
                f"output '{self.output}' has the shape {values.shape} for one image; expected "
                f"Tx{count}: {count - 1} characters and one special entry"
            )
        probabilities = apply_activation(values, self.activation)
        best = probabilities.argmax(-1)
        special = self.special % count  # -1 becomes the last index
        is_character = best != special
        if self.decoding == "ctc":
            # Of equal neighbours only the first is a character.
            is_character[1:] &= best[1:] != best[:-1]
        else:
            # False from the first end symbol on.
            is_character = np.logical_and.accumulate(is_character)
        characters = [*self.classes[:special], "", *self.classes[special:]]
        text = "".join(characters[index] for index in best[is_character].tolist())
        scores = probabilities.max(-1)[is_character]
        return [Text(text, float(scores.mean()) if scores.size else 0.0)]

    def paint_results(self, image: PilImage, results: Sequence[Text]) -> PilImage:
        """Write the text and the score on an image; return the image."""
        return paint_labels(image, [(f"{line.text} {line.score:.2f}", 0) for line in results])
