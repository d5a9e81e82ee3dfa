"""What can be wrong with a declaration, said where it stands and not where it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import Rewriter

#: What ``torch.onnx.symbolic_helper.parse_args`` reads arguments as.
DESCRIPTORS = ("v", "i", "is", "f", "fs", "b", "s", "t", "none")

#: The base class of all modules, by the name that it gives itself.
_MODULE = "torch.nn.modules.module.Module"


def check_name_given(kind: str, name: object) -> None:
    """Check that a decorator was called with a name, before it waits for what it decorates.

    Raises:
        RewriterError: It was not, as in a bare ``@rewriters.function``.
    """
    if not isinstance(name, str):
        raise RewriterError(
            f"a {kind} rewriter takes the name of what it rewrites, not {_kind(name)}",
            hint=f'@rewriters.{kind}("package.name")',
        )


def check(rewriter: Rewriter) -> None:
    """Check one declaration.

    Raises:
        RewriterError: It cannot be right.
    """
    _check_name(rewriter)
    _check_kinds(rewriter)
    _check_versions(rewriter)


def _check_name(rewriter: Rewriter) -> None:
    name = rewriter.name
    dotted = all(part.isidentifier() for part in name.split("."))
    operator = all(part.isidentifier() for part in name.split("::", maxsplit=1))
    if rewriter.is_pytorch:
        fits, wanted = operator, 'the name of an operator, such as "squeeze" or "my_ops::nms"'
    else:
        fits = dotted and "." in name
        wanted = f'a dotted name, such as "package.{name if dotted else "name"}"'
    if fits:
        return
    forgotten = rewriter.kind == "symbolic" and operator and not rewriter.is_pytorch
    raise RewriterError(
        f'the {rewriter.kind} rewriter {rewriter.origin} is for "{name}", which is not {wanted}',
        hint="add is_pytorch=True" if forgotten else None,
    )


def _check_kinds(rewriter: Rewriter) -> None:
    subject = f'the {rewriter.kind} rewriter of "{rewriter.name}"'
    if rewriter.kind == "module" and not _is_module_class(rewriter.replacement):
        given = rewriter.replacement
        found = given.__qualname__ if isinstance(given, type) else _kind(given)
        raise RewriterError(
            f"{subject} must be a class derived from torch.nn.Module, not {found}",
            hint="use .function for a function or a method",
        )
    if not callable(rewriter.replacement):
        raise RewriterError(f"{subject} must be a function, not {_kind(rewriter.replacement)}")
    if rewriter.check is not None and not callable(rewriter.check):
        raise RewriterError(
            f"the check of {subject} must be a function, not {_kind(rewriter.check)}",
            hint="check=lambda target: target.opset == 20",
        )
    for condition in ("backend", "ir"):
        value = getattr(rewriter, condition)
        if value is not None and not isinstance(value, str):
            raise RewriterError(
                f"{condition} of {subject} must be one name, not {_kind(value)}",
                hint=f"declare it once for each {condition}",
            )
    if not isinstance(rewriter.versions, Mapping):
        raise RewriterError(
            f"versions of {subject} must be ranges by distribution, not {_kind(rewriter.versions)}",
            hint='write versions={"torch": ">=1.2,<2"}',
        )


def _is_module_class(value: object) -> bool:
    """Whether it is a class of modules; asked without torch, which a declaration never imports."""
    bases = value.__mro__ if isinstance(value, type) else ()
    return any(f"{each.__module__}.{each.__name__}" == _MODULE for each in bases)


def _check_versions(rewriter: Rewriter) -> None:
    if not rewriter.versions:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    for distribution, wanted in rewriter.versions.items():
        try:
            SpecifierSet(wanted if isinstance(wanted, str) else "neither")
        except InvalidSpecifier as err:
            raise RewriterError(
                f'the rewriter of "{rewriter.name}" wants {distribution} "{wanted}", '
                "which is not a version range",
                hint=f'write versions={{"{distribution}": ">=1.2,<2"}}',
            ) from err


def check_descriptors(name: str, descriptors: Sequence[str]) -> None:
    """Check how a symbolic's arguments are to be read.

    Raises:
        RewriterError: They are no list, or one of them is unknown.
    """
    if isinstance(descriptors, str):
        raise RewriterError(
            f'arg_descriptors of the symbolic rewriter of "{name}" must be a list, not a str',
            hint=f'arg_descriptors=["{descriptors}"]',
        )
    for each in descriptors:
        if each not in DESCRIPTORS:
            raise RewriterError(
                f'the symbolic rewriter of "{name}" has the argument descriptor {each!r}; '
                f"wanted one of {', '.join(DESCRIPTORS)}"
            )


def check_sets(rewriters: Iterable[Any], irs: Iterable[str]) -> None:
    """Check what a caller hands over as ``rewriters``.

    Args:
        rewriters: It should be a sequence of sets.
        irs: The kinds of IR that there are.

    Raises:
        RewriterError: It is something else, or a rewriter is for an IR that does not exist.
    """
    from enginebay.rewriting.declaration import RewriterSet

    if isinstance(rewriters, RewriterSet | str) or not isinstance(rewriters, Iterable):
        raise _no_sets("is", rewriters)
    for group in rewriters:
        if not isinstance(group, RewriterSet):
            raise _no_sets("holds", group)
        for rewriter in group:
            if rewriter.ir is not None and rewriter.ir not in irs:
                raise RewriterError(
                    f'the {rewriter.kind} rewriter of "{rewriter.name}" is for the IR '
                    f'"{rewriter.ir}"; wanted one of {", ".join(irs)}'
                )


def _no_sets(verb: str, found: object) -> RewriterError:
    return RewriterError(
        f"rewriters {verb} {_kind(found)}, wanted a sequence of enginebay.RewriterSet",
        hint="rewriters=[my_set]",
    )


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
