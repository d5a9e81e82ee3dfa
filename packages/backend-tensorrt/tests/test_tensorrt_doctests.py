"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import enginebay_tensorrt


def test_docstring_examples_are_correct(stand_ins: Any) -> None:
    names = [
        f"enginebay_tensorrt.{each.name}"
        for each in iter_modules(enginebay_tensorrt.__path__)
        if each.name != "__main__"  # the console tool runs where it is imported
    ]
    results = [doctest.testmod(import_module(name)) for name in names]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 8
