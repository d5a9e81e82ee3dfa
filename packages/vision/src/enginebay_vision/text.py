"""Text recognition: a line of text from scores for each position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from enginebay.errors import InferenceError, UsageError
from enginebay_vision.drawing import paint_labels
from enginebay_vision.outputs import Activation, apply_activation, read_finite
from enginebay_vision.results import Text
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.lines import find_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class TextRecognition(OneOutputTask, frozen=True, kw_only=True, tag="text-recognition"):
    """The model reads one line of text.

    Attributes:
        classes: The characters, in the model's order, without the special entry.
        output: The output, ``1×T×C`` or ``T×1×C``: for each position a number for each character;
            empty for the model's first.
        decoding: ``ctc``: equal neighbours are one character, and blanks are left out;
            ``attention``: the text ends at the first end entry.
        special: The index of the special entry: CTC's blank, or the end; -1 for the last.
        activation: ``softmax`` or ``sigmoid`` for probabilities; ``none`` if the numbers are
            probabilities already.
    """

    decoding: Literal["ctc", "attention"] = "ctc"
    special: int = 0
    activation: Activation = "softmax"

    def __post_init__(self) -> None:
        if not self.classes:
            raise UsageError("classes is empty; expected the characters of the texts")
        if not -1 <= self.special <= len(self.classes):
            raise UsageError(
                f"special is {self.special}; expected the number of an entry: 0 to "
                f"{len(self.classes)}, or -1 for the last"
            )

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Check the axes of the output, and that there is an entry for each character."""
        count = dims[-1] if len(dims) == 3 else 0
        if isinstance(count, int) and count != len(self.classes) + 1:
            raise UsageError(
                f"the task has {len(self.classes)} characters and one special entry, but the "
                f"output is {output.describe()}"
            )

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Return the images in a listing file, with their texts."""
        lines = find_lines(path)
        return super().find_items(path) if lines is None else list(lines)

    def postprocess(self, outputs: Mapping[str, NumpyArray], size: Any = None) -> list[Text]:  # noqa: ARG002  # the signature of every task
        """Read the text, with the mean probability of its characters."""
        values = read_finite(outputs, self.output)
        if values.ndim == 3 and values.shape[1] == 1:
            values = values[:, 0]
        count = len(self.classes) + 1
        if values.ndim != 2 or values.shape[1] != count:
            raise InferenceError(
                f"output '{self.output}' has the shape {values.shape} for an image; expected "
                f"Tx{count}: {count - 1} characters and one special entry"
            )
        odds = apply_activation(values, self.activation)
        best = odds.argmax(-1)
        special = self.special % count
        is_character = best != special
        if self.decoding == "ctc":
            is_character[1:] &= best[1:] != best[:-1]
        else:
            is_character = np.logical_and.accumulate(is_character)
        characters = [*self.classes[:special], "", *self.classes[special:]]
        text = "".join(characters[index] for index in best[is_character].tolist())
        return [Text(text, float(odds.max(-1)[is_character].mean()) if is_character.any() else 0.0)]

    def paint(self, picture: Picture, found: Sequence[Text]) -> Picture:
        """Write the text on an image."""
        return paint_labels(picture, [(f"{line.text} {line.score:.2f}", 0) for line in found])
