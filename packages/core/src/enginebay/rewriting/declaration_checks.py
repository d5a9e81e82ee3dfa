"""Validation of a rewriter at the time of its declaration, before its first use."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, get_args

from enginebay.errors import RewriterError
from enginebay.params import IRKind
from enginebay.rewriting.rewriter import NEEDS

if TYPE_CHECKING:
    from enginebay.rewriting.rewriter import Rewriter

#: The codes that ``torch.onnx.symbolic_helper.parse_args`` accepts, as of torch 2.13.
_DESCRIPTORS = ("v", "i", "is", "f", "fs", "b", "s", "t", "none")

#: The base class of all modules by its dotted name: torch may not be installed.
_MODULE = "torch.nn.modules.module.Module"


def name_subject(kind: str, given: object) -> tuple[str, object]:
    """Return the name of what a decorator such as ``@rewriters.function`` got, and its object.

    Returns:
        The name; and the class or function, or None if its name is enough to find it.

    Raises:
        RewriterError: The argument is neither a name nor such an object. A decorator that is
            written without brackets receives the replacement, which takes ``ctx``.
    """
    if isinstance(given, str):
        return given, None
    if (kind == "function" and isinstance(given, FunctionType)) or (
        kind == "module" and isinstance(given, type) and _is_module_class(given)
    ):
        if "ctx" not in inspect.signature(given).parameters:
            return f"{given.__module__}.{given.__qualname__}", given
    elif kind == "function" and callable(given) and "torch" in sys.modules:
        from torch.overrides import resolve_name

        if (name := resolve_name(given) or "").startswith("torch."):
            return name, None
    raise RewriterError(
        f"@rewriters.{kind} expected the name of the object to rewrite, "
        f"found {describe_type(given)}",
        hint=f'@rewriters.{kind}("package.name")',
    )


def check_descriptors(name: str, descriptors: Sequence[str]) -> None:
    """Check the argument descriptors of a symbolic, one letter code for each argument.

    Raises:
        RewriterError: The descriptors are a string instead of a list, or one of them is unknown.
    """
    subject = f'the symbolic rewriter of "{name}"'
    _check_list(descriptors, f"'arg_descriptors' of {subject}", "arg_descriptors")
    _check_known(descriptors, f"{subject} has the argument descriptor", _DESCRIPTORS)


def check_needs(name: str, needs: Sequence[str]) -> None:
    """Check the requirements of a lowering.

    Raises:
        RewriterError: The requirements are a string instead of a list, or one of them is unknown.
    """
    subject = f'the lowering of "{name}"'
    _check_list(needs, f"'needs' of {subject}", "needs")
    _check_known(needs, f"'needs' of {subject} contains", NEEDS)


def _check_list(values: object, subject: str, keyword: str) -> None:
    if isinstance(values, str):
        raise RewriterError(f"{subject} must be a list, not a str", hint=f'{keyword}=["{values}"]')


def _check_known(values: Sequence[str], subject: str, known: Iterable[str]) -> None:
    for value in values:
        if value not in known:
            raise RewriterError(f"{subject} {value!r}; expected one of {', '.join(known)}")


def check_rewriter(rewriter: Rewriter) -> None:
    """Check that the declaration of a rewriter is valid.

    Raises:
        RewriterError: The declaration is invalid.
    """
    _check_name(rewriter)
    _check_replacement(rewriter)
    _check_conditions(rewriter)
    _check_versions(rewriter)


def _check_name(rewriter: Rewriter) -> None:
    name = rewriter.name
    is_dotted = all(part.isidentifier() for part in name.split("."))
    is_operator = all(part.isidentifier() for part in name.split("::", maxsplit=1))
    if rewriter.kind == "lowering":
        parts = name.split(".")
        fits = is_dotted and len(parts) in (2, 3) and parts[0] != "torch"
        expected = f'the name of an operator, such as "aten.{parts[-1] if is_dotted else "relu"}"'
    elif rewriter.is_pytorch:
        fits, expected = is_operator, 'the name of an operator, such as "squeeze" or "my_ops::nms"'
    else:
        fits = is_dotted and "." in name
        expected = f'a dotted name, such as "package.{name if is_dotted else "name"}"'
    if fits or rewriter.subject is not None:  # a local class's name has <locals>
        return
    lacks_flag = rewriter.kind == "symbolic" and is_operator and not rewriter.is_pytorch
    raise RewriterError(
        f'the {rewriter.kind} rewriter {rewriter.origin} rewrites "{name}", which is not '
        f"{expected}",
        hint="add is_pytorch=True" if lacks_flag else None,
    )


def _check_replacement(rewriter: Rewriter) -> None:
    replacement = rewriter.replacement
    subject = f'the {rewriter.kind} rewriter of "{rewriter.name}"'
    if rewriter.kind == "module" and not _is_module_class(replacement):
        is_class = isinstance(replacement, type)
        found = replacement.__qualname__ if is_class else describe_type(replacement)
        raise RewriterError(
            f"{subject} must be a class derived from torch.nn.Module, not {found}",
            hint="use .function for a function or a method",
        )
    if not callable(replacement):
        raise RewriterError(f"{subject} must be a function, not {describe_type(replacement)}")


def _check_conditions(rewriter: Rewriter) -> None:
    subject = f'the {rewriter.kind} rewriter of "{rewriter.name}"'
    if rewriter.check is not None and not callable(rewriter.check):
        raise RewriterError(
            f"'check' of {subject} must be a function, not {describe_type(rewriter.check)}",
            hint="check=lambda target: target.opset == 20",
        )
    for condition in ("backend", "ir"):
        value = getattr(rewriter, condition)
        if value is not None and not isinstance(value, str):
            raise RewriterError(
                f"'{condition}' of {subject} must be one name, not {describe_type(value)}",
                hint=f"declare the rewriter once for each {condition}",
            )
    kinds = get_args(IRKind)
    if rewriter.ir is not None and rewriter.ir not in kinds:
        raise RewriterError(f'{subject} has ir="{rewriter.ir}"; expected one of {", ".join(kinds)}')


def _is_module_class(value: object) -> bool:
    bases = value.__mro__ if isinstance(value, type) else ()
    return any(f"{each.__module__}.{each.__name__}" == _MODULE for each in bases)


def _check_versions(rewriter: Rewriter) -> None:
    if not isinstance(rewriter.versions, Mapping):
        raise RewriterError(
            f"'versions' of the {rewriter.kind} rewriter of \"{rewriter.name}\" must be a mapping "
            f"from distributions to version ranges, not {describe_type(rewriter.versions)}",
            hint='write versions={"torch": ">=1.2,<2"}',
        )
    if not rewriter.versions:
        return  # most have none, and importing packaging is slow
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    for distribution, specifier in rewriter.versions.items():
        try:
            SpecifierSet(specifier if isinstance(specifier, str) else "not a range")
        except InvalidSpecifier as err:
            raise RewriterError(
                f'the rewriter of "{rewriter.name}" requires {distribution} "{specifier}", '
                "which is not a version range",
                hint=f'write versions={{"{distribution}": ">=1.2,<2"}}',
            ) from err


def describe_type(value: object) -> str:
    """Return the type of a value for a message, such as ``"a list"``; ``"None"`` for None."""
    return "None" if value is None else f"a {type(value).__name__}"
