"""Model sources: load a model from a name, a file or a Python object.

A name is ``file.py:attr``, ``package.module:attr``, a ``.onnx``, ``.pt`` or ``.pt2`` file, or
``scheme:name`` of a plugin.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay import torch_private
from enginebay.environment import require
from enginebay.errors import InputError, ModelSourceError, UsageError, check_text
from enginebay.ir import check_tensors, is_ir_file, read_model_file
from enginebay.named_objects import named_object, public_names, unify_errors
from enginebay.sources.call_parameters import (
    forward_parameters,
    required_names,
    required_parameters,
    script_methods,
)
from enginebay.sources.foreign_files import describe_foreign
from enginebay.task_records import record_task

if TYPE_CHECKING:
    import torch

    from enginebay.ir import IRModel
    from enginebay.sources.function_models import FunctionModel

#: Model sources of plugins: scheme → function from the name after the scheme to the model.
Schemes: TypeAlias = Mapping[str, Callable[[str], Any]]

_FORMS = "file.py:attr, package.module:attr, or a .onnx, .pt (TorchScript) or .pt2 file"

_PAIR = "to use a function itself as the model, pass a tuple (function, inputs)"

#: Suffixes of files that contain weights without a model.
_WEIGHTS = (".pth", ".ckpt", ".bin", ".safetensors", ".h5", ".npz")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A loaded model and its origin.

    Attributes:
        description: The text with which the user named the model, or the class of the user's
            object.
        named: A name that loads the model from any working directory; empty for a Python object.
        model: An ``nn.Module``, a TorchScript module or an exported program; None for an ONNX file.
        ir: The model's ``.onnx``, ``.pt`` or ``.pt2`` file as an IR; None if there is no such file.
        example_inputs: The model's own example inputs, as ``export`` takes them; None if absent.
        task: The type and the settings of the model's task; None if the source has no task.
        weights: The origin of the weights, if known: ``random (seed 0)``, ``pretrained``, or a file
            with its digest.
    """

    description: str
    named: str = ""
    model: Any = None
    ir: IRModel | None = None
    example_inputs: Any = None
    task: dict[str, Any] | None = None
    weights: str = ""

    @cached_property
    def module(self) -> Any:
        """The model as an ``nn.Module``, taken out of an exported program or a compiled module."""
        return (
            self.model.module()
            if self.program is not None
            else torch_private.unwrap_compiled_module(self.model)
        )

    @property
    def program(self) -> torch.export.ExportedProgram | None:
        """The model if it is an exported program; else None."""
        return self.model if self.model is not None and _is_program(self.model) else None

    @property
    def input_names(self) -> list[str]:
        """The input names in the model's file or, if it has none, the parameters of ``forward``."""
        if self.ir is not None and self.ir.inputs:
            return [spec.name for spec in self.ir.inputs]
        return list(forward_parameters(self.module).parameters)

    @property
    def required_inputs(self) -> list[str]:
        """The input names in the model's file or, if it has none, forward's required parameters."""
        if self.ir is not None and self.ir.inputs:
            return [spec.name for spec in self.ir.inputs]
        return required_names(forward_parameters(self.module))

    def arguments(self, named: Mapping[str, object]) -> object:
        """Convert inputs by name to arguments of ``forward``, and return the arguments.

        The input names in a PyTorch file may differ from the parameters of ``forward``. If
        ``named`` has other names than the file, or there is no such file, return ``named``.
        """
        described = self.ir.inputs if self.ir is not None and self.model is not None else ()
        if {spec.name for spec in described} != set(named):
            return named
        values = [named[spec.name] for spec in described]
        structure = torch_private.argument_structure_of(self.module)
        if structure is None or structure.num_leaves != len(values):
            return tuple(values)
        args, keywords = structure.unflatten(values)
        return (*args, keywords) if keywords else tuple(args)

    @property
    def name(self) -> str:
        """A short name for file names: ``build`` for ``net.py:build``, or the object's class."""
        if self.ir is not None:
            return Path(self.description).stem
        _, colon, attribute = self.description.partition("?")[0].rpartition(":")
        # A codebase's config: mmpretrain:configs/resnet18.py
        stem = Path(attribute).name.removesuffix(".py")
        if colon:
            return stem
        named = getattr(self.model, "function_name", type(self.model).__name__)
        return re.sub(r"\W", "", named).lower()


def load_model(source: object, *, schemes: Schemes | None = None) -> ModelSource:
    """Load a model.

    Args:
        source: A name such as ``file.py:attr``; a module, TorchScript or exported program; a
            callable without arguments, such as a class, that returns one of these; a function with
            arguments, which is itself the model; or a tuple of a model or function, example inputs
            and, optionally, a task and the origin of the weights. A :class:`ModelSource` is
            returned unchanged.
        schemes: Model sources of plugins, for ``scheme:name``.

    Raises:
        ModelSourceError: The name does not exist, the code behind the name raised, or the result is
            not a model.
        UsageError: The name cannot be encoded in this locale.
        MissingDependencyError: torch, onnx or a package that the model's code imports is not
            installed.
    """
    if isinstance(source, ModelSource):
        return source
    if isinstance(source, str | PathLike):
        # Checked first: a path that is not UTF-8 would fail only when the manifest is written.
        check_text(fspath(source))
    if isinstance(source, PathLike) or (isinstance(source, str) and is_file(source)):
        return replace(_from_file(Path(source)), named=str(Path(source).absolute()))
    if not isinstance(source, str):
        return _from_object(source, _describe(source))
    left, colon, attribute = source.rpartition(":")
    if not (left and colon and attribute):
        raise unreadable(source)
    if is_ir_file(left):
        return _from_method(Path(left), attribute)
    scheme, _, name = source.partition(":")
    if schemes and scheme in schemes:
        model = _call_user_code(lambda: schemes[scheme](name), source)
        return replace(_from_object(model, source), named=source)
    named = f"{Path(left).absolute()}:{attribute}" if left.endswith(".py") else source
    torch_private.import_torch()  # before files beside the model can hide what torch imports
    with named_object(source) as model:
        return replace(_from_object(model, source), named=named)


def is_file(text: str) -> bool:
    """Return True if a text ends with the suffix of a model file or a weights file."""
    return is_ir_file(text) or is_weights(text)


def is_weights(text: str) -> bool:
    """Return True if a text ends with the suffix of a file that contains only weights."""
    return Path(text).suffix.lower() in _WEIGHTS


def _from_file(path: Path) -> ModelSource:
    if not is_ir_file(path) and path.exists():
        raise unreadable(str(path))
    model, ir = read_model_file(path)
    check_tensors(ir)
    if ir.kind == "onnx" and not ir.inputs:
        raise InputError(
            f"'{path.name}' has no inputs: its outputs are constants, which prove nothing",
            hint=f"convert it without a verdict: enginebay convert BACKEND {path}",
        )
    if ir.kind == "torchscript" and not hasattr(model, "forward"):
        raise ModelSourceError(
            f"'{path}' has no method forward; its methods: {', '.join(script_methods(model))}",
            hint=f"name one of them: {path}:{script_methods(model)[0]}"
            if script_methods(model)
            else "call it in a function of Python, and name this function: file.py:function",
        )
    inputs = _program_inputs(model) if ir.kind == "exported_program" else None
    return ModelSource(description=str(path), model=model, ir=ir, example_inputs=inputs)


def _from_method(path: Path, name: str) -> ModelSource:
    """Load a method of a TorchScript file as the model."""
    from enginebay.sources.function_models import FunctionModel

    model, ir = read_model_file(path)
    methods = [*script_methods(model)] if ir.kind == "torchscript" else []
    if name not in methods:
        raise ModelSourceError(
            f"'{path}' has no method '{name}'; its methods: {', '.join(methods) or 'none'}"
        )
    function = FunctionModel(getattr(model, name))
    function.add_module("owner", model)
    named = f"{path.absolute()}:{name}"
    return ModelSource(description=f"{path}:{name}", named=named, model=function)


def _program_inputs(program: torch.export.ExportedProgram) -> tuple[object, ...] | None:
    """Return an exported program's example inputs: positional ones, then a dict of keywords."""
    if program.example_inputs is None:
        return None
    positional, keywords = program.example_inputs
    return (*positional, keywords) if keywords else tuple(positional)


def _from_object(model: Any, description: str) -> ModelSource:
    require("torch")
    inputs = task = None
    weights = ""
    if not _is_model(model) and callable(model):
        model = _build_model(model, description)
    if isinstance(model, tuple) and len(model) in (2, 3, 4):
        model, inputs, *extras = model
        task = _record_task(extras[0], description) if extras else None
        weights = _check_origin(extras[1], description) if len(extras) > 1 else ""
        model = _wrap_function(model) or model
    if not _is_model(model):
        message = f"'{description}' is or returns {_describe(model)}"
        raise ModelSourceError(
            f"{message}; expected an nn.Module, or a callable that returns one",
            hint=_suggest_model(model),
        )
    _check_modules(model, description)
    if inputs is None and _is_program(model):
        inputs = _program_inputs(model)
    return ModelSource(
        description=description, model=model, example_inputs=inputs, task=task, weights=weights
    )


def _check_modules(model: Any, description: str) -> None:
    """Raise if a module contains itself, since torch's traversal would recurse endlessly."""
    try:
        # With duplicates: otherwise torch skips modules that it has visited, and finds no cycle.
        list(() if _is_program(model) else model.named_modules(remove_duplicate=False))
    except RecursionError as err:
        message = f"'{description}' is or returns a module that contains itself"
        hint = "store a reference to a parent module in a tuple: self.parent = (module,)"
        raise ModelSourceError(message, hint=hint) from err


def _record_task(task: object, description: str) -> dict[str, Any] | None:
    if task is None:
        return None
    try:
        return record_task(task)
    except UsageError as err:
        message = f"invalid task of '{description}': {err}"
        raise ModelSourceError(message, hint=err.full_hint) from err


def _check_origin(weights: object, description: str) -> str:
    """Return the origin of the weights, which the manifest stores as a text."""
    if not isinstance(weights, str):
        raise ModelSourceError(
            f"invalid origin of the weights of '{description}': expected a text such as "
            f"'pretrained', found {weights!r}",
            hint="return (model, inputs, task, origin), with None without a task",
        )
    return weights


def _build_model(function: Callable[..., object], description: str) -> object:
    required = required_parameters(function)
    if required and not isinstance(function, type):
        return _wrap_function(function)
    if required:
        message = f"'{description}' cannot be called without arguments"
        raise ModelSourceError(
            f"{message}; required arguments: {', '.join(required)}",
            hint="pass the name of a function that takes no arguments and returns the model",
        )
    return _call_user_code(function, description)


def _wrap_function(value: object) -> FunctionModel | None:
    from enginebay.sources.function_models import FunctionModel

    if _is_model(value) or isinstance(value, type) or not callable(value):
        return None
    return FunctionModel(value)


def _call_user_code(function: Callable[[], object], description: str) -> object:
    try:
        with unify_errors("calling", description):
            return function()
    except ModelSourceError as err:
        if inspect.isfunction(function) and inspect.signature(function).parameters:
            err.hint = err.hint or f"the function was called to get the model; {_PAIR}"
        raise


def _is_model(value: object) -> bool:
    import torch

    return isinstance(value, torch.nn.Module) or _is_program(value)


def _is_program(value: object) -> bool:
    import torch

    return isinstance(value, torch.export.ExportedProgram)


def _describe(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    return f"an object of type {type(value).__qualname__}"


def _suggest_model(value: object) -> str | None:
    import torch

    if isinstance(value, Mapping):
        return "a state_dict contains only weights: load them into a model, and pass the model"
    if isinstance(value, torch.Tensor):
        return f"a function without arguments is called to get the model; {_PAIR}"
    return None


def unreadable(source: str) -> ModelSourceError:
    """Return the error for a text that is not a valid name of a model."""
    path = Path(source)
    if is_weights(source):
        message = f"'{source}' contains weights, not a model"
        hint = f"also pass the model of these weights: file.py:attr --weights {source}"
        return ModelSourceError(message, hint=hint)
    if path.suffix == ".py":
        message = f"'{source}' does not specify which model in the file"
        names = ", ".join(public_names(path)[:6])
        hint = f"write {source}:NAME" + (f"; available: {names}" if names else "")
        return ModelSourceError(message, hint=hint)
    if foreign := describe_foreign(path):
        what, hint = foreign
        return ModelSourceError(f"'{source}' is {what}", hint=hint)
    return ModelSourceError(f"'{source}' is not a valid model name", hint=f"expected {_FORMS}")
