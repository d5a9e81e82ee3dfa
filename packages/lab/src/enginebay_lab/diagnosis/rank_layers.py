"""``sensitivity``: what each layer of an 8-bit engine costs."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay.authors import Steps, read_ir
from enginebay.commands import Fields, Result, Table
from enginebay.errors import UsageError
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Sample, Step
    from enginebay.commands import Block


class NodeSensitivity(msgspec.Struct, frozen=True):
    """What one node costs in 8 bits, while all others are in floating point.

    Attributes:
        node: Its name in the engine's graph.
        operator: Its operator, by the engine's name for it.
        decibels: The output's signal above its noise, in dB; of several outputs, the least. None
            where there is no noise.
    """

    node: str
    operator: str
    decibels: float | None


class Sensitivity(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sensitivity"
):
    """The result of :func:`sensitivity`.

    Attributes:
        backend: The backend.
        precision: Its precision: ``int8`` or ``fp8``.
        items: How many items of the data set the nodes were measured on.
        nodes: What each costs alone; the costliest comes first.
    """

    backend: str
    precision: str
    items: int
    nodes: tuple[NodeSensitivity, ...]

    def __repr__(self) -> str:
        return f"<Sensitivity of {len(self.nodes)} nodes on {self.backend}, {self.precision}>"

    def blocks(self) -> Iterator[Block]:
        """A row for each node, the costliest first."""
        rows = [
            (one.node, one.operator, "-" if one.decibels is None else f"{one.decibels:.1f}")
            for one in self.nodes
        ]
        yield Table(("NODE", "OPERATOR", "DB"), rows, right=("DB",))
        note = (
            f"the signal above the noise with one node alone in {self.precision}, on {self.items} "
            "items; --int8-keep NODE keeps one in floating point, enginebay quantize chooses by "
            "itself"
        )
        yield Fields([("note", note)])


def sensitivity(
    model: Any,
    args: Any = None,
    *,
    data: Any = None,
    backend: str | None = None,
    params: eb.BackendParams | Mapping[str, Any] | None = None,
    precision: str | None = None,
    dynamic: Mapping[str, Any] | Sequence[str] | None = None,
    export: eb.ExportOptions | None = None,
    config: Mapping[str, Any] | str | Path | None = None,
    int8_keep: Sequence[str] = (),
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Sensitivity:
    """Measure what each layer of an 8-bit engine costs: one alone in 8 bits, time after time.

    The model is deployed once; then its IR is converted once for each node, calibrated with the
    items that the artifact was verified on, and compared with the model's outputs on them. The
    noises add up in the whole, so ``int8_keep`` of the worst ones, in :func:`enginebay.deploy`,
    gains most; :func:`enginebay_lab.quantize` chooses by itself.

    Args:
        model: As :func:`enginebay.deploy` takes it, and so are the arguments that follow.
        args: Example inputs.
        data: An :class:`enginebay.DataSet`, or what one is made of.
        backend: The engine.
        params: Its parameters, with the precision ``int8`` or ``fp8``.
        precision: One of its parameters.
        dynamic: The open dimensions.
        export: How to export.
        config: A deploy config or the path of one.
        int8_keep: Leave out what these name; they are in floating point.
        timeout: Seconds that the child processes of the conversion may take, and again those of
            each trial.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The precision is not an 8-bit one, or the backend cannot keep layers out of it.
        ParamsError: There is no data.
    """
    purpose = "sensitivity measures layers in 8 bits"
    if backend is not None and config is None:
        check_precision(backend, params, precision, purpose)
    steps = Steps(watch)
    with TemporaryDirectory(prefix="enginebay-sensitivity-") as folder:
        with steps("deploy") as set_detail:
            deployment = eb.deploy(
                *(model, args),
                work_dir=Path(folder) / "all",
                data=data,
                backend=backend,
                params=params,
                precision=precision,
                dynamic=dynamic,
                export=(export or eb.ExportOptions()).replace(keep_ir=True),
                config=config,
                int8_keep=int8_keep,
                verify=eb.VerifyOptions(probes=0, allow_mismatch=True, timeout=timeout),
                watch=lambda step: set_detail(f"{step.name} {step.detail}".rstrip()),
            )
            set_detail("all layers in 8 bits")
        manifest = deployment.artifact.manifest
        engine, found = check_precision(manifest.backend, manifest.params, None, purpose)
        items = [sample for sample in deployment.artifact.samples() if sample.kind == "item"]
        if not items or not items[0].outputs:
            reason = deployment.verification.reason
            raise UsageError(f"no reference to measure layers against: {reason}")
        with steps("rank") as set_detail:
            nodes = _rank(deployment.artifact, engine, found, items, timeout, set_detail)
    return Sensitivity(
        backend=engine.name,
        precision=engine.allowed_precision(found),
        items=len(items),
        nodes=tuple(nodes),
    )


def check_precision(
    backend: str,
    params: eb.BackendParams | Mapping[str, Any] | None,
    precision: str | None,
    purpose: str,
) -> tuple[eb.Backend, eb.BackendParams]:
    """Check that a backend will compute in 8 bits, and here.

    Args:
        backend: The backend's name.
        params: Its parameters.
        precision: One of them.
        purpose: What is done with layers in 8 bits, for the message.

    Returns:
        The backend, and all of its parameters.

    Raises:
        UsageError: It will not.
    """
    engine = eb.get_backend(backend)
    found = engine.params_from(params)
    found = found.replace(precision=precision) if precision else found
    engine.check_calibrated(found, purpose)
    engine.check_runs_here(
        *(found, "measuring layers runs the engine"),
        hint="measure the layers on a machine that it is built for",
    )
    return engine, found


def _rank(
    artifact: eb.Artifact,
    engine: eb.Backend,
    params: eb.BackendParams,
    items: Sequence[Sample],
    timeout: float,
    set_detail: Callable[[str], None],
) -> list[NodeSensitivity]:
    """Measure each node alone in 8 bits; the costliest comes first."""
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
            raise UsageError("the network has no node that would be in 8 bits")
        found = []
        for number, node in enumerate(measured, 1):
            set_detail(f"{number} of {len(measured)}: {node}")
            trial = eb.convert(
                ir,
                backend=engine.name,
                work_dir=folder / "trial",
                params=params,
                data=data,
                int8_keep=[other for other in nodes if other != node],
                overwrite=True,
            )
            verification = eb.verify(trial, items, options=options)
            levels = [s.decibels for s in verification.signals if s.decibels is not None]
            found.append(NodeSensitivity(node, nodes[node], min(levels, default=None)))
    set_detail(f"{len(found)} nodes, one by one")
    return sorted(found, key=lambda one: math.inf if one.decibels is None else one.decibels)
