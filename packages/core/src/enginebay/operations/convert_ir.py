"""An IR becomes an artifact: converted, described, not verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.artifact import IRRecord, Manifest, PluginRecord, Verification, staging
from enginebay.backend import get_backend, read_ir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.artifact import Artifact, Part
    from enginebay.backend import Backend
    from enginebay.inference import Receipt
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams


def convert(
    ir: str | Path | IRModel,
    *,
    backend: str,
    work_dir: str | Path,
    params: BackendParams | Mapping[str, Any] | None = None,
    overwrite: bool = False,
    command: str = "",
) -> Artifact:
    """Turn an IR into a backend's artifact.

    Args:
        ir: A ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file, or what :func:`enginebay.export`
            answered.
        backend: The backend's name.
        work_dir: The folder that the artifact becomes; it must not exist yet.
        params: The backend's parameters, or its fields by name.
        overwrite: Replace the artifact that is there already, once the new one is complete.
        command: What to type to make the artifact again; kept in its manifest.

    Returns:
        The artifact, with the verdict ``unverified``: nothing was compared.

    Raises:
        BackendUnavailableError: The backend cannot be used.
        ConversionError: Its converter failed.
        ArtifactExistsError: ``work_dir`` is taken.
    """
    engine = get_backend(backend)
    given = engine.params_from(params)
    model = read_ir(ir)
    with staging(work_dir, overwrite=overwrite) as stage:
        files = engine.convert(model, given, stage.dir)
        verification = Verification.unverified("converted without a reference to compare with")
        return stage.publish(
            describe(engine, model, given, files, verification=verification, command=command)
        )


def describe(
    backend: Backend,
    ir: IRModel,
    params: BackendParams,
    files: tuple[Path, ...],
    *,
    verification: Verification,
    receipt: Receipt | None = None,
    command: str = "",
    parts: tuple[Part, ...] = (),
) -> Manifest:
    """The manifest of an artifact that is about to be published."""
    return Manifest(
        backend=backend.name,
        plugin=PluginRecord(backend.distribution, backend.distribution_version),
        engine_version=backend.get_version(),
        params=portable(params),
        inputs=ir.inputs,
        outputs=ir.outputs,
        model_files=tuple(file.as_posix() for file in files),
        parts=parts,
        ir=IRRecord(
            kind=ir.kind, exporter=ir.exporter, opset=ir.opset, sha256=ir.digest(), notes=ir.notes
        ),
        receipt=receipt,
        verification=verification,
        command=command,
        pinned=backend.bound_to(params),
    )


def portable(params: BackendParams) -> dict[str, Any]:
    """The parameters as a manifest keeps them: without the folder, which may be moved."""
    return params.replace(work_dir=None).to_mapping()
