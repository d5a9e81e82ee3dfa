"""Read ``model_inputs`` in the backend's section: the shapes of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.config.problems import Problems
    from enginebay.params import Shapes

_RANGE = {"min_shape": "min_shapes", "opt_shape": "input_shapes", "max_shape": "max_shapes"}
_KEYS = ("input_shapes", "opt_shapes")
_WHERE = ("backend_config", "model_inputs")


def read_model_inputs(content: object, problems: Problems) -> dict[str, Shapes]:
    """Return the fields ``input_shapes``, ``min_shapes`` and ``max_shapes`` of the params.

    Args:
        content: ``[{"input_shapes": {"x": {"min_shape": …, "opt_shape": …, "max_shape": …}}}]``. A
            list of sizes in place of the innermost dict is a fixed shape, ``opt_shapes`` is
            another name for ``input_shapes``, and a size of -1 means any size.
        problems: Collects the errors.
    """
    shapes: dict[str, dict[str, Any]] = {field: {} for field in _RANGE.values()}
    entries = content if isinstance(content, list | tuple) else [content]
    if len(entries) > 1:
        problems.wrong(
            (*_WHERE, 1), f"expected one entry for the whole model, found {len(entries)}"
        )
    for index, entry in enumerate(entries[:1]):
        path = (*_WHERE, index) if entries is content else _WHERE
        if not isinstance(entry, Mapping):
            problems.wrong(path, f"expected the key 'input_shapes', found {type(entry).__name__}")
            continue
        for key, inputs in entry.items():
            if key not in _KEYS:
                problems.unknown((*path, key), _KEYS)
            elif not isinstance(inputs, Mapping):
                problems.wrong(
                    (*path, key), f"expected a shape for each input, found {type(inputs).__name__}"
                )
            else:
                for name, value in inputs.items():
                    _read_input(str(name), value, (*path, key, name), shapes, problems)
    return {field: by_input for field, by_input in shapes.items() if by_input}


def _read_input(
    name: str,
    value: Any,
    path: tuple[str | int, ...],
    shapes: dict[str, dict[str, Any]],
    problems: Problems,
) -> None:
    if not isinstance(value, Mapping):
        value = {"opt_shape": value}
    default = value.get("opt_shape", value.get("min_shape", value.get("max_shape")))
    for key, dims in {**({} if default is None else {"opt_shape": default}), **value}.items():
        if key not in _RANGE:
            problems.unknown((*path, key), _RANGE)
        elif not isinstance(dims, list | tuple) or not all(isinstance(dim, int) for dim in dims):
            problems.wrong(
                (*path, key), f"{dims!r:.80} is not a shape: expected a list of integers"
            )
        else:
            shapes[_RANGE[key]][name] = tuple(None if dim < 0 else dim for dim in dims)
