"""``quantize``: an 8-bit artifact that is accurate enough, with few layers in floating point."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import enginebay as eb
from enginebay.authors import Steps, check_target
from enginebay.commands import Fields, Result, join_names, python_call, short_path, typed
from enginebay.errors import NotVerifiedError, UsageError
from enginebay_lab.diagnosis.rank_layers import check_precision, sensitivity
from enginebay_lab.evaluation.evaluate_artifacts import evaluate
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.evaluation.metric_sources import find_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from enginebay.authors import Step
    from enginebay.commands import Block

_PURPOSE = "max_drop gives layers back"
#: The arguments of :func:`enginebay.deploy` that :func:`sensitivity` takes too.
_SHARED = ("backend", "params", "precision", "dynamic", "export", "config")


class Quantization(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`quantize`.

    Attributes:
        deployment: The artifact, as :func:`enginebay.deploy` returns it.
        accuracy: Its metric beside PyTorch's, on all items of the data set.
        max_drop: The largest drop that was allowed.
        kept: The layers that were given back to floating point, the costliest first.
        layers: How many layers could have been.
    """

    deployment: eb.Deployment
    accuracy: EvaluationRow
    max_drop: float
    kept: tuple[str, ...]
    layers: int

    def __repr__(self) -> str:
        return f"<Quantization, {self.deployment.verdict}: {self.describe()}>"

    def blocks(self) -> Iterator[Block]:
        """The verdict, the metric, and what was given back to floating point."""
        given_back = f"{len(self.kept)} of {self.layers} layers" if self.layers else ""
        yield Fields(
            (
                ("verdict", self.deployment.verdict),
                ("accuracy", self.describe()),
                ("given back", given_back),
                ("kept", join_names(self.kept)),
                ("artifact", short_path(self.deployment.artifact.path)),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The document that ``enginebay quantize --json`` prints."""
        deployed = self.deployment.to_dict()
        return {
            **{key: deployed[key] for key in ("schema", "verdict", "artifact", "manifest")},
            "kind": "quantization",
            "accuracy": msgspec.to_builtins(self.accuracy),
            "max_drop": self.max_drop,
            "kept": list(self.kept),
            "layers": self.layers,
        }

    def describe(self) -> str:
        """One line: the metric here and in PyTorch, and what was allowed."""
        return _figures(self.accuracy, self.max_drop)


class Attempt(NamedTuple):
    """One artifact with some layers in floating point."""

    nodes: tuple[str, ...]
    deployment: eb.Deployment
    accuracy: EvaluationRow
    max_drop: float

    @property
    def passed(self) -> bool:
        """True if its verdict is no mismatch, and its metric drops little enough."""
        drop = self.accuracy.drop
        is_right = self.deployment.verdict in ("verified", "unverified")
        return is_right and drop is not None and drop <= self.max_drop


def quantize(
    model: Any,
    args: Any = None,
    *,
    data: Any,
    metric: Any,
    max_drop: float,
    work_dir: str | Path,
    int8_keep: Sequence[str] = (),
    verify: eb.VerifyOptions | None = None,
    overwrite: bool = False,
    watch: Callable[[Step], None] | None = None,
    **options: Any,
) -> Quantization:
    """Deploy a model in 8 bits, and give layers back to floating point until it is accurate enough.

    The layers that cost most, alone, are given back first: as few as the largest drop allows, which
    is found by doubling and then by halving. Where all in 8 bits will do, no layer is measured.

    Args:
        model: As :func:`enginebay.deploy` takes it; PyTorch must be able to run it.
        args: Example inputs.
        data: An :class:`enginebay.DataSet`, or what one is made of: it calibrates the engine, and
            its metric is measured on all of it.
        metric: One metric, as :func:`enginebay_lab.evaluate` takes it.
        max_drop: The largest drop of the metric below PyTorch's, in the metric's own unit.
        work_dir: The folder that the artifact becomes.
        int8_keep: Layers that stay in floating point from the start.
        verify: As :func:`enginebay.deploy` takes it. ``allow_mismatch`` publishes the most accurate
            artifact where none is accurate enough.
        overwrite: Replace the artifact that is there already.
        watch: Called with each step when it starts, when its detail changes and when it ends.
        **options: What else :func:`enginebay.deploy` takes.

    Raises:
        UsageError: An argument is wrong, or the precision is not an 8-bit one.
        ArtifactExistsError: ``work_dir`` is taken.
        NotVerifiedError: No artifact is verified and accurate enough.
    """
    if not isinstance(max_drop, int | float) or math.isnan(max_drop) or max_drop < 0:
        raise UsageError(f"max_drop is {max_drop!r}: wanted 0 or more", hint="--max-drop 0.01")
    check_target(work_dir, overwrite=overwrite)
    if options.get("backend") is not None and options.get("config") is None:
        chosen = (options["backend"], options.get("params"), options.get("precision"))
        check_precision(*chosen, _PURPOSE)
    command = python_call()
    sources = find_metrics(metric)
    if len(sources) > 1:
        names = ", ".join(source.name for source in sources)
        raise UsageError(f"max_drop is of one metric, found {names}")
    data = eb.DataSet.of(data)
    verify = verify or eb.VerifyOptions()
    steps = Steps(watch)
    fixed = tuple(int8_keep)

    def deployed(nodes: Sequence[str], folder: str | Path, **more: Any) -> eb.Deployment:
        with typed(command):
            return eb.deploy(
                *(model, args),
                work_dir=folder,
                data=data,
                int8_keep=(*fixed, *nodes),
                **{**options, **more},
            )

    with TemporaryDirectory(prefix="enginebay-quantize-") as trials:

        def attempt(nodes: Sequence[str]) -> Attempt:
            folder = Path(trials) / str(len(nodes))
            deployment = deployed(nodes, folder, verify=verify.replace(allow_mismatch=True))
            manifest = deployment.artifact.manifest
            check_precision(manifest.backend, manifest.params, None, _PURPOSE)
            (row,) = evaluate(folder, data, metric, model=model, timeout=verify.timeout).rows
            return Attempt(tuple(nodes), deployment, _checked(row), max_drop)

        order: list[str] = []
        with steps("quantize") as set_detail:
            found = attempt(())
            set_detail(_figures(found.accuracy, max_drop))
        if not found.passed and found.deployment.verdict != "crashed":
            shared = {name: options[name] for name in _SHARED if name in options}
            with steps("rank") as set_detail:
                ranked = sensitivity(
                    *(model, args),
                    data=data,
                    int8_keep=fixed,
                    timeout=verify.timeout,
                    watch=lambda step: set_detail(step.detail),
                    **shared,
                )
            order = [one.node for one in ranked.nodes]
            with steps("give back") as set_detail:

                def shown(nodes: Sequence[str]) -> Attempt:
                    set_detail(f"{len(nodes)} of {len(order)} layers")
                    return attempt(nodes)

                found = give_back(order, shown) if len(order) > 1 else found
                set_detail(f"{len(found.nodes)} of {len(order)} layers")
    verification = found.deployment.verification
    if not found.passed and not verify.allow_mismatch:
        given = f"with {len(found.nodes)} of {len(order)} layers given back: " if order else ""
        raise NotVerifiedError(
            f"{given}{_figures(found.accuracy, max_drop)}; {verification.summary()}",
            verdict=verification,
            hint="--max-drop with a larger value, other --data, or --allow-mismatch",
        )
    with steps("deploy") as set_detail:
        deployment = deployed(found.nodes, work_dir, overwrite=overwrite, verify=verify)
        set_detail(str(deployment.artifact.path))
    return Quantization(
        deployment=deployment,
        accuracy=found.accuracy,
        max_drop=max_drop,
        kept=found.nodes,
        layers=len(order),
    )


def give_back(order: Sequence[str], attempt: Callable[[Sequence[str]], Attempt]) -> Attempt:
    """Find the shortest beginning of a list that passes, by doubling and then by halving.

    Where a beginning passes, a longer one is taken to pass too. The whole list is never tried.

    Args:
        order: At least two nodes, the one to give back first at the head.
        attempt: Tries nodes in floating point.

    Returns:
        The last attempt that passed; where none did, the one with the most nodes.
    """
    low, high = 0, 1
    while not (found := attempt(order[:high])).passed:
        if high == len(order) - 1:
            return found
        low, high = high, min(2 * high, len(order) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        other = attempt(order[:middle])
        if other.passed:
            found, high = other, middle
        else:
            low = middle
    return found


def _checked(row: EvaluationRow) -> EvaluationRow:
    if row.reference is None:
        raise UsageError(
            f"metric '{row.metric}' gives no number for PyTorch, on {row.count} items",
            hint="choose another metric, or other data",
        )
    return row


def _figures(row: EvaluationRow, max_drop: float) -> str:
    value = f"has none: {row.error}" if row.value is None else f"is {row.value:.4g}"
    drop = "" if row.drop is None else f": a drop of {row.drop:.4g}"
    beside = f"{row.reference:.4g} in PyTorch{drop} on {row.count} items"
    return f"{row.metric} {value}, and {beside} (at most {max_drop:g})"
