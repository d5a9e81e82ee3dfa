"""A TorchScript module around another one, which takes and returns nothing but tensors.

A tracer accepts no number, text or None as a result of TorchScript, which it does not look into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.ir import quiet
from enginebay.sources import ScriptName
from enginebay.tensors import output_leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from enginebay.models import Signature


def flatten_script(model: Any, signature: Signature) -> torch.jit.ScriptModule | None:
    """Return a module that calls ``model`` and returns its tensors as one tuple.

    The result is None if the model returns only tensors, or takes or returns what the source of a
    script cannot name, such as a named tuple of the model's own code.
    """
    import torch

    tensors = list(signature.example_inputs.values())
    args, keywords = signature.call.fill(tensors)
    with torch.no_grad():
        result = model(*args, **keywords)
    if all(isinstance(leaf, torch.Tensor) for _, leaf in output_leaves(result)):
        return None
    (returned,) = model.forward.schema.returns
    places = [*_list_places(result, returned.type, "result")]
    names = [ScriptName(f"input_{index}") for index in range(len(tensors))]
    args, keywords = signature.call.fill(names)  # type: ignore[arg-type]  # names instead of values
    passed = [*map(repr, args), *(f"{name}={value!r}" for name, value in keywords.items())]
    parameters = ", ".join(["self", *(f"{name}: Tensor" for name in names)])
    source = (
        f"def forward({parameters}):\n"
        f"    result = self.model({', '.join(passed)})\n"
        f"    return ({', '.join(places)},)\n"
    )
    try:
        with quiet():
            flat: Any = torch.jit.script(_build_holder(model))
            flat.define(source)
    except Exception:  # noqa: BLE001  # the model itself is traced, and that error is reported
        return None
    return flat if len(places) == len(signature.output_paths) else None


def _list_places(value: object, kind: Any, place: str) -> Iterator[str]:
    """Yield an expression for each tensor in a result, in the order of its leaves."""
    import torch

    if value is None:
        return
    if kind.kind() == "OptionalType":
        kind, place = kind.getElementType(), f"torch.jit._unwrap_optional({place})"
    if isinstance(value, torch.Tensor):
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _list_places(item, kind.getValueType(), f"{place}[{key!r}]")
    elif isinstance(value, tuple):
        for index, (item, part) in enumerate(zip(value, kind.elements(), strict=True)):
            yield from _list_places(item, part, f"{place}[{index}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _list_places(item, kind.getElementType(), f"{place}[{index}]")


def _build_holder(model: torch.jit.ScriptModule) -> torch.nn.Module:
    import torch

    holder = torch.nn.Module()
    holder.model = model
    return holder
