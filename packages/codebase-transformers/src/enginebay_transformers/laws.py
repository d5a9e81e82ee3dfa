"""Laws that the parts of a model keep, together, if they generate what the model generates.

The verdict on a part says that its engine computes what its module computes. It cannot see what all
parts lack: a mask that the exporter dropped, an encoder that nobody exported. These laws do, for
folders that transformers' exporters wrote and for bundles alike::

    breaches = find_breaches(model, {"input_ids": ids, "attention_mask": mask}, parts)
"""

from __future__ import annotations

import copy
import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginebay_transformers import upstream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from enginebay import Artifact

    Sample = Mapping[str, Any]
    #: The inputs and the outputs of a call of the model, by path.
    Call = tuple[dict[str, Tensor], dict[str, Tensor]]

#: The tokens of a trial: one from the prompt, and two with a cache.
_TOKENS = 3


@dataclass(frozen=True)
class Part:
    """An engine of a model that was exported in parts.

    Attributes:
        name: The part's name, such as ``decode``.
        module: What the engine computes: the model, or a module of it.
        inputs: The module's inputs for the sample, as keyword arguments of its ``forward``.
        sizes: Name of an input of the engine (``attention_mask``, ``cache.0.key``) → its sizes; an
            open one is a text, such as ``past`` or ``past+1``.
        tried: Name of an open size → the sizes at which engine and module were compared; None if
            they were not, since the engine was refused.
    """

    name: str
    module: nn.Module
    inputs: Sample
    sizes: Mapping[str, Sequence[int | str]]
    tried: Mapping[str, Collection[int]] | None

    @classmethod
    def of(cls, artifact: Artifact, name: str, module: nn.Module, inputs: Sample) -> Part:
        """Return the part whose engine is an artifact, with the sizes of its verdict."""
        known = artifact.verified_range
        tried = {size: found.sizes for size, found in known.sizes.items()} if known else {}
        sizes = {spec.name: spec.dims or () for spec in artifact.inputs}
        return cls(name, module, inputs, sizes, tried)


def find_breaches(
    model: nn.Module, sample: Sample, parts: Sequence[Part], *, generates: bool = True
) -> list[str]:
    """Return a line for each breach of the laws: what is wrong, why, and what to do.

    1. An argument that changes the tokens is an input of a part.
    2. Each open size of a part was tried at more than one size, and no size is fixed that changes
       from one step of ``generate`` to the next.
    3. A module with weights that runs in ``generate`` runs in a part.

    Args:
        model: The model in PyTorch, in evaluation mode.
        sample: Arguments of ``model.generate``, or of ``model`` if ``generates`` is False.
        parts: The parts.
        generates: False if the parts are for one call of the model.
    """
    import torch

    modules = {
        name: module
        for name, module in model.named_modules()
        if name and next(module.parameters(recurse=False), None) is not None
    }
    with _names_that_run(modules) as needed:
        calls = _run(model, sample, generates)
    with _names_that_run(modules) as found, torch.no_grad():
        for part in parts:
            part.module(**copy.deepcopy(dict(part.inputs)))
    return [
        *_find_lost_arguments(model, sample, parts, calls, generates),
        *(line for part in parts for line in _find_untried_sizes(part)),
        *_find_frozen_sizes([part for part in parts if type(part.module) is type(model)], calls),
        *_find_missing_modules(needed, found),
    ]


def _run(model: Any, sample: Sample, generates: bool) -> list[Call]:
    """Run the model; return the inputs and outputs of each call."""
    import torch

    calls: list[Call] = []

    def begin(_: object, __: object, inputs: dict[str, Any]) -> None:
        calls.append((upstream.get_leaf_tensors(copy.deepcopy(inputs)), {}))

    def end(_: object, __: object, outputs: Any) -> None:
        calls[-1][1].update(upstream.get_leaf_tensors(getattr(outputs, "logits", outputs)))

    hooks = (
        model.register_forward_pre_hook(begin, with_kwargs=True),
        model.register_forward_hook(end),
    )
    given = copy.deepcopy(dict(sample))
    try:
        with torch.no_grad():
            if generates:
                settings = copy.deepcopy(model.generation_config)
                settings.update(max_new_tokens=_TOKENS, min_new_tokens=_TOKENS, do_sample=False)
                model.generate(**given, generation_config=settings)
            else:
                model(**given)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


@contextmanager
def _names_that_run(modules: Mapping[str, nn.Module]) -> Iterator[set[str]]:
    ran: set[str] = set()
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: ran.add(name))
        for name, module in modules.items()
    ]
    try:
        yield ran
    finally:
        for hook in hooks:
            hook.remove()


def _find_lost_arguments(
    model: nn.Module, sample: Sample, parts: Iterable[Part], calls: list[Call], generates: bool
) -> Iterator[str]:
    import torch

    ids = sample.get("input_ids")
    takes_mask = "attention_mask" in inspect.signature(model.forward).parameters
    if generates and ids is not None and takes_mask:
        sample = {"attention_mask": torch.ones_like(ids), **sample}
    for name, value in sample.items():
        if not isinstance(value, torch.Tensor):
            continue
        way = "export the module that takes it, and add it to the parts"
        if name == "attention_mask":
            way = "export from a sample in which a row is padded on the left"
        takers = [
            part for part in parts if any(_path(n).partition(".")[0] == name for n in part.sizes)
        ]
        if not takers:
            others = _run(model, {**sample, name: _change(value)}, generates)
            if not all(map(_are_equal, calls, others)):
                what = "the tokens of generate" if generates else "the outputs"
                yield f"'{name}' changes {what}, and no part takes it: {way}"
        for part in parts:
            if takers and part not in takers and _depends_on(part, name):
                yield f"'{name}' changes '{part.name}', which does not take it: {way}"


def _list_arguments(part: Part) -> set[str]:
    return {_path(name).partition(".")[0] for name in part.sizes}


def _depends_on(part: Part, name: str) -> bool:
    """Return True if an argument with which a part's module is called changes its outputs."""
    import torch

    if not isinstance(value := part.inputs.get(name), torch.Tensor):
        return False
    with torch.no_grad():
        found, other = (
            upstream.get_leaf_tensors(part.module(**copy.deepcopy({**part.inputs, name: each})))
            for each in (value, _change(value))
        )
    return not _are_equal(({}, found), ({}, other))


def _change(value: Tensor) -> Tensor:
    """Return other values of the same kind: other padding, other ids, other pixels."""
    if value.is_floating_point():
        return value.flip(-1) + 0.5
    if value.min() < 0 or value.max() > 1:
        return value.roll(1, -1)
    changed = value.clone()
    changed[-1, ..., : max(1, value.shape[-1] // 2)] = not value[-1].flatten()[0]
    return changed


def _are_equal(call: Call, other: Call) -> bool:
    pairs = [(each, other[1].get(name)) for name, each in call[1].items()]
    return all(b is not None and a.shape == b.shape and a.allclose(b) for a, b in pairs)


def _find_untried_sizes(part: Part) -> Iterator[str]:
    if part.tried is None:
        return
    places: dict[str, str] = {}
    for name, sizes in part.sizes.items():
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                places.setdefault(size, f"axis {axis} of '{name}' of '{part.name}'")
    for size, place in places.items():
        tried = max((sorted(part.tried.get(term, ())) for term in size.split("+")), key=len)
        if len(tried) < 2:
            at = f"at {tried[0]} only" if tried else "at no size"
            yield f"{place} is open, and was tried {at}: export it with this axis fixed"


def _find_frozen_sizes(parts: Sequence[Part], calls: Sequence[Call]) -> Iterator[str]:
    """Find a step of which every part that takes its tensors has fixed another size."""
    known = [{_path(name): sizes for name, sizes in part.sizes.items()} for part in parts]
    for inputs, _ in calls[1:]:
        shapes = {_path(name): tensor.shape for name, tensor in inputs.items()}
        needed = shapes.keys() & {path for each in known for path in each}
        faults = [
            next(_list_unfit(part.name, sizes, shapes), "")
            for part, sizes in zip(parts, known, strict=True)
            if needed <= sizes.keys()
        ]
        if faults and all(faults):
            yield (
                f"{faults[0]} in a later step of generate: export with dynamic=True and "
                "multi_token_decode=True"
            )
            return


def _list_unfit(
    part: str, sizes: Mapping[str, Sequence[int | str]], shapes: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    for name, dims in sizes.items():
        for axis, (dim, size) in enumerate(zip(dims, shapes.get(name, dims), strict=False)):
            if isinstance(dim, int) and dim != size:
                yield f"axis {axis} of '{name}' of '{part}' is fixed at {dim}, and is {size}"


def _find_missing_modules(needed: set[str], found: set[str]) -> Iterator[str]:
    missing = sorted({_topmost(name, needed & found) for name in needed - found})
    for name in missing:
        yield (
            f"'{name}' of the model runs in generate, and in no part: export this module by hand, "
            f"and add it to the parts under the name '{name}'"
        )


def _topmost(name: str, found: Iterable[str]) -> str:
    """Return the largest module around a missing one of which nothing runs in a part."""
    path = name.split(".")
    parents = [".".join(path[:length]) for length in range(1, len(path))]
    free = [p for p in parents if not any(f"{other}.".startswith(f"{p}.") for other in found)]
    return next(iter(free), name)


def _path(name: str) -> str:
    """Return a tensor's path, which Enginebay and transformers' exporters write in two ways.

    Example:
        >>> _path("input.cache.layers.0.keys"), _path("cache.0.key")
        ('cache.0.key', 'cache.0.key')
    """
    return re.sub(r"\.(key|value)s$", r".\1", name.removeprefix("input.").replace(".layers.", "."))
