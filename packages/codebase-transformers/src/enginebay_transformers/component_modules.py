"""The module of each component of a folder, and its inputs for a sample."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

from enginebay import TensorSpec
from enginebay.errors import ArtifactError, InputError, UsageError
from enginebay_transformers import upstream
from enginebay_transformers.exported_folder import list_numbers

if TYPE_CHECKING:
    from enginebay_transformers.exported_folder import ExportedFolder

    #: Component → its module, and the module's inputs.
    Modules = dict[str, tuple[Any, dict[str, Any]]]


def complete_sample(
    model: Any, found: ExportedFolder, sample: Any, generates: bool
) -> dict[str, Any]:
    """Return the sample as tensors, with random ids and a mask that pads a row on the left."""
    import torch

    if not isinstance(sample, dict):
        raise InputError("the model's example has no names", hint="pass --input NAME=SHAPE")
    torch.manual_seed(0)
    taken = {name for each in found.components for name in each.arguments}
    if generates:
        taken = {model.main_input_name, *inspect.signature(model.forward).parameters} - {"labels"}
    given = {name: value for name, value in sample.items() if generates or name in taken}
    if "input_ids" in ({model.main_input_name} if generates else taken):
        given.setdefault("input_ids", TensorSpec("input_ids", "int64", (3, 7)))
    ids = given.get("input_ids")
    if isinstance(ids, TensorSpec):
        shape: Any = ids.dims
        numbers = list_numbers(model.config.to_dict())
        special = {number for name, number in numbers if name.endswith("token_id")}
        usual = [n for n in range(model.config.get_text_config().vocab_size) if n not in special]
        ids = torch.tensor(usual)[torch.randint(len(usual), shape)]
        given["input_ids"] = ids
    if ids is not None and "attention_mask" in taken and "attention_mask" not in given:
        given["attention_mask"] = torch.ones(tuple(ids.shape), dtype=torch.int64)
        given["attention_mask"][-1, : (ids.shape[1] + 1) // 3] = 0
    for name, value in given.items():
        if isinstance(value, TensorSpec):
            sizes: Any = value.dims
            values = torch.randn(sizes) if value.dtype.startswith("float") else torch.ones(sizes)
            given[name] = values.to(getattr(torch, value.dtype))
        elif hasattr(value, "shape"):
            given[name] = torch.as_tensor(value)
    return given


def grow_sample(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the sample with another row and three more columns of text, to tell its axes apart."""
    import torch

    grown = {}
    for name, value in sample.items():
        if isinstance(value, torch.Tensor) and value.ndim:
            value = torch.cat([value, value[-1:]])
            if value.ndim == 2 and not value.is_floating_point():
                # On the left, where padding belongs.
                value = torch.cat([value[:, :1]] * 3 + [value], 1)
        grown[name] = value
    return grown


def find_modules(
    found: ExportedFolder, model: Any, sample: dict[str, Any], generates: bool
) -> Modules:
    """Return each component's module, and the module's inputs for the sample."""
    if not generates:
        return _check_classes(found, {"model": (model, sample)})
    files = {each.name: each.sizes for each in found.components}
    several = files.get("decode", {}).get("input_ids", (0, 1))[1] != 1
    modules: Modules = upstream.decompose_for_generation(model, sample, multi_token_decode=several)
    if missing := [name for name in modules if name not in files]:
        raise ArtifactError(
            f"'{found.path}' lacks the component '{missing[0]}', which generate needs",
            hint="export the model again with export_for_generation",
        )
    for name in files.keys() - modules.keys():
        # A module that somebody exported by hand, and added under its name.
        module = model.get_encoder() if name == "encoder" else dict(model.named_modules()).get(name)
        if module in (None, model):
            raise UsageError(
                f"the model has no module '{name}', after which '{found.path}' names a component",
                hint="name it as the model does, such as model.encoder",
            )
        modules[name] = module, _first_inputs(model, sample, module)
    return _check_classes(found, modules)


def _check_classes(found: ExportedFolder, modules: Modules) -> Modules:
    for each in found.components:
        own = type(modules[each.name][0]).__name__
        if own != each.architecture:
            raise UsageError(
                f"another model: '{each.name}' was exported from a module of the class "
                f"{each.architecture}, and this one is of {own}",
                hint="pass the model that was exported",
            )
    return modules


def _first_inputs(model: Any, sample: dict[str, Any], module: Any) -> dict[str, Any]:
    """Return the tensors with which a module is first called in generate, by name."""
    calls: list[dict[str, Any]] = []
    names = [*inspect.signature(module.forward).parameters]

    def keep(_: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append(dict(zip(names, args, strict=False)) | kwargs)

    hook = module.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        model.generate(**copy.deepcopy(sample), max_new_tokens=2)
    finally:
        hook.remove()
    first = next(iter(calls), {})
    return {name: value for name, value in first.items() if hasattr(value, "shape")}
