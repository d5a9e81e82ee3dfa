"""Parser of texts for dynamic dimensions: ``batch``, ``x:0=1:8``, ``x:2=height:32:512``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.tensors import TensorSpec

#: The text after ``=``: a name, a smallest and a largest size, or both.
_DIM = re.compile(r"(?P<dim>[A-Za-z_]\w*(?:\+\w+)*)?(?:(?:^|:)(?P<low>[0-9]+):(?P<high>[0-9]+))?")


def parse_dynamic(
    texts: str | Sequence[str], inputs: Sequence[TensorSpec]
) -> dict[str, dict[int, object]]:
    """Parse dynamic dimensions from text, for :func:`~enginebay.models.dynamic.normalise`.

    Args:
        texts: ``x:0`` allows any size of axis 0 of input ``x``, ``x:0=1:8`` the sizes 1 to 8.
            ``x:0=batch`` and ``x:0=batch:1:8`` also name the dimension; dimensions with the same
            name have the same size, and ``mask:1=past+tokens`` is the sum of two others. A name
            alone, ``batch``, makes axis 0 dynamic in every input whose axis 0 has the same size as
            axis 0 of the first input; there can be only one such name.
        inputs: The model's inputs.

    Raises:
        InputError: A text has none of these forms, or two texts are names alone.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> inputs = [TensorSpec("x", "float32", (2, 3)), TensorSpec("mask", "bool", (2,))]
        >>> parse_dynamic("batch", inputs)
        {'x': {0: 'batch'}, 'mask': {0: 'batch'}}
        >>> parse_dynamic(["x:1=1:8"], inputs)
        {'x': {1: (1, 8)}}
    """
    opened: dict[str, dict[int, object]] = {}
    texts = [texts] if isinstance(texts, str) else texts
    bare = list(dict.fromkeys(text for text in texts if text.isidentifier()))
    if len(bare) > 1:
        # A shorter input has no second axis.
        names = [spec.name for spec in inputs if len(spec.dims or ()) > 1] or ["INPUT"]
        raise InputError(
            f"'{bare[0]}' and '{bare[1]}' both name the first axis of every input",
            hint=f"name another axis: {' '.join(f'--dynamic {n}:1={bare[1]}' for n in names)}",
        )
    for text in texts:
        for name, axis, value in _parse_text(text, inputs):
            opened.setdefault(name, {})[axis] = value
    return opened


def _parse_text(text: str, inputs: Sequence[TensorSpec]) -> list[tuple[str, int, object]]:
    if text.isidentifier():
        sizes = {spec.name: spec.dims[0] for spec in inputs if spec.dims}
        first = next(iter(sizes.values()), None)
        return [(name, 0, text) for name, size in sizes.items() if size == first]
    target, equals, dim = text.partition("=")
    name, _, axis = target.rpartition(":")
    match = _DIM.fullmatch(dim)
    if not (name and re.fullmatch("-?[0-9]+", axis)) or match is None or (equals and not dim):
        raise InputError(
            f"invalid dimension '{text}': expected batch, x:0, x:0=1:8 or x:0=batch:1:8",
            hint=f"--dynamic {inputs[0].name}:0" if inputs else None,
        )
    limits = (int(match["low"]), int(match["high"])) if match["low"] else ()
    value = (match["dim"], *limits) if match["dim"] and limits else match["dim"] or limits or True
    return [(name, int(axis), value)]
