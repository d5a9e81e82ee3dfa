"""Lowerings: an operator of a captured graph, in terms of operators that an engine has.

The other kinds of rewriters replace what a model calls; a lowering replaces what reaches ATen,
whoever called it. It is a decomposition, as torch has many: ``rewriters`` chooses among those that
are declared, ``calls`` runs and checks one with its ``context``, ``program`` puts them into a
captured graph and refuses what is left, and ``operators`` has the names.
"""

from __future__ import annotations

from enginebay.rewriting.lowering.context import LoweringContext
from enginebay.rewriting.lowering.met import operators_met
from enginebay.rewriting.lowering.program import capture, lower_program
from enginebay.rewriting.lowering.rewriters import LoweringRewriters, active_lowerings

__all__ = [
    "LoweringContext",
    "LoweringRewriters",
    "active_lowerings",
    "capture",
    "lower_program",
    "operators_met",
]
