"""The largest drop in accuracy that an 8-bit engine may have, and the layers given back for it."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.errors import UsageError
from enginebay.evaluation import (
    Candidate,
    Loop,
    Run,
    TorchModel,
    evaluate_here,
    find_metrics,
)
from enginebay.operations.int8_layers import give_back, rank_nodes
from enginebay.verdict import Accuracy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.evaluation import MetricSource
    from enginebay.models import ModelSource
    from enginebay.operations.build_engine import Engine
    from enginebay.operations.judged import Judge, Judged
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps


@dataclass(frozen=True)
class AccuracyGate:
    """The largest drop of a metric, from PyTorch's value on the same items.

    Attributes:
        metric: The metric.
        max_drop: The largest drop that passes.
        timeout: Seconds that an engine may take to load, and for each chunk of items.
    """

    metric: MetricSource
    max_drop: float
    timeout: float

    def check_model(self, source: ModelSource) -> None:
        """Check that PyTorch can run the model.

        Raises:
            UsageError: It is an ONNX file.
        """
        if source.model is None:
            raise UsageError(
                f"'{source.description}' does not run in PyTorch, which max_drop compares with",
                hint="deploy the PyTorch model that it was made from",
            )

    @contextmanager
    def reach(self, start: Judged, judge: Judge, steps: Steps) -> Iterator[Judged]:
        """Give layers back to floating point until the engine is verified and accurate enough.

        Args:
            start: The engine with all layers in 8 bits.
            judge: Gives the verdict on an engine.
            steps: Records the steps.

        Yields:
            The engine with the fewest layers given back, or, where none passes, with the most. Its
            files are removed after the block.
        """
        if start.verification.verdict == "crashed":
            yield start
            return
        with steps("accuracy") as set_detail:
            found = self._measured(start)
            set_detail(_figures(found))
        if found.verification.verdict != "mismatched":
            yield found
            return
        with steps("rank") as set_detail:
            ranked = rank_nodes(start.engine, judge, set_detail)
        order = [one.node for one in ranked]
        folder = start.engine.build.folder
        with TemporaryDirectory(prefix=".trials-", dir=folder) as trials:
            with steps("give back") as set_detail:

                def attempt(nodes: Sequence[str]) -> Judged:
                    set_detail(f"{len(nodes)} of {len(order)} layers")
                    place = Path(trials) / str(len(nodes))
                    place.mkdir()
                    kept = (*start.engine.kept, *nodes)
                    return self._measured(judge(start.engine.converted_again(kept, place)))

                if len(order) > 1:
                    found = give_back(order, attempt)
                given = len(found.engine.kept) - len(start.engine.kept)
                set_detail(f"{given} of {len(order)} layers; {_figures(found)}")
            yield found

    def _measured(self, judged: Judged) -> Judged:
        accuracy = self.measure(judged.engine)
        return judged._replace(verification=judged.verification.with_accuracy(accuracy))

    def measure(self, engine: Engine) -> Accuracy:
        """The metric of an engine and of PyTorch, on all items of its data set.

        Raises:
            UsageError: PyTorch's value is no number.
            InputError: An item lacks a target that the metric needs.
        """
        data, model = engine.build.data, engine.build.model
        assert data is not None  # the settings were checked
        candidate = Candidate("the engine", engine.load_request(strict=False), "")
        unused = model.examples.keys() - {spec.name for spec in engine.ir.inputs}
        run = Run([candidate], [self.metric], data, unused=unused)
        with Loop(run, timeout=self.timeout) as loop, model.runner() as runner:
            loop.start([candidate])
            totals = evaluate_here(run, [candidate], loop, TorchModel(model.source, runner))
        (row,) = totals.rows(candidate)
        if row.reference is None:
            raise UsageError(
                f"metric '{row.metric}' gives no number for PyTorch, on {row.count} items",
                hint="choose another metric, or other data",
            )
        return Accuracy(
            metric=row.metric,
            value=row.value,
            reference=row.reference,
            drop=row.drop,
            max_drop=self.max_drop,
            count=row.count,
            error=row.error,
        )


def accuracy_gate(
    metric: object, max_drop: float | None, settings: Settings, timeout: float
) -> AccuracyGate:
    """The gate that a caller wants, who gave a metric or a drop.

    Raises:
        UsageError: One of both is missing or wrong, or no layer can be given back.
    """
    if max_drop is None:
        raise UsageError("metric says how max_drop is measured", hint="--max-drop 0.01")
    if metric is None:
        raise UsageError("max_drop needs a metric to measure", hint="--metric accuracy")
    if not isinstance(max_drop, int | float) or math.isnan(max_drop) or max_drop < 0:
        raise UsageError(f"max_drop is {max_drop!r}: wanted 0 or more", hint="--max-drop 0.01")
    settings.backend.check_calibrated(settings.params, "max_drop gives layers back")
    sources = find_metrics(metric)
    if len(sources) > 1:
        names = ", ".join(source.name for source in sources)
        raise UsageError(f"max_drop is of one metric, found {names}")
    return AccuracyGate(sources[0], max_drop, timeout)


def _figures(judged: Judged) -> str:
    accuracy = judged.verification.accuracy
    return f"{judged.verification.verdict}, {accuracy.describe() if accuracy else ''}"
