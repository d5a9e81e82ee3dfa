"""What the samples show of a model's own code: decisions, read values, half precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

#: A branch on a size follows within so many lines.
_LINES_TO_BRANCH = 8


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


class ReadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of Python that reads a value which depends on the inputs: ``if``, ``.item()``.

    Attributes:
        line: File and number of the line: ``folder/net.py:12``.
        kind: ``truth`` (a truth value), ``number``, ``size`` (one that follows from values), or
            ``memory`` (the tensor itself, by DLPack).
        value: What was read in all samples, as text; empty if it differs.
    """

    line: str
    kind: Literal["truth", "number", "size", "memory"]
    value: str = ""

    def limit(self) -> str:
        """Return a sentence on what the samples do not show; empty if both branches were taken."""
        # A number may differ and decide the same.
        if not self.value and self.kind == "truth":
            return ""
        read = f"{self.value} in all" if self.value else f"a {self.kind} that differs between"
        return (
            f"{self.line}: Python reads a value that depends on the inputs ({read} samples); "
            "if this value decides a branch, the engine is right for that branch only"
        )

    def is_constant(self, notes: Iterable[str]) -> bool:
        """Return True if an exporter made the value a constant, as one of its notes says."""
        # The tracer notices a size where a branch reads it, after it was found, and nothing of
        # DLPack, which the other exporters refuse.
        if self.kind == "memory":
            return True
        file, _, number = self.line.rpartition(":")
        last = int(number) + (_LINES_TO_BRANCH if self.kind == "size" else 0)
        lines = [f"({file}:{each})" for each in range(int(number), last + 1)]
        return any(line in note for line in lines for note in notes)


class HalfPrecision(msgspec.Struct, frozen=True):
    """An operator of a model that computes in half precision.

    Attributes:
        operator: Name of the operator: ``mm``.
        dtype: ``bfloat16`` or ``float16``.
        line: File and number of the line of the model; empty if it is unknown.
    """

    operator: str
    dtype: str
    line: str = ""

    def describe(self) -> str:
        """Describe the operator: ``mm in bfloat16 (net.py:12)``."""
        where = f" ({self.line})" if self.line else ""
        return f"{self.operator} in {self.dtype}{where}"


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
