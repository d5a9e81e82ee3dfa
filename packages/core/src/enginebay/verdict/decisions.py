"""Decisions of a model, and which of their sides the samples have taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The number of decisions that have a limit of their own in a verdict.
_MAX_LIMITS = 3

#: The nouns of what is counted.
_NOUNS = {
    "choice": "choices",
    "class": "classes",
    "row": "rows of a table",
    "condition": "conditions",
    "column": "columns",
}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that the model takes, and how many of its sides the samples have taken.

    Attributes:
        kind: ``choice`` (of one entry of several, such as an expert), ``class`` (an output is such
            a choice), ``row`` (of a table), ``condition``, ``column`` (of a condition or of an
            output of integers or truth values), ``suppression`` (of a box that overlaps another
            one), or ``value`` (an output of integers or truth values, or an empty one).
        place: Line of the model: ``folder/moe.py:12``; empty for ``column`` and ``value`` of an
            output.
        output: Name of the output; empty for a decision inside the model.
        count: Number of sides: experts, rows, conditions at the line, columns.
        taken: Number of the sides that the samples take. A condition or a column counts if it
            changes.
        missing: The first sides that no sample takes: ``("5", "7")``, ``("True",)``.
    """

    kind: Literal["choice", "class", "row", "condition", "column", "suppression", "value"]
    place: str = ""
    output: str = ""
    count: int = 1
    taken: int = 0
    missing: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describe what was taken: ``3 of 8 choices (moe.py:12)``."""
        where = f" in '{self.output}'" if self.output else ""
        where += f" ({self.place})" if self.place else ""
        if self.kind == "value":
            return f"'{self.output}' never changes"
        if self.kind == "suppression":
            return f"suppression never{where}"
        if self.kind == "condition" and self.count == 1:
            return f"a condition never {self.missing[0]}{where}"
        return f"{self.taken:,} of {self.count:,} {_NOUNS[self.kind]}{where}"

    def limit(self) -> str:
        """Return a sentence that names the sides that no sample takes; empty if there are none."""
        if self.taken >= self.count:
            return ""
        left = self.count - self.taken
        listed = f" ({', '.join(self.missing)}{', …' if left > len(self.missing) else ''})"
        place = f"output '{self.output}'" if self.output else self.place
        match self.kind:
            case "value":
                return (
                    f"output '{self.output}' is the same in all samples, so an engine that always "
                    "returns this value would pass: pass an example, or --data, with different "
                    "results"
                )
            case "suppression":
                text = "no box is suppressed in any sample"
            case "condition" if self.count == 1:
                text = f"a condition is never {self.missing[0]} in the samples"
            case "condition" | "column":
                listed = listed if self.kind == "column" else ""
                text = f"{left:,} of {self.count:,} {_NOUNS[self.kind]} never change{listed}"
            case kind:
                text = f"{left:,} of {self.count:,} {_NOUNS[kind]} occur in no sample{listed}"
        return (
            f"{place}: {text}, so an engine that is wrong there would pass: pass an example, or "
            f"--data, that takes {'it' if left == 1 else 'them'}"
        )


def describe_decisions(decisions: Sequence[Decision] | None) -> str:
    """Describe what was taken in one line; empty if the model takes no decisions."""
    if decisions is None:
        return "not watched: the model is a file that PyTorch does not run"
    return ", ".join(decision.describe() for decision in decisions)


def limit_decisions(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """Return sentences that name what no sample takes: a few, and the places of the others."""
    missing = [decision for decision in decisions if decision.limit()]
    texts = [decision.limit() for decision in missing[:_MAX_LIMITS]]
    if others := missing[_MAX_LIMITS:]:
        texts.append(f"no sample takes all of these either: {describe_decisions(others)}")
    return tuple(texts)
