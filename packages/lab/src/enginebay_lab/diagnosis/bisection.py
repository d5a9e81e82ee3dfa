"""The result of a bisection, as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.commands import Fields, Result, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: Rows of the table before the culprit, and behind it.
_AROUND = 4

#: The step that goes wrong: from PyTorch to the exported graph, or from the graph to the engine.
Step = Literal["export", "engine", "unknown", "none"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a module, held against the reference.

    Attributes:
        module: The module's path, as ``named_modules()`` gives it; empty for the model itself.
        call: The number of the call, from 0, where a module is called more than once.
        accumulated: The largest absolute difference through the engine from the input up to here;
            None where it was not measured.
        alone: The same of the module alone, fed with the reference's tensors; None likewise.
        wrong: True if ``accumulated`` is beyond the tolerance.
        wrong_alone: True if ``alone`` is; None where it was not measured.
    """

    module: str
    call: int = 0
    accumulated: float | None = None
    alone: float | None = None
    wrong: bool = False
    wrong_alone: bool | None = None

    @property
    def title(self) -> str:
        """The path, with the number of the call after the first."""
        return call_title(self.module, self.call)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the exported ONNX graph.

    Attributes:
        name: Its name in the graph that the artifact was made from.
        operator: Its operator.
        tensor: Its output.
        module: The path of the module that it comes from.
        together: Names of the nodes that are wrong only together, this one the last of them.
        accumulated: The largest absolute difference through the engine from the piece's input.
        alone: The same of this node alone, or of these nodes together.
    """

    name: str = ""
    operator: str = ""
    tensor: str = ""
    module: str = ""
    together: tuple[str, ...] = ()
    accumulated: float | None = None
    alone: float | None = None


class Bisection(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="bisection"
):
    """The result of :func:`enginebay_lab.bisect`.

    Attributes:
        found: True if a place was found.
        module: The path of the first module that is wrong by itself: ``body.l``; empty for the
            model's own code.
        node: The node of the exported ONNX graph; empty where the engine takes another IR.
        operator: The node's operator.
        tensor: The node's output.
        together: The nodes that are wrong only together, such as two that the engine fuses.
        accumulated: The largest absolute difference there, through the engine from the input.
        alone: The same of the piece alone, fed with the reference's tensors.
        rtol: The relative tolerance that was applied there.
        atol: The absolute tolerance.
        step: ``export`` where the exported graph is wrong, by a rewriter or by the exporter;
            ``engine`` where the graph is right and the engine is not; ``unknown`` where nothing
            here can run the graph; ``none`` where nothing was found.
        rewriters: Names of what was rewritten in the module.
        reason: The same in a sentence.
        sample: What it was measured on: ``example``, a probe, an item of the data set.
        reference: What it was held against.
        engines: How many engines were built.
        places: The modules' calls that were compared, in the order in which they end.
    """

    found: bool
    module: str = ""
    node: str = ""
    operator: str = ""
    tensor: str = ""
    together: tuple[str, ...] = ()
    accumulated: float | None = None
    alone: float | None = None
    rtol: float | None = None
    atol: float | None = None
    step: Step = "none"
    rewriters: tuple[str, ...] = ()
    reason: str = ""
    sample: str = ""
    reference: str = ""
    engines: int = 0
    places: tuple[Place, ...] = ()

    def __repr__(self) -> str:
        return f"<Bisection: {self.reason}>"

    def blocks(self) -> Iterator[Block]:
        """The finding, where it is, and the modules around it."""
        yield self.reason
        tolerance = "" if self.rtol is None else f"rtol {self.rtol:.3g}, atol {self.atol:.3g}"
        yield Fields(
            [
                ("module", self.module or ("(the model)" if self.found else "")),
                ("node", f"{self.node} ({self.operator})" if self.node else ""),
                ("tensor", self.tensor),
                ("allowed", tolerance),
                ("sample", self.sample),
                ("engines", f"{self.engines} built"),
            ]
        )
        if rows := [_row(place) for place in _around(self)]:
            numbers = ("THROUGH", "ALONE")
            yield Table(("MODULE", *numbers, ""), rows, right=numbers)

    def sentence(self, backend: str, failure: str = "") -> str:
        """The finding in a sentence.

        Args:
            backend: The engine's name.
            failure: Why there is no difference in numbers: a crash, or another shape.
        """
        where = f"'{self.module}'" if self.module else "the model's own code"
        if self.node:
            where += f", node '{self.node}' ({self.operator})"
        if self.together:
            where += f" together with {', '.join(self.together[:-1])}"
        if failure:
            return f"{backend} leaves {self.reference} at {where}: {failure}"
        through, alone = _number(self.accumulated), _number(self.alone)
        text = f"{backend} leaves {self.reference} at {where}: off by {through} through the engine"
        if self.alone is None:
            return f"{text}; it could not be measured alone"
        text += f" and by {alone} alone"
        if self.step == "engine":
            return f"{text}; the exported graph is right there, and the engine is not"
        if self.step == "export":
            names = f" ({', '.join(self.rewriters)})" if self.rewriters else ""
            cause = f"a rewriter{names} or the exporter" if names else "the exporter"
            return f"{text}; the exported graph is wrong there, by {cause}"
        return text


def call_title(module: str, call: int) -> str:
    """A module's path, with the number of the call after the first.

    Args:
        module: The path; empty for the model itself.
        call: The number of the call, from 0.
    """
    name = module or "(the model)"
    return f"{name} (call {call + 1})" if call else name


def _number(value: float | None) -> str:
    return "an unknown amount" if value is None else f"{value:.2g}"


def _around(found: Bisection) -> tuple[Place, ...]:
    """The places near the culprit: the first wrong one where it has none of its own."""
    places = found.places
    own = [i for i, place in enumerate(places) if place.module == found.module and place.wrong]
    wrong = [i for i, place in enumerate(places) if place.wrong]
    at = (own or wrong or [0])[0]
    return places[max(0, at - _AROUND) : at + _AROUND + 1]


def _row(place: Place) -> tuple[str, str, str, str]:
    verdict = ""
    if place.wrong_alone:
        verdict = "wrong alone"
    elif place.wrong:
        verdict = "wrong" if place.wrong_alone is None else "right alone"
    return place.title, figure(place.accumulated), figure(place.alone), verdict


def figure(value: float | None) -> str:
    """A difference in a table."""
    return "-" if value is None else f"{value:.2g}"
