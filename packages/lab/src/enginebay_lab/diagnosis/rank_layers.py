"""``sensitivity``: rank the layers of an 8-bit engine by the error that each of them causes."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

import enginebay as eb
from enginebay.authors import Steps
from enginebay.authors.files import read_ir
from enginebay.commands import Fields, Result, Table
from enginebay.errors import ConversionError, UsageError, first_line
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay import Verification
    from enginebay.authors import Step
    from enginebay.authors.arrays import Sample
    from enginebay.commands import Block


class NodeSensitivity(msgspec.Struct, frozen=True):
    """The error of an engine with one node in 8 bits and all other nodes in floating point.

    Attributes:
        node: The node's name in the engine's graph.
        operator: The engine's name for the node's operator.
        decibels: The signal-to-noise ratio of the engine's output in dB; with several outputs, the
            smallest ratio. None if no output has an error, and if there is a ``failure``.
        failure: Why there is no ratio: the engine cannot be built or crashes, or an output is not
            finite or has a wrong shape; empty if there is none.
    """

    node: str
    operator: str
    decibels: float | None
    failure: str = ""

    @property
    def _figure(self) -> str:
        """The ratio as a table cell."""
        if self.failure:
            return "failed"
        return "-" if self.decibels is None else f"{self.decibels:.1f}"

    @property
    def _order(self) -> float:
        """The sort key, the largest error first."""
        if self.failure:
            return -math.inf
        return math.inf if self.decibels is None else self.decibels


class Sensitivity(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sensitivity"
):
    """The result of :func:`sensitivity`.

    Attributes:
        backend: The backend's name.
        precision: The engine's precision: ``int8`` or ``fp8``.
        items: The number of items of the data set on which the nodes were measured.
        nodes: The error of each node, the largest error first.
    """

    backend: str
    precision: str
    items: int
    nodes: tuple[NodeSensitivity, ...]

    def __repr__(self) -> str:
        return f"<Sensitivity of {len(self.nodes)} nodes on {self.backend}, {self.precision}>"

    def blocks(self) -> Iterator[Block]:
        """Yield a table of the nodes, the largest error first, and a note on the column ``DB``."""
        rows = [(rank.node, rank.operator, rank._figure) for rank in self.nodes]
        yield Table(("NODE", "OPERATOR", "DB"), rows, right=("DB",))
        note = (
            f"DB is the signal-to-noise ratio with only this node in {self.precision}, on "
            f"{self.items} items; --int8-keep NODE leaves a node in floating point, and enginebay "
            "quantize chooses such nodes"
        )
        failed = [("failed", f"{rank.node}: {rank.failure}") for rank in self.nodes if rank.failure]
        yield Fields([*failed, ("note", note)])


def sensitivity(
    model: object,
    args: object = None,
    *,
    data: object = None,
    backend: str | None = None,
    params: eb.BackendParams | Mapping[str, object] | None = None,
    precision: str | None = None,
    dynamic: Mapping[str, object] | Sequence[str] | None = None,
    export: eb.ExportOptions | Mapping[str, object] | None = None,
    config: Mapping[str, object] | str | Path | None = None,
    int8_keep: Sequence[str] = (),
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Sensitivity:
    """Measure the error of each layer of an 8-bit engine when only this layer computes in 8 bits.

    The model is deployed once. Then one engine for each node is built from the exported IR. The
    outputs of each engine are compared with those of the model on the items that the artifact was
    verified on; these items also calibrate the engine. In the deployed engine the errors of all
    nodes add up, so leaving the worst nodes in floating point (``int8_keep``) improves the accuracy
    most; :func:`enginebay_lab.quantize` chooses these nodes.

    Args:
        model: The model, in any form that :func:`enginebay.deploy` accepts.
        args: Example inputs.
        data: An :class:`enginebay.DataSet`, or its ``source`` argument.
        backend: The backend's name.
        params: The backend's parameters, with the precision ``int8`` or ``fp8``.
        precision: The precision, if it is not in the parameters.
        dynamic: The dynamic dimensions, as for :func:`enginebay.deploy`.
        export: The export options, or a mapping of them.
        config: A deploy config or its path.
        int8_keep: The names of nodes that stay in floating point and are not measured.
        timeout: Time limit in seconds for the child processes of the deployment, and again for the
            child processes of each further engine.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The precision is not an 8-bit one, or the backend cannot keep single layers in
            floating point.
        ParamsError: Data is missing.
    """
    purpose = "sensitivity measures layers in 8 bits"
    if backend is not None and config is None:  # else after the deployment, which knows both
        check_precision(backend, params, precision, purpose)
    steps = Steps(watch)
    with TemporaryDirectory(prefix="enginebay-sensitivity-") as folder:
        with steps("deploy") as set_detail:
            deployment = eb.deploy(
                model,
                args,
                work_dir=Path(folder) / "all",
                data=data,
                backend=backend,
                params=params,
                precision=precision,
                dynamic=dynamic,
                export=eb.ExportOptions.of(export).replace(keep_ir=True),  # for the trials
                config=config,
                int8_keep=int8_keep,
                # No probes: the layers are compared on items of the data set only. A mismatch is
                # allowed: an engine with large errors is the one whose layers are to be ranked.
                verify=eb.VerifyOptions(probes=0, allow_mismatch=True, timeout=timeout),
                watch=lambda step: set_detail(f"{step.name} {step.detail}".rstrip()),
            )
            set_detail("all layers in 8 bits")
        manifest = deployment.artifact.manifest
        engine, checked = check_precision(manifest.backend, manifest.params, None, purpose)
        items = [sample for sample in deployment.artifact.samples() if sample.kind == "item"]
        if not items or not items[0].outputs:
            reason = deployment.verification.reason
            raise UsageError(f"there are no reference outputs to compare layers with: {reason}")
        with steps("rank") as set_detail:
            nodes = _rank_nodes(deployment.artifact, engine, checked, items, timeout, set_detail)
    return Sensitivity(
        backend=engine.name,
        precision=engine.allowed_precision(checked),
        items=len(items),
        nodes=tuple(nodes),
    )


def check_precision(
    backend: str,
    params: eb.BackendParams | Mapping[str, object] | None,
    precision: str | None,
    purpose: str,
) -> tuple[eb.Backend, eb.BackendParams]:
    """Check that a backend can run in 8 bits here; return the backend and checked parameters.

    Args:
        backend: The backend's name.
        params: The backend's parameters.
        precision: The precision, if it is not in the parameters.
        purpose: The reason why 8 bits are required, for the error message.

    Raises:
        UsageError: The precision is not an 8-bit one, or the engine does not run on this machine.
    """
    engine = eb.get_backend(backend)
    checked = engine.params_from(params)
    checked = checked.replace(precision=precision) if precision else checked
    engine.check_calibrated(checked, purpose)
    engine.check_runs_here(
        checked,
        "measuring layers runs the engine",
        hint="measure the layers on a machine that can run the engine",
    )
    return engine, checked


def _rank_nodes(
    artifact: eb.Artifact,
    engine: eb.Backend,
    params: eb.BackendParams,
    items: Sequence[Sample],
    timeout: float,
    set_detail: Callable[[str], None],
) -> list[NodeSensitivity]:
    """Build and measure an engine for each node; return the nodes, the largest error first."""
    assert artifact.ir_file is not None
    ir, data = read_ir(artifact.ir_file), [sample.inputs for sample in items]
    options = eb.VerifyOptions(timeout=timeout)
    with TemporaryDirectory(prefix="enginebay-rank-") as name:
        folder = Path(name)
        calibration = engine.calibration(ir, params, data)
        request = ConvertRequest(ir=ir, params=params, work_dir=folder, calibration=calibration)
        nodes = engine.quantizable_nodes(request)
        measured = [node for node in nodes if node not in artifact.manifest.kept]
        if not measured:
            raise UsageError("the network has no node that can compute in 8 bits")
        ranks = []
        for number, node in enumerate(measured, 1):
            set_detail(f"{number} of {len(measured)}: {node}")
            try:
                trial = eb.convert(
                    ir,
                    backend=engine.name,
                    work_dir=folder / "trial",
                    params=params,
                    data=data,
                    int8_keep=[other for other in nodes if other != node],
                    overwrite=True,  # the folder of the previous trial
                )
            except ConversionError as err:
                ranks.append(NodeSensitivity(node, nodes[node], None, first_line(err)))
                continue
            verification = eb.verify(trial, items, options=options)
            levels = [s.decibels for s in verification.signals if s.decibels is not None]
            # The smallest ratio is that of the worst output.
            decibels, failure = min(levels, default=None), _describe_failure(verification)
            ranks.append(NodeSensitivity(node, nodes[node], None if failure else decibels, failure))
    set_detail(f"{len(ranks)} nodes, one by one")
    return sorted(ranks, key=lambda rank: rank._order)


def _describe_failure(verification: Verification) -> str:
    """Return why an engine has no usable outputs; an empty string if all of them are usable."""
    if verification.verdict == "crashed":
        return verification.reason
    # The signal-to-noise ratio leaves out values that are not finite, and outputs of other shapes.
    unusable = (
        output.describe()
        for output in verification.outputs
        if not output.passed and output.atol_that_passes is None
    )
    return next(unusable, "")
