"""The conversion of an IR to an engine: ``convert``, and a step of ``deploy``."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import ConvertedEngine
from enginebay.backend import describe_wide_nodes, kept_nodes
from enginebay.errors import ChildTimeoutError, ConversionError
from enginebay.params import size_limits
from enginebay.partition import convert_parts, simulation_folder
from enginebay.time_limits import check_time_limit, time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.hooks import ConvertRequest
    from enginebay.ir import IRModel
    from enginebay.operations.backend import Backend


def convert_engine(
    backend: Backend,
    request: ConvertRequest[Any],
    *,
    timeout: float,
    keep: Sequence[str] = (),
    cut: Sequence[IRModel] = (),
) -> ConvertedEngine:
    """Convert an IR to an engine, within a time limit.

    If this machine cannot run the engine, the converter also writes the graph that another engine
    runs instead.

    Args:
        backend: The backend.
        request: The IR, the parameters, the folder for the engine's files, the calibration data,
            and what is known about the model.
        timeout: The time limit in seconds.
        keep: Nodes, operators and prefixes of node names that must stay in floating point in int8
            or fp8.
        cut: The parts of the IR, if it was cut; each becomes an engine of its own.

    Raises:
        ConversionError: The converter failed.
        ChildTimeoutError: The time limit is over.
        UsageError: A name in ``keep`` matches no node, or the names match all nodes.
    """
    report = request.progress

    def report_progress(detail: str) -> None:
        # A conversion in this process, such as a lowering, ends only if it looks at the limit
        # itself.
        check_time_limit()
        report(detail)

    notes: list[str] = []
    suspicions: list[str] = []
    wide_nodes: dict[str, float] = {}
    request = msgspec.structs.replace(
        request,
        progress=report_progress,
        note=notes.append,
        suspect=suspicions.append,
        leave_in_float=wide_nodes.update,
    )
    built_for = backend.built_for(request.params)
    # Without its model, an IR has only the shapes in the parameters.
    limits = size_limits(request.shapes or request.params.shape_profiles())
    sizes = {spec.name: limits[spec.name] for spec in request.ir.inputs if spec.name in limits}
    engine = ConvertedEngine(backend, request.params, request.ir, (), built_for, sizes=sizes)
    with _limit_time(timeout):
        if cut:
            return _convert_parts(engine, request, cut)
        if keep:
            names = kept_nodes(backend.quantizable_nodes(request), keep)
            request = msgspec.structs.replace(request, keep=names)
        if not engine.runs_here:
            folder = simulation_folder(request.work_dir)
            request = msgspec.structs.replace(request, simulation=folder)
        files = backend.convert(request)
    if wide_nodes:
        notes.append(describe_wide_nodes(wide_nodes))
    kept = (*request.keep, *wide_nodes)
    return replace(engine, files=files, kept=kept, notes=tuple(notes), suspicions=tuple(suspicions))


def _convert_parts(
    engine: ConvertedEngine, request: ConvertRequest[Any], cut: Sequence[IRModel]
) -> ConvertedEngine:
    parts = convert_parts(
        engine.backend.convert,
        cut,
        engine.params,
        request.work_dir,
        request.progress,
        simulate=not engine.runs_here,
    )
    files = tuple(Path(path) for part in parts for path in part.paths)
    return replace(engine, files=files, parts=parts)


@contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    with time_limit(seconds) as limit:
        try:
            yield
        except (ConversionError, ChildTimeoutError) as err:
            # The error has another cause, such as a shorter limit of the converter.
            if limit.left:
                raise
            raise ChildTimeoutError(
                f"the conversion ran past its time limit of {seconds:g} s",
                hint=f"--timeout {2 * seconds:g}",
            ) from err
