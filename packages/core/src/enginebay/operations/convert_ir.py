"""``convert``: build an unverified artifact from an IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact import LoadRequest, build_manifest, portable_params, record_modules, staging
from enginebay.backend import kept_nodes
from enginebay.data import DataSet
from enginebay.hooks import ConvertRequest
from enginebay.ir import read_ir
from enginebay.operations.lowering import get_backend
from enginebay.operations.recorded_command import python_call
from enginebay.verdict import Verification
from enginebay.verification import check_loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams


#: The time limit for loading the new engine once, equal to the default of ``deploy``.
_LOAD_TIMEOUT_SECONDS = 1800.0


def convert(
    ir: str | Path | IRModel,
    *,
    backend: str,
    work_dir: str | Path,
    params: BackendParams | Mapping[str, object] | None = None,
    data: object = None,
    int8_keep: Sequence[str] = (),
    overwrite: bool = False,
) -> Artifact:
    """Convert an IR to an artifact for a backend, and check that its engine can be loaded.

    Args:
        ir: A ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file, or the result of
            :func:`enginebay.export`.
        backend: The backend's name.
        work_dir: The folder of the new artifact; it must not exist yet.
        params: The backend's parameters, or a mapping of their names and values.
        data: The calibration data for int8 or fp8: an :class:`enginebay.DataSet`, or an argument
            for one, such as a path.
        int8_keep: Nodes that stay in floating point in int8 or fp8; see :func:`enginebay.deploy`.
        overwrite: Replace an existing artifact, once the new artifact is complete.

    Returns:
        The artifact, with the verdict ``unverified``, since no outputs were compared.

    Raises:
        BackendUnavailableError: The backend cannot be used.
        UsageError: The precision requires calibration data, or the data cannot be used.
        ConversionError: The converter failed, or the engine cannot load the result.
        ArtifactExistsError: ``work_dir`` exists.
    """
    command = python_call()
    engine = get_backend(backend)
    typed_params = engine.params_from(params)
    if int8_keep:
        engine.check_calibrated(typed_params, "'int8_keep' excludes layers from int8")
    engine.check_data(typed_params, has_data=data is not None)
    model = read_ir(ir)
    data_set = None if data is None else DataSet.of(data).for_inputs(model.inputs)
    with staging(work_dir, overwrite=overwrite) as stage:
        calibration = engine.calibration(model, typed_params, data_set)
        request = ConvertRequest(
            ir=model, params=typed_params, work_dir=stage.dir, calibration=calibration
        )
        if int8_keep:
            keep = kept_nodes(engine.quantizable_nodes(request), int8_keep)
            request = msgspec.structs.replace(request, keep=keep)
        files = engine.convert(request)
        reason = "converted without a reference to compare with"
        # An engine that cannot run on this machine cannot be loaded here either.
        if built_for := engine.elsewhere(typed_params):
            reason += f"; {built_for.describe()}"
        else:
            # A conversion may only copy the file: missing operators are found when it is loaded,
            # in a child process, since it may crash.
            with stage.move_away() as folder:
                check_loads(
                    LoadRequest(
                        backend=engine.name,
                        directory=folder,
                        files=files,
                        params=portable_params(typed_params),
                        inputs=model.inputs,
                        outputs=model.outputs,
                    ),
                    timeout=_LOAD_TIMEOUT_SECONDS,
                )
        record_modules(stage.dir, model, engine.name)
        return stage.publish(
            build_manifest(
                engine,
                model,
                typed_params,
                files,
                verification=Verification.unverified(reason),
                command=command,
                data=None if data_set is None or calibration is None else data_set.record(),
                kept=request.keep,
            )
        )
