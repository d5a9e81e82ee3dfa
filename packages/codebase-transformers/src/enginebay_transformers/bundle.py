"""Bundles: a decoder's artifact with its greedy loop, in NumPy, without torch and transformers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

import enginebay as eb
from enginebay.errors import ArtifactError, InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.authors.arrays import NumpyArray

#: The version of the format of ``generation.json``.
SCHEMA: Final = 1
#: A bundle consists of the folder of the artifact, and the record of the loop.
ARTIFACT, RECORD = "decoder", "generation.json"

_AGAIN = "make the bundle again: enginebay bundle MODEL --backend NAME"


class PromptVerdict(msgspec.Struct, frozen=True):
    """The comparison of the tokens after one prompt with those of ``model.generate``.

    Attributes:
        length: The number of tokens of the prompt.
        batched: True if the prompt was a row of a left-padded batch, False if it was alone.
        verdict: ``equal``, ``wrong``, or ``undecided`` if the gap of the logits of the first tokens
            that differ is within the tolerance.
        detail: These tokens, their place, the gap and the tolerance; empty if all are equal.
    """

    length: int
    batched: bool
    verdict: str
    detail: str = ""


class CacheTensor(msgspec.Struct, frozen=True):
    """Keys or values of one layer: the names of the input and the output, and two sizes."""

    input: str
    output: str
    heads: int
    size: int


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``generation.json``.

    Attributes:
        schema: :data:`SCHEMA`.
        versions: Distribution → the version that made the bundle.
        model: The model's class.
        artifact: The digest of the artifact, which depends on the weights.
        ids: The input of token ids.
        mask: The input that is 0 at padding.
        positions: The input of positions; None without one.
        logits: The output of logits.
        cache: The keys and values of each layer.
        vocabulary: The number of token ids.
        limit: The largest number of tokens that the decoder reads.
        eos: The ids that end a row.
        pad: The id after the end of a row.
        prompts: The verdict on the tokens.
        sha256: SHA-256 of all other fields.
    """

    schema: int
    versions: dict[str, str]
    model: str
    artifact: str
    ids: str
    mask: str
    positions: str | None
    logits: str
    cache: tuple[CacheTensor, ...]
    vocabulary: int
    limit: int
    eos: tuple[int, ...]
    pad: int
    prompts: tuple[PromptVerdict, ...] = ()
    sha256: str = ""

    def digest(self) -> str:
        """Return SHA-256 of all fields but ``sha256``."""
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, sha256=""))).hexdigest()


class Bundle(AbstractContextManager["Bundle"]):
    """A bundle with a loaded engine. Close it, or use it in a ``with`` block.

    Attributes:
        generation: The content of ``generation.json``.
        wrapper: The engine.
    """

    def __init__(self, generation: Generation, wrapper: eb.Wrapper) -> None:
        self.generation, self.wrapper = generation, wrapper

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the engine."""
        self.wrapper.close()

    def generate(self, ids: Any, mask: Any = None, max_new_tokens: int = 20) -> NumpyArray:
        """Append the most probable token to each prompt, until all prompts have ended.

        Args:
            ids: The prompts, batch × tokens of any integer dtype; padded on the left.
            mask: 0 at padding and 1 elsewhere, batch × tokens; by default there is no padding.
            max_new_tokens: The largest number of tokens to append.

        Returns:
            The prompts and their new tokens, batch × tokens int64, as ``model.generate`` returns
            them: a row that has ended is padded on the right.

        Raises:
            InputError: An id is not in the table, a prompt is empty or padded on the right, a dtype
                or a shape is wrong, or more positions are required than the bundle has.
        """
        import numpy as np

        from enginebay.authors.arrays import numpy_dtype

        record = self.generation
        rows, ones = self._check_prompts(ids, mask, max_new_tokens)
        batch, start = rows.shape
        result = np.full((batch, start + max_new_tokens), record.pad)
        seen = np.ones_like(result)
        result[:, :start], seen[:, :start] = rows, ones
        positions = np.maximum(ones.cumsum(1) - 1, 0)
        dtypes = {spec.name: numpy_dtype(spec.dtype) for spec in self.wrapper.inputs}
        feed: dict[str, NumpyArray] = {
            part.input: np.empty((batch, part.heads, 0, part.size), dtypes[part.input])
            for part in record.cache
        }
        alive = np.ones(batch, bool)
        for end in range(start, start + max_new_tokens):
            feed |= {record.ids: rows, record.mask: seen[:, :end]}
            if record.positions is not None:
                feed[record.positions] = positions
            found = self.wrapper(feed)
            best = found[record.logits][:, -1].argmax(-1)
            result[:, end] = np.where(alive, best, record.pad)
            alive &= ~np.isin(best, record.eos)
            if not alive.any():
                return result[:, : end + 1]
            rows, positions = result[:, end : end + 1], positions[:, -1:] + 1
            # The engine's own arrays: nothing is copied.
            feed = {part.input: found[part.output] for part in record.cache}
        return result

    def _check_prompts(self, ids: Any, mask: Any, new: int) -> tuple[NumpyArray, NumpyArray]:
        import numpy as np

        known, limit = self.generation.vocabulary, self.generation.limit
        rows = _read_integers("ids", ids)
        ones = np.ones_like(rows) if mask is None else _read_integers("mask", mask)
        if new < 1:
            raise UsageError(f"max_new_tokens is {new}, expected 1 or more")
        if ones.shape != rows.shape or not np.isin(ones, (0, 1)).all():
            message = f"expected a mask of 0 and 1 of shape {rows.shape}, found shape {ones.shape}"
            raise InputError(f"{message}, {ones.min()} to {ones.max()}")
        for row, column in np.argwhere((rows < 0) | (rows >= known)):
            message = (
                f"row {row}: id {rows[row, column]} is not in the decoder's table of {known} ids"
            )
            raise InputError(message, hint="use the tokenizer of this model")
        for row in np.flatnonzero(~ones.any(1)):
            raise InputError(f"row {row}: the mask is all 0, so that the prompt is empty")
        for row in np.flatnonzero((np.diff(ones) < 0).any(1)):
            message = f"row {row}: the mask has a 0 after a 1, as of padding on the right"
            raise InputError(message, hint='pad on the left: tokenizer.padding_side = "left"')
        needed = rows.shape[1] + new - 1  # the decoder does not read the last new token
        if needed > limit:
            raise InputError(
                f"prompts of {rows.shape[1]} tokens and {new} new tokens require {needed} "
                f"positions, and the bundle has {limit}",
                hint="generate fewer tokens, or make a bundle with more --positions",
            )
        return rows, ones


def open_bundle(folder: str | Path, *, device: str | None = None) -> Bundle:
    """Open a bundle, without torch and transformers.

    Args:
        folder: The folder that ``enginebay bundle`` wrote.
        device: The device to run on; by default the one that the artifact was built for.

    Raises:
        ArtifactError: A part is missing, damaged, of another bundle or of another release.
    """
    record = _read_record(Path(folder, RECORD))
    artifact = eb.open_artifact(Path(folder, ARTIFACT))
    if artifact.digest != record.artifact:
        message = f"'{artifact.path}' is not the artifact that the bundle was made with"
        raise ArtifactError(message, hint=_AGAIN)
    return Bundle(record, eb.load(artifact, device=device))


def _read_record(file: Path) -> Generation:
    try:
        data = file.read_bytes()
        schema = msgspec.json.decode(data)["schema"]
        if schema != SCHEMA:
            message = f"'{file}' has schema {schema!r}, and this release reads schema {SCHEMA}"
            raise ArtifactError(message, hint=f"upgrade enginebay-transformers, or {_AGAIN}")
        record = msgspec.json.decode(data, type=Generation)
    except OSError as err:
        message = f"'{file.parent}' is not a bundle: '{RECORD}' cannot be read: {err.strerror}"
        raise ArtifactError(message, hint=_AGAIN) from err
    except (ValueError, KeyError, TypeError) as err:
        raise ArtifactError(f"'{file}' is no record of a bundle: {err}", hint=_AGAIN) from err
    if record.sha256 != record.digest():
        message = f"'{file}' was changed after the tokens of the bundle were compared"
        raise ArtifactError(message, hint=_AGAIN)
    return record


def pad_left(rows: Sequence[Sequence[int] | NumpyArray], pad: int) -> tuple[NumpyArray, NumpyArray]:
    """Return rows of different lengths as one array of ids and one mask, padded on the left.

    Example:
        >>> ids, mask = pad_left([[5], [6, 7]], pad=0)
        >>> ids.tolist(), mask.tolist()
        ([[0, 5], [6, 7]], [[0, 1], [1, 1]])
    """
    import numpy as np

    width = max(map(len, rows))
    ids = [[pad] * (width - len(row)) + [*row] for row in rows]
    return np.array(ids), np.array([[0] * (width - len(row)) + [1] * len(row) for row in rows])


def _read_integers(name: str, value: Any) -> NumpyArray:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError as err:
        message = f"the {name} have rows of different lengths"
        raise InputError(message, hint="pad the shorter rows on the left") from err
    if array.ndim != 2 or not array.size:
        empty = "" if array.size else ": a prompt is empty"
        raise InputError(f"expected {name} batch × tokens, found shape {array.shape}{empty}")
    if array.dtype.kind not in "iub":
        hint = f"pass {name}.astype('int64')"
        raise InputError(f"expected {name} of integers, found {array.dtype}", hint=hint)
    return array.astype(np.int64)
