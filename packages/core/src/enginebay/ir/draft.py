"""The export of a model in which operators may be missing, and what is missing."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from enginebay.ir.model import IRModel


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """An operator or a line of Python that prevents the deployment of a model.

    Attributes:
        operator: The operator, such as ``aten::sort`` or ``my.ops::Wibble``; for a branch on a
            tensor's values, the line of Python.
        modules: Dotted names of the modules that contain the operator or line, such as ``body.l``.
        reason: Why the operator or line cannot be deployed, in a few words.
        rewriter: Name of a rewriter or lowering that would replace the operator, and the condition
            under which the rewriter applies; empty if none is known.
    """

    operator: str
    modules: tuple[str, ...]
    reason: str
    rewriter: str = ""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A model's export for one backend, in which operators may be missing.

    Attributes:
        placeholder_domain: The ONNX domain of the nodes that stand for operators without a
            translation to ONNX.
        ir: The IR, of the kind that the backend prefers; None if there are operators that are not
            in ``BackendInfo.operators``, or if there is an error.
        kind: The IR's kind; empty if there is an error.
        obstacles: The operators that the exporter cannot translate, or that remain after lowering
            and are not in ``BackendInfo.operators``.
        rewritten: Rewriter name → the number of replacements that it made.
        error: Why the model could not be exported for this backend; empty if it was.
    """

    placeholder_domain: ClassVar[str] = "enginebay.untranslated"
    ir: IRModel | None = None
    kind: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    rewritten: dict[str, int] = {}
    error: str = ""
