"""An ONNX file whose open sizes have names that say which of them are equal."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from enginebay.errors import UsageError
from enginebay_transformers import upstream

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_transformers.exported_folder import ExportedComponent, Sizes


def name_sizes(
    component: ExportedComponent, inputs: dict[str, Any], grown: dict[str, Any]
) -> Sizes:
    """Name the open sizes of a file: alike if they are equal in both samples, and sums as sums.

    The file names the sizes of each input apart: nothing says that a mask is as long as the past
    and the new tokens.
    """
    leaves, larger = upstream.get_leaf_tensors(inputs), upstream.get_leaf_tensors(grown)
    if lacking := [n for n in component.sizes if n.removeprefix("input.") not in leaves]:
        raise UsageError(
            f"'{component.file}' takes '{lacking[0]}', which this model is not called with",
            hint=f"pass the model that was exported, or a sample with --input {lacking[0]}=FILE",
        )
    pairs = {
        (name, axis): tuple(
            each[name.removeprefix("input.")].shape[axis] for each in (leaves, larger)
        )
        for name, sizes in component.sizes.items()
        for axis, size in enumerate(sizes)
        if isinstance(size, str)
    }
    named: dict[tuple[int, ...], str] = {}
    steps: dict[int, int | str] = {}
    # The smallest first: a sum is larger than its terms.
    for (name, axis), pair in sorted(pairs.items(), key=lambda item: item[1]):
        low, high = pair
        if low == high:
            steps[low] = component.sizes[name][axis]
        elif pair not in named:
            base = next((each for each in named if low - each[0] == high - each[1]), None)
            own = "batch" if not axis else "past" if "cache." in name else f"{name}_{axis}"
            if base:
                own = f"{named[base]}+{steps.get(low - base[0], low - base[0])}"
            named[pair] = own.replace(".", "_") + "_" * (own in named.values())
    return {
        name: tuple(named.get(pairs.get((name, axis), ()), size) for axis, size in enumerate(sizes))
        for name, sizes in component.sizes.items()
    }


def write_named(file: Path, sizes: Sizes, folder: Path) -> Path:
    """Write a file again with these names of its open sizes."""
    import onnx

    proto = onnx.load(file, load_external_data=False)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes[value.name], strict=True):
            if isinstance(size, str):
                dim.dim_param = size
    folder.mkdir()
    onnx.save(proto, folder / file.name)
    for data in file.parent.glob(f"{file.name}.data"):
        shutil.copyfile(data, folder / data.name)
    return folder / file.name
