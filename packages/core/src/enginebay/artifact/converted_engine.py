"""A converted engine, before it is verified and published as an artifact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from enginebay.artifact.engine_request import LoadRequest

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.backend import BackendHooks
    from enginebay.hooks import BuiltFor
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams, SizeLimits
    from enginebay.partition import Part


@dataclass(frozen=True)
class ConvertedEngine:
    """An engine that a backend has converted from an IR.

    Attributes:
        backend: The backend.
        params: The backend's parameters.
        ir: The IR.
        files: The engine's files, relative to the folder of the conversion.
        built_for: The machines that the engine is built for; None if it is built for this machine,
            or for any machine.
        parts: The parts that the model was cut into, each with its files; empty without cuts.
        kept: The names of the nodes that an 8-bit engine runs in floating point.
        sizes: The smallest and the largest size of each dynamic dimension with declared limits.
        notes: The converter's sentences for the user.
        suspicions: Its sentences for the case that the engine is not verified.
    """

    backend: BackendHooks
    params: BackendParams
    ir: IRModel
    files: tuple[Path, ...]
    built_for: BuiltFor | None = None
    parts: tuple[Part, ...] = ()
    kept: tuple[str, ...] = ()
    sizes: SizeLimits = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()

    @property
    def runs_here(self) -> bool:
        """True if this machine can run the engine."""
        return self.built_for is None or not self.built_for.lacking

    @property
    def portable_params(self) -> dict[str, object]:
        """The parameters as plain data without ``work_dir``, since an artifact can be moved."""
        return self.params.replace(work_dir=None).to_mapping()

    def load_request(self, directory: Path, *, strict: bool = False) -> LoadRequest:
        """Return the request that loads the engine's files from a folder.

        If this machine cannot run the engine, another engine loads the graph from which the engine
        is built.

        Args:
            directory: The folder, in which the files have the same relative paths.
            strict: True to raise an error if the engine uses a fallback.
        """
        return LoadRequest(
            backend=self.backend.name,
            directory=directory,
            files=self.files,
            params=self.portable_params,
            inputs=self.ir.inputs,
            outputs=self.ir.outputs,
            parts=self.parts,
            strict=strict,
            sizes=self.sizes,
            built_for=None if self.runs_here else self.built_for,
        )
