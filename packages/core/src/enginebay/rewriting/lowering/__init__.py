"""Lowerings replace operators of a captured graph by others that the engine supports.

The other kinds of rewriters replace calls in a model's code. A lowering replaces an ATen operator
wherever the graph has it, as torch's decompositions do. ``rewriters`` selects among the declared
lowerings, ``lowered_operator`` calls a lowering and checks the result, ``program`` applies all
selected lowerings to a captured graph, and ``operator_check`` raises an error for operators that
the engine still does not support.
"""

from __future__ import annotations

from enginebay.rewriting.lowering.choice import choose_lowerings
from enginebay.rewriting.lowering.context import LoweringContext
from enginebay.rewriting.lowering.observed_operators import observe_operators
from enginebay.rewriting.lowering.program import capture, lower_program
from enginebay.rewriting.lowering.rewriters import LoweringRewriters, active_lowerings

__all__ = [
    "LoweringContext",
    "LoweringRewriters",
    "active_lowerings",
    "capture",
    "choose_lowerings",
    "lower_program",
    "observe_operators",
]
