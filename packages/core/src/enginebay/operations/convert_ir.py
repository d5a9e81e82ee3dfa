"""``convert``: build an unverified artifact from an IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.artifact import staging
from enginebay.data import DataSet
from enginebay.errors import ConversionError
from enginebay.hooks import ConvertRequest
from enginebay.ir import check_tensors, read_ir
from enginebay.operations.backend import get_backend
from enginebay.operations.convert_engine import convert_engine
from enginebay.operations.file_refusals import explain_refusal
from enginebay.operations.recorded_command import python_call
from enginebay.operations.settings import check_timeout, with_precision
from enginebay.operations.staged_engine import judge_staged, publish_staged
from enginebay.verdict import Basis
from enginebay.verification import RecordedReference, Terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams


#: Without inputs, an engine is only loaded.
_NO_REFERENCE = RecordedReference(
    description="",
    samples=(),
    basis=Basis(),
    missing="converted without a reference to compare with",
)


def convert(
    ir: str | Path | IRModel,
    *,
    backend: str,
    work_dir: str | Path,
    precision: str | None = None,
    params: BackendParams | Mapping[str, object] | None = None,
    data: object = None,
    int8_keep: Sequence[str] = (),
    overwrite: bool = False,
    timeout: float = 1800.0,
) -> Artifact:
    """Convert an IR to an artifact for a backend, and check that its engine can be loaded.

    Args:
        ir: A ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file, or the result of
            :func:`enginebay.export`.
        backend: The backend's name.
        work_dir: The folder of the new artifact; it must not exist yet.
        precision: The backend's parameter ``precision``, such as ``fp16`` or ``int8``.
        params: The backend's parameters, or a mapping of their names and values.
        data: The calibration data for int8 or fp8: an :class:`enginebay.DataSet`, or an argument
            for one, such as a path.
        int8_keep: Nodes that stay in floating point in int8 or fp8; see :func:`enginebay.deploy`.
        overwrite: Replace an existing artifact, once the new artifact is complete.
        timeout: Time limit in seconds for the conversion, and separately for loading the engine.

    Returns:
        The artifact, with the verdict ``unverified``, since no outputs were compared.

    Raises:
        BackendUnavailableError: The backend cannot be used.
        UsageError: The precision requires calibration data, or the data cannot be used.
        ConversionError: The converter failed, or the engine cannot load the result.
        ChildTimeoutError: The conversion exceeded ``timeout``.
        ArtifactExistsError: ``work_dir`` exists.
    """
    command = python_call()
    check_timeout(timeout)
    int8_keep = (int8_keep,) if isinstance(int8_keep, str) else int8_keep
    engine = get_backend(backend)
    typed_params = engine.params_from(with_precision(params, precision))
    if int8_keep:
        engine.check_calibrated(typed_params, "'int8_keep' excludes layers from int8")
    engine.check_data(typed_params, has_data=data is not None)
    model = read_ir(ir)
    data_set = None if data is None else DataSet.of(data).for_inputs(model.inputs)
    check_tensors(model)
    with staging(work_dir, overwrite=overwrite) as stage, explain_refusal(model, backend):
        calibration = engine.calibration(model, typed_params, data_set)
        request = ConvertRequest(
            ir=model, params=typed_params, work_dir=stage.dir, calibration=calibration
        )
        converted = convert_engine(engine, request, timeout=timeout, keep=int8_keep)
        # A conversion may only copy the file: missing operators are found when it is loaded.
        verdict = judge_staged(converted, _NO_REFERENCE, stage, Terms(timeout))
        if verdict.verification.verdict == "crashed":
            reason = verdict.verification.reason
            raise ConversionError(f"the converted files cannot be loaded: {reason}")
        return publish_staged(
            converted,
            verdict,
            stage,
            keep_ir=True,  # a folder of that name is the converter's
            command=command,
            data=None if data_set is None or calibration is None else data_set.record(),
        )
