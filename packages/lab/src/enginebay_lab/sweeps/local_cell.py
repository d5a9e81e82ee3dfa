"""A cell on the machine that runs it, in its folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay import DataSet, get_backend
from enginebay.authors import find_model, parse_inputs, shapes_of
from enginebay.errors import EnginebayError
from enginebay_lab.sweeps.named_files import check_files

if TYPE_CHECKING:
    from enginebay.authors import ModelSource, Shapes
    from enginebay_lab.sweeps.cell_job import CellJob


class LocalCell:
    """A cell whose files were found on this machine.

    Attributes:
        cell: The cell.
        config: Its deploy config; None for none.
        command: What makes its artifact alone.

    Raises:
        CellLostError: A file is not here.
    """

    def __init__(self, job: CellJob) -> None:
        for files in job.files.values():
            check_files(files)
        self.cell, self.config, self.command = job.cell, job.config, job.command
        self._data = job.data

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


def code_folders(job: CellJob) -> set[Path]:
    """The folders of a cell and its files."""
    paths = (path for files in job.files.values() for path in files)
    return {Path(job.cell.folder), *(Path(path).parent for path in paths)}
