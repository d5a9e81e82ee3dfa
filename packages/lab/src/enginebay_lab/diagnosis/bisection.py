"""The result of a bisection: the wrong module and node, and the errors of all compared modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.commands import Fields, Result, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: The largest number of table rows before the culprit's row, and after it.
_NEARBY_ROWS = 4

#: The wrong step: the export of the graph from PyTorch, or the engine that is built from it.
Step = Literal["export", "engine", "unknown", "none"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of one module call in an engine with the same call in the reference.

    Attributes:
        module: The module's path, as in ``named_modules()``; empty for the model itself.
        call: The index of the call among the module's calls, from 0.
        accumulated: The largest absolute error of the module's outputs when the engine runs the
            model from its inputs up to this call; None if it was not measured.
        alone: The largest absolute error of the module's outputs when the engine runs only the
            module, on the module's inputs in the reference; None if it was not measured.
        wrong: True if the errors of the outputs exceeded the tolerance, or the engine crashed, when
            the engine ran the model from its inputs.
        wrong_alone: True if the errors of the outputs exceeded the tolerance, or the engine
            crashed, when the engine ran only the module; None if the module was not run alone.
    """

    module: str
    call: int = 0
    accumulated: float | None = None
    alone: float | None = None
    wrong: bool = False
    wrong_alone: bool | None = None

    @property
    def title(self) -> str:
        """The call's title: ``body.l`` for the first call, ``body.l (call 2)`` for the second."""
        return call_title(self.module, self.call)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the exported ONNX graph.

    Attributes:
        name: The node's name.
        operator: The node's operator, such as ``Conv``.
        tensor: The name of the node's first output.
        together: The names of nodes that are wrong only if one engine runs all of them, in graph
            order; the last name is this node's. Empty if this node is wrong when it runs alone.
        accumulated: The largest absolute error of the output when the engine runs the graph from
            its inputs up to this node; None if it was not measured.
        alone: The largest absolute error of the output when the engine runs only this node, or
            only the nodes of ``together``; None if it was not measured.
    """

    name: str = ""
    operator: str = ""
    tensor: str = ""
    together: tuple[str, ...] = ()
    accumulated: float | None = None
    alone: float | None = None


class Bisection(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="bisection"
):
    """The result of :func:`enginebay_lab.bisect`.

    Attributes:
        found: True if a wrong module or node was found.
        module: The path of the first wrong module, such as ``body.l``; empty if the code between
            the modules is wrong, and for an ONNX file without module names.
        node: The name of the wrong node in the exported ONNX graph; empty if the engine is not
            built from ONNX.
        operator: The node's operator, such as ``Conv``.
        tensor: The name of the node's first output.
        together: The names of nodes that are wrong only if one engine runs all of them, such as
            two nodes that the engine fuses.
        accumulated: The largest absolute error of the wrong output when the engine runs the model
            from its inputs; None if it was not measured.
        alone: The largest absolute error of the wrong output when the engine runs only the wrong
            module, or only the wrong nodes; None if it was not measured.
        rtol: The relative tolerance for the wrong output; None if nothing was compared.
        atol: The absolute tolerance for the wrong output; None if nothing was compared.
        step: ``export`` if the exported graph is wrong, because of a rewriter or the exporter, or
            an ONNX file differs from the model that its artifact was verified against;
            ``engine`` if the graph is right and the engine is wrong; ``unknown`` if the module
            cannot be built as a separate engine, or no evaluator can run the graph; ``none`` if
            nothing wrong was found.
        rewriters: The names of the rewriters that changed the wrong module.
        reason: A sentence that says what is wrong.
        sample: The name of the sample that was compared, such as ``item 3``.
        reference: The reference with which the engine was compared, such as ``PyTorch``.
        engines: The number of engines that were built.
        places: The compared calls of modules, in the order in which the calls end.
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
        """Yield the result as a sentence, the details, and a table of calls near the wrong call."""
        yield self.reason
        tolerance = "" if self.rtol is None else f"rtol {self.rtol:.3g}, atol {self.atol:.3g}"
        yield Fields(
            [
                ("module", call_title(self.module, 0) if self.found else ""),
                ("node", f"{self.node} ({self.operator})" if self.node else ""),
                ("tensor", self.tensor),
                ("allowed", tolerance),
                ("sample", self.sample),
                ("engines", f"{self.engines} built"),
            ]
        )
        if rows := [_place_cells(place) for place in _nearby_places(self)]:
            numbers = ("THROUGH", "ALONE")
            yield Table(("MODULE", *numbers, ""), rows, right=numbers)

    def sentence(self, backend: str, failure: str = "") -> str:
        """Return a sentence that says where and by how much the engine differs.

        Args:
            backend: The name of the engine's backend.
            failure: Why there is no numeric difference, such as a crash or a different shape; empty
                if the difference is numeric.
        """
        where = f"'{self.module}'" if self.module else "the model's own code"
        if self.node:
            where += f", node '{self.node}' ({self.operator})"
        if self.together:
            where += f" together with {', '.join(self.together[:-1])}"
        if failure:
            return f"{backend} differs from {self.reference} at {where}: {failure}"
        through, alone = _describe_error(self.accumulated), _describe_error(self.alone)
        text = (
            f"{backend} differs from {self.reference} at {where}: off by {through} when the "
            "engine runs the model from its inputs"
        )
        if self.alone is None:
            return f"{text}; this part could not be measured alone"
        text += f", and by {alone} when it runs only this part"
        if self.step == "engine":
            return f"{text}; the exported graph is right there, but the engine is wrong"
        if self.step == "export":
            names = f" ({', '.join(self.rewriters)})" if self.rewriters else ""
            cause = f"a rewriter{names} or the exporter" if names else "the exporter"
            return f"{text}; the exported graph is wrong there, because of {cause}"
        return text


def call_title(module: str, call: int) -> str:
    """Return a call's title: ``body.l`` for the first call, ``body.l (call 2)`` for the second.

    Args:
        module: The module's path; empty for the model itself.
        call: The index of the call among the module's calls, from 0.
    """
    name = module or "(the model)"
    return f"{name} (call {call + 1})" if call else name


def _describe_error(value: float | None) -> str:
    return "an unknown amount" if value is None else f"{value:.2g}"


def _nearby_places(bisection: Bisection) -> tuple[Place, ...]:
    """Return the wrong module's first wrong call, and some calls before and after this call.

    If this module has no wrong call, use the first wrong call of any module instead.
    """
    places = bisection.places
    wrong = [index for index, place in enumerate(places) if place.wrong]
    culprit = [index for index in wrong if places[index].module == bisection.module]
    center = (culprit or wrong or [0])[0]
    return places[max(0, center - _NEARBY_ROWS) : center + _NEARBY_ROWS + 1]


def _place_cells(place: Place) -> tuple[str, str, str, str]:
    verdict = ""
    if place.wrong_alone:
        verdict = "wrong alone"
    elif place.wrong:
        verdict = "wrong" if place.wrong_alone is None else "right alone"
    return place.title, format_figure(place.accumulated), format_figure(place.alone), verdict


def format_figure(value: float | None) -> str:
    """Return a difference as text for a table cell; ``-`` for None."""
    return "-" if value is None else f"{value:.2g}"
