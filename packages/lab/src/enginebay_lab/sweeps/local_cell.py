"""A cell on the machine that runs it: its files are found there, or written from the job."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay import DataSet, get_backend
from enginebay.authors import find_model, parse_inputs, shapes_of
from enginebay.errors import EnginebayError
from enginebay_lab.sweeps.sent_files import locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors import ModelSource, Shapes
    from enginebay_lab.sweeps.cell_job import CellJob
    from enginebay_lab.sweeps.cells import Cell


class LocalCell:
    """A cell with the paths that its files have on this machine.

    Attributes:
        cell: The cell.
        config: Its deploy config; None for none.
        command: What makes its artifact alone.
        notes: Which code came with the job.

    Raises:
        CellLostError: A file is not here.
        OSError: A file that came with the job cannot be written.
    """

    def __init__(self, job: CellJob, folder: Path) -> None:
        self.config, self.command = job.config, job.command
        self.notes: list[str] = []
        self._texts: dict[str, str] = {}
        for number, (text, reference) in enumerate(job.references.items()):
            self._texts[text], note = locate(reference, _received(folder, number))
            self.notes += [note] if note else []
        naming = ("model", "inputs", "metrics", "params")
        placed = {name: self._placed(getattr(job.cell, name)) for name in naming}
        self.cell: Cell = msgspec.structs.replace(job.cell, **placed)
        self._data: str = self._placed(job.data)

    def _placed(self, value: Any) -> Any:
        """Plain data in which the texts that name files name them as they are here."""
        if isinstance(value, str):
            return self._texts.get(value, value)
        if isinstance(value, dict):
            return {name: self._placed(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._placed(each) for each in value)
        return value

    @property
    def data(self) -> DataSet | None:
        """The data set, opened; None where there is none."""
        return DataSet(self._data, self.cell.take, self.cell.seed) if self._data else None

    def find_model(self) -> ModelSource:
        """Find the model, once for all that is done with it: some code runs once in a process.

        Raises:
            ModelSourceError: There is no such model, or its code raised.
            MissingDependencyError: Its code needs a package that is not installed.
        """
        section = (self.config or {}).get("codebase_config")
        return find_model(self.cell.model, section, self._shapes())

    def _shapes(self) -> Shapes:
        """The shapes of the inputs, as far as the cell says them."""
        with suppress(EnginebayError):  # deploying says what is wrong with the parameters
            params = get_backend(self.cell.backend).params_from(self.cell.params)
            if params.input_shapes:
                return params.input_shapes
        return shapes_of(parse_inputs(self.cell.inputs))

    @property
    def options(self) -> dict[str, Any]:
        """What ``compare`` takes besides the model, as far as the cell says it."""
        cell = self.cell
        named = {"probes": cell.probes, "rtol": cell.rtol, "atol": cell.atol}
        given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        return {
            "config": self.config,
            "data": self.data,
            "export": eb.ExportOptions(exporter=cell.exporter or None, ir=cell.ir or None),
            "verify": eb.VerifyOptions(timeout=cell.timeout, **given),
        }


def code_folders(job: CellJob, folder: Path) -> Iterator[Path]:
    """Yield the folders of a cell and its files: where they lie, and where they are written."""
    yield Path(job.cell.folder or ".")
    for number, reference in enumerate(job.references.values()):
        yield Path(reference.files[0].path).parent
        yield _received(folder, number)


def _received(folder: Path, number: int) -> Path:
    """The folder of a cell's file that came with the job."""
    return folder / "files" / str(number)
