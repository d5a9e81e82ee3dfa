"""The caches for torch change nothing of what an export computes with."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
import torch.onnx
from torch._export import utils
from torch.export import exported_program as programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def test_composite_operators_have_the_kernels_of_torch() -> None:
    replacements = dict.fromkeys(utils._collect_all_valid_cia_ops(), len)
    source = inspect.getsource(programs).split("@contextmanager\ndef _override")[1]
    names = dict(vars(programs))
    exec("@contextmanager\ndef _override" + source.split("\n\n\ndef ")[0], names)
    expected = _override(names["_override_composite_implicit_decomp"], replacements)
    before = _describe(replacements)
    assert _override(programs._override_composite_implicit_decomp, replacements) == expected
    assert _describe(replacements) == before
    # An export removes torch's own rules for some operators, the first time in a process.
    assert _override(names["_override_composite_implicit_decomp"], replacements) == expected


def test_a_composite_operator_that_was_just_registered_is_found() -> None:
    utils._collect_all_valid_cia_ops()
    with torch.library._scoped_library("quick_torch", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        found = {op.name() for op in programs._collect_all_valid_cia_ops()}
        assert "quick_torch::twice" in found


def _override(override: Callable[..., Any], replacements: dict[Any, Any]) -> dict[Any, Any]:
    with override(replacements):
        return _describe(replacements)


def _describe(operators: Iterable[Any]) -> dict[Any, Any]:
    """Return what each operator calls: closures and partial functions have no equality."""
    return {
        op: (
            {key: _name(kernel) for key, kernel in op.py_kernels.items()},
            programs._is_op_registered_to_fake_rule(op),
        )
        for op in operators
    }


def _name(kernel: Any) -> str:
    inner = getattr(kernel, "func", kernel)
    return f"{getattr(inner, '__qualname__', inner)} {getattr(kernel, 'args', ())}"
