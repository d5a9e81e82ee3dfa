"""``convert``: an IR becomes an artifact, described and not verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import LoadRequest, build_manifest, portable, record_modules, staging
from enginebay.backend import get_backend, kept_nodes, read_ir
from enginebay.data import DataSet
from enginebay.hooks import ConvertRequest
from enginebay.operations.recorded_command import python_call
from enginebay.verdict import Verification
from enginebay.verification import check_loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams


#: Seconds that loading the new engine once may take, as for ``deploy``.
_LOAD_TIMEOUT = 1800.0


def convert(
    ir: str | Path | IRModel,
    *,
    backend: str,
    work_dir: str | Path,
    params: BackendParams | Mapping[str, Any] | None = None,
    data: Any = None,
    int8_keep: Sequence[str] = (),
    overwrite: bool = False,
) -> Artifact:
    """Turn an IR into a backend's artifact, which its engine has loaded once.

    Args:
        ir: A ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file, or what :func:`enginebay.export`
            returned.
        backend: The backend's name.
        work_dir: The folder that the artifact becomes; it must not exist yet.
        params: The backend's parameters, or its fields by name.
        data: An :class:`enginebay.DataSet`, or what one is made of, to calibrate int8 with.
        int8_keep: Nodes that stay in floating point in int8 or fp8; see :func:`enginebay.deploy`.
        overwrite: Replace the artifact that is there already, once the new one is complete.

    Returns:
        The artifact, with the verdict ``unverified``: nothing was compared.

    Raises:
        BackendUnavailableError: The backend cannot be used.
        UsageError: The precision needs data and there is none, or the data cannot be used.
        ConversionError: Its converter failed, or its engine cannot load the result.
        ArtifactExistsError: ``work_dir`` is taken.
    """
    command = python_call()
    engine = get_backend(backend)
    given = engine.params_from(params)
    if int8_keep:
        engine.check_calibrated(given, "int8_keep keeps layers out of int8")
    engine.check_data(given, has_data=data is not None)
    model = read_ir(ir)
    held = None if data is None else DataSet.of(data).for_inputs(model.inputs)
    with staging(work_dir, overwrite=overwrite) as stage:
        calibration = engine.calibration(model, given, held)
        request = ConvertRequest(
            ir=model, params=given, work_dir=stage.dir, calibration=calibration
        )
        if int8_keep:
            keep = kept_nodes(engine.quantizable_nodes(request), int8_keep)
            request = msgspec.structs.replace(request, keep=keep)
        files = engine.convert(request)
        reason = "converted without a reference to compare with"
        if other := engine.elsewhere(given):
            reason += f"; {other.describe()}"
        else:
            with stage.moved() as folder:
                check_loads(
                    LoadRequest(
                        backend=engine.name,
                        directory=folder,
                        files=files,
                        params=portable(given),
                        inputs=model.inputs,
                        outputs=model.outputs,
                    ),
                    timeout=_LOAD_TIMEOUT,
                )
        record_modules(stage.dir, model, engine.name)
        return stage.publish(
            build_manifest(
                *(engine, model, given, files),
                verification=Verification.unverified(reason),
                command=command,
                data=None if held is None or calibration is None else held.record(),
                kept=request.keep,
            )
        )
