"""A recorded reference: the samples on which an engine is judged, as data without a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from enginebay.tensors import Sample, TensorSpec
    from enginebay.verdict import Basis


@dataclass(frozen=True, kw_only=True)
class RecordedReference:
    """A reference's recorded samples, and the cases that the samples do not cover.

    Attributes:
        description: Name of the reference in the verdict: ``the PyTorch model, unpatched``.
        samples: Inputs (the example, data set items, probe inputs) with the reference's outputs.
        basis: A label for each sample, and the cases that the samples do not cover.
        missing: The reason why the reference computed no outputs; empty if it computed them. The
            engine must load and run in either case.
        engine_inputs: The names of the inputs that the engine has; None for all inputs.
    """

    description: str
    samples: tuple[Sample, ...]
    basis: Basis
    missing: str = ""
    engine_inputs: tuple[str, ...] | None = None

    def for_engine(
        self,
        notes: Sequence[str] | None,
        inputs: Iterable[TensorSpec] | None = None,
        scores: tuple[str, ...] = (),
    ) -> Self:
        """Return a copy for an engine that an IR was converted to.

        Args:
            notes: The exporter's notes, which name each line whose value became a constant; None
                for a file of another exporter, of which nobody knows the lines.
            inputs: The inputs of the IR, from which the exporter has dropped unused ones.
            scores: Names of outputs that consist of results of a sigmoid or a softmax.
        """
        names = None if inputs is None else tuple(spec.name for spec in inputs)
        basis = self.basis if notes is None else self.basis.keep_constants(notes)
        basis = msgspec.structs.replace(basis, scores=scores)
        if names is not None and basis.range is not None:
            basis = msgspec.structs.replace(basis, range=basis.range.keep(names))
        return replace(self, basis=basis, engine_inputs=names)

    @property
    def engine_samples(self) -> list[Sample]:
        """The samples, with the inputs that the engine has."""
        names = self.engine_inputs
        if names is None:
            return list(self.samples)
        return [
            sample._replace(inputs={name: sample.inputs[name] for name in names})
            for sample in self.samples
        ]
