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

_HINT = "make the bundle again: enginebay bundle MODEL --backend NAME"


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


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``generation.json``.

    Attributes:
        schema: :data:`SCHEMA`.
        versions: Distribution → the version that made the bundle.
        model: The model's class.
        artifact: The digest of the artifact, which depends on the weights.
        names: The artifact's inputs of ``ids``, ``mask`` and ``positions``, and its ``logits``.
        cache: Input → output of the keys and values of each layer.
        vocabulary: The number of token ids.
        limit: The largest number of tokens that the decoder reads.
        eos: The ids that end a row.
        pad: The id after the end of a row.
        prompts: The verdict on the tokens.
        sha256: SHA-256 of all other fields.
    """

    schema: int = SCHEMA
    versions: dict[str, str]
    model: str
    artifact: str
    names: dict[str, str]
    cache: dict[str, str]
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

        record, names = self.generation, self.generation.names
        rows, ones = self._check_prompts(ids, mask, max_new_tokens)
        batch, start = rows.shape
        result = np.full((batch, start + max_new_tokens), record.pad)
        seen = np.ones_like(result)
        result[:, :start], seen[:, :start] = rows, ones
        positions = np.maximum(ones.cumsum(1) - 1, 0)
        past: dict[str, NumpyArray] = {
            spec.name: np.empty((batch, spec.dims[1], 0, spec.dims[3]), numpy_dtype(spec.dtype))
            for spec in self.wrapper.inputs
            if spec.name in record.cache and spec.dims
        }
        eos, alive = np.array(record.eos, np.int64), np.ones(batch, bool)
        for end in range(start, start + max_new_tokens):
            feed = {names["ids"]: rows, names["mask"]: seen[:, :end], **past}
            if "positions" in names:
                feed[names["positions"]] = positions
            found = self.wrapper(feed)
            best = found[names["logits"]][:, -1].argmax(-1)
            result[:, end] = np.where(alive, best, record.pad)
            alive &= (best[:, None] != eos).all(1)
            if not alive.any():
                return result[:, : end + 1]
            rows, positions = result[:, end : end + 1], positions[:, -1:] + 1
            # The engine's own arrays: nothing is copied.
            past = {name: found[output] for name, output in record.cache.items()}
        return result

    def _check_prompts(self, ids: Any, mask: Any, new: int) -> tuple[NumpyArray, NumpyArray]:
        import numpy as np

        known, limit = self.generation.vocabulary, self.generation.limit
        rows = _read_integers("ids", ids)
        ones = np.ones_like(rows) if mask is None else _read_integers("mask", mask)
        if not isinstance(new, int) or new < 1:
            raise UsageError(f"max_new_tokens is {new!r}, expected an integer of 1 or more")
        if ones.shape != rows.shape:
            raise InputError(f"the mask has shape {ones.shape}, and the ids have {rows.shape}")
        for row, column in np.argwhere((rows < 0) | (rows >= known)):
            message = (
                f"row {row}: id {rows[row, column]} is not in the decoder's table of {known} ids"
            )
            raise InputError(message, hint="use the tokenizer of this model")
        for row, line in enumerate(ones):
            if line[0] < 0 or line[-1] != 1 or (np.diff(line) < 0).any():
                message = (
                    f"row {row}: the mask is {line}, expected 0 at padding on the left, then 1"
                )
                raise InputError(message, hint='tokenizer.padding_side = "left"')
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
    file = Path(folder, RECORD)
    record = _read_record(file)
    artifact = eb.open_artifact(Path(folder, ARTIFACT))
    if record.artifact != artifact.digest:
        raise ArtifactError(f"'{file}' is of another artifact than '{artifact.path}'", hint=_HINT)
    return Bundle(record, eb.load(artifact, device=device))


def _read_record(file: Path) -> Generation:
    try:
        fields = msgspec.json.decode(file.read_bytes())
        schema = fields["schema"]
        if schema == SCHEMA:
            record = msgspec.convert(fields, Generation)
            if record.sha256 == record.digest():
                return record
            fault = "was changed after the bundle was made"
        else:
            fault = f"has schema {schema!r}, and this release reads schema {SCHEMA}"
    except OSError as err:
        fault = f"cannot be read: {err.strerror}"
    except (ValueError, KeyError, TypeError) as err:
        fault = f"is no record of a bundle: {err}"
    raise ArtifactError(f"'{file}' {fault}", hint=_HINT)


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
        hint = "pad the shorter ones on the left"
        raise InputError(f"the {name} have rows of different lengths", hint=hint) from err
    if array.ndim != 2 or not array.size:
        empty = "" if array.size else ": a prompt is empty"
        raise InputError(f"expected {name} batch × tokens, found shape {array.shape}{empty}")
    if array.dtype.kind not in "iub":
        hint = f"pass {name}.astype('int64')"
        raise InputError(f"expected {name} of integers, found {array.dtype}", hint=hint)
    return array.astype(np.int64)
