"""``quantize``: build an accurate 8-bit artifact with the fewest layers in floating point."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import enginebay as eb
from enginebay.authors import Steps
from enginebay.authors.artifacts import check_target
from enginebay.commands import (
    Fields,
    Result,
    join_names,
    python_call,
    quiet_verdict,
    short_path,
    typed,
)
from enginebay.errors import Hint, NotVerifiedError, UsageError, argument
from enginebay_lab.diagnosis.rank_layers import check_precision, sensitivity
from enginebay_lab.evaluation.evaluate_artifacts import evaluate
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.shared_params import check_deploy_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Step
    from enginebay.commands import Block

#: The beginning of the error about a precision that is not an 8-bit one.
_PURPOSE = "quantize requires layers in 8 bits"
#: The keyword arguments of :func:`enginebay.deploy` that :func:`sensitivity` accepts too.
_SHARED = ("backend", "params", "precision", "dynamic", "export", "config")


class Quantization(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`quantize`.

    Attributes:
        deployment: The result of :func:`enginebay.deploy` for the artifact.
        accuracy: A metric's values for the artifact and for PyTorch, on the whole data set: of the
            first metric, or of the first that drops too much.
        max_drop: The largest allowed drop of each metric, compared with PyTorch.
        kept: The names of the layers that were returned to floating point, the largest error first.
        layers: The number of layers that were ranked by their errors; 0 if no ranking was needed.
    """

    deployment: eb.Deployment
    accuracy: EvaluationRow
    max_drop: float
    kept: tuple[str, ...]
    layers: int

    def __repr__(self) -> str:
        return f"<Quantization, {self.deployment.verdict}: {self.describe()}>"

    def blocks(self) -> Iterator[Block]:
        """Yield the verdict, the metric, and the layers that were returned to floating point."""
        returned = f"{len(self.kept)} of {self.layers} layers" if self.layers else ""
        yield Fields(
            (
                ("verdict", self.deployment.verdict),
                ("accuracy", self.describe()),
                ("to floating point", returned),
                ("kept", join_names(self.kept)),
                ("artifact", short_path(self.deployment.artifact.path)),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``enginebay quantize --json`` prints."""
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
        """Return one line: the metric for the artifact and PyTorch, the drop, the allowed drop."""
        return _describe_accuracy(self.accuracy, self.max_drop)


class Attempt(NamedTuple):
    """A trial artifact with some nodes in floating point, and the artifact's accuracy."""

    nodes: tuple[str, ...]
    deployment: eb.Deployment
    accuracy: EvaluationRow
    max_drop: float

    @property
    def passed(self) -> bool:
        """True if the verdict is verified or unverified, and the drop is at most ``max_drop``."""
        is_right = self.deployment.verdict in ("verified", "unverified")
        return is_right and self.accuracy.allows(self.max_drop)


def quantize(
    model: object,
    args: object = None,
    *,
    data: object,
    metrics: object,
    max_drop: float,
    work_dir: str | Path,
    int8_keep: Sequence[str] = (),
    verify: eb.VerifyOptions | Mapping[str, object] | None = None,
    overwrite: bool = False,
    watch: Callable[[Step], None] | None = None,
    **options: Any,
) -> Quantization:
    """Deploy a model in 8 bits, with only as many layers in floating point as accuracy requires.

    If the artifact with all layers in 8 bits is not accurate enough, the layers are ranked by their
    errors, and the layers with the largest errors are returned to floating point. The smallest
    sufficient number of layers is found by doubling, then by binary search.

    Args:
        model: A model that PyTorch can run, in any form that :func:`enginebay.deploy` accepts.
        args: Example inputs.
        data: An :class:`enginebay.DataSet`, or its ``source`` argument. The items calibrate the
            engine, and the metrics are measured on them.
        metrics: One metric or several, in any form that :func:`enginebay_lab.evaluate` accepts.
        max_drop: How much worse each of the artifact's metrics may be than PyTorch's, in the
            metric's unit.
        work_dir: The artifact's folder.
        int8_keep: The names of layers that stay in floating point in every artifact that is tried.
        verify: The verification options, or a mapping of them. If no artifact is accurate enough,
            ``allow_mismatch`` publishes the artifact with the most layers in floating point.
        overwrite: Replace an existing artifact.
        watch: Called with each step when it starts, when its detail changes and when it ends.
        **options: Other arguments of :func:`enginebay.deploy`.

    Raises:
        UsageError: An argument is wrong, or the precision is not an 8-bit one.
        ArtifactExistsError: ``work_dir`` already exists.
        NotVerifiedError: No artifact is verified and accurate enough.
    """
    check_deploy_options(options, {"metric": "metrics"})
    if not isinstance(max_drop, int | float) or math.isnan(max_drop) or max_drop < 0:
        raise UsageError(
            f"max_drop is {max_drop!r}, expected 0 or more",
            hint=Hint("{}", argument("max_drop", 0.01)),
        )
    check_target(work_dir, overwrite=overwrite)  # at once, and not only after all trials
    # Checked here if possible, and not only after the first deployment, which may take long.
    if options.get("backend") is not None and options.get("config") is None:
        chosen = (options["backend"], options.get("params"), options.get("precision"))
        check_precision(*chosen, _PURPOSE)
    command = python_call()
    find_metrics(metrics)  # here only to be checked, before the first deployment
    data = eb.DataSet.of(data)  # once: every trial reads the same items
    verify = eb.VerifyOptions.of(verify)
    steps = Steps(watch)
    fixed = tuple(int8_keep)

    def deploy_with(nodes: Sequence[str], folder: str | Path, **more: Any) -> eb.Deployment:
        with typed(command):  # the artifact records the call of quantize, not of deploy
            return eb.deploy(
                model,
                args,
                work_dir=folder,
                data=data,
                int8_keep=(*fixed, *nodes),
                **{**options, **more},
            )

    with TemporaryDirectory(prefix="enginebay-quantize-") as trials:

        def attempt(nodes: Sequence[str]) -> Attempt:
            folder = Path(trials) / str(len(nodes))  # no number of nodes is tried twice
            # A mismatch is not an error yet: with more layers in floating point it may disappear.
            deployment = deploy_with(nodes, folder, verify=verify.replace(allow_mismatch=True))
            manifest = deployment.artifact.manifest
            check_precision(manifest.backend, manifest.params, None, _PURPOSE)
            with quiet_verdict():  # the metric decides about this trial, not its verdict
                found = evaluate(folder, data, metrics, model=model, timeout=verify.timeout)
            rows = [_check_reference(row) for row in found.rows]
            decisive = next((row for row in rows if not row.allows(max_drop)), rows[0])
            return Attempt(tuple(nodes), deployment, decisive, max_drop)

        order: list[str] = []
        with steps("quantize") as set_detail:
            best = attempt(())
            set_detail(_describe_accuracy(best.accuracy, max_drop))
        if not best.passed and best.deployment.verdict != "crashed":
            shared = {name: options[name] for name in _SHARED if name in options}
            with steps("rank") as set_detail:
                ranked = sensitivity(
                    model,
                    args,
                    data=data,
                    int8_keep=fixed,
                    timeout=verify.timeout,
                    watch=lambda step: set_detail(step.detail),
                    **shared,
                )
            order = [rank.node for rank in ranked.nodes]
            with steps("return layers") as set_detail:

                def attempt_visibly(nodes: Sequence[str]) -> Attempt:
                    set_detail(f"{len(nodes)} of {len(order)} to floating point")
                    return attempt(nodes)

                # With a single layer in floating point, nothing would be in 8 bits.
                best = find_shortest_prefix(order, attempt_visibly) if len(order) > 1 else best
                set_detail(f"{len(best.nodes)} of {len(order)} to floating point")
    verification = best.deployment.verification
    if not best.passed and not verify.allow_mismatch:
        prefix = f"{len(best.nodes)} of {len(order)} layers in floating point: " if order else ""
        raise NotVerifiedError(
            f"{prefix}{_describe_accuracy(best.accuracy, max_drop)}; {verification.summary()}",
            verdict=verification,
            hint=Hint(
                "increase {}, pass other --data, or add --allow-mismatch", argument("max_drop")
            ),
        )
    with steps("deploy") as set_detail:
        # Not a copy of the trial, which was deployed with allow_mismatch=True.
        deployment = deploy_with(best.nodes, work_dir, overwrite=overwrite, verify=verify)
        set_detail(str(deployment.artifact.path))
    return Quantization(
        deployment=deployment,
        accuracy=best.accuracy,
        max_drop=max_drop,
        kept=best.nodes,
        layers=len(order),
    )


def find_shortest_prefix(
    order: Sequence[str], attempt: Callable[[Sequence[str]], Attempt]
) -> Attempt:
    """Find the fewest nodes whose return to floating point makes an artifact accurate enough.

    Args:
        order: At least two nodes, in the order in which they return to floating point.
        attempt: Builds and evaluates an artifact with a sequence of nodes in floating point.

    Returns:
        Of the attempts that passed, the one with the fewest nodes; if no attempt passed, the
        attempt with the most nodes.
    """
    # If some nodes are enough, more nodes are assumed to be enough too. All nodes are never tried:
    # a request that leaves no layer in 8 bits is refused.
    low, high = 0, 1
    while not (best := attempt(order[:high])).passed:
        if high == len(order) - 1:
            return best
        low, high = high, min(2 * high, len(order) - 1)
    while high - low > 1:  # order[:low] is not enough, order[:high] is
        middle = (low + high) // 2
        other = attempt(order[:middle])
        if other.passed:
            best, high = other, middle
        else:
            low = middle
    return best


def _check_reference(row: EvaluationRow) -> EvaluationRow:
    if row.reference is None:
        raise UsageError(
            f"metric '{row.metric}' has no finite value for the PyTorch model on {row.count} items",
            hint="choose another metric, or other data",
        )
    return row


def _describe_accuracy(row: EvaluationRow, max_drop: float) -> str:
    missing = f"no value: {row.error}" if row.error else "no finite value"
    value = f"has {missing}" if row.value is None else f"is {row.value:.4g}"
    drop = "" if row.drop is None else f": a drop of {row.drop:.4g}"
    reference = f"{row.reference:.4g} in PyTorch{drop} on {row.count} items"
    return f"{row.metric} {value}, and {reference} (allowed drop: {max_drop:g})"
