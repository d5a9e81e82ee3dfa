"""From a cell to the job that any machine can run, and the folder where artifacts are built."""

from __future__ import annotations

import secrets
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors import read_config
from enginebay.errors import EnginebayError, UsageError, disk_error
from enginebay_lab.sweeps.cell_files import find_files
from enginebay_lab.sweeps.cell_job import CellJob, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.sweeps.cells import Cell

#: The folder of a sweep's artifacts, and the one in it where they are built.
ARTIFACTS, ATTEMPTS = "artifacts", ".attempts"
#: The fields of a cell that are flags of ``enginebay deploy`` with one value.
_FLAGS = (
    *("precision", "config", "exporter", "ir", "rewriters", "data", "take", "seed"),
    *("probes", "rtol", "atol"),
)


@contextmanager
def attempts(output: Path) -> Iterator[str]:
    """Make the folder in which workers build artifacts, and remove it with all that is left there.

    A worker that sees the folder, whose name is random, sees the very same output. What an earlier
    sweep left there, which was killed, is removed first: the caller has the output for itself.

    Yields:
        The token of this sweep, for :func:`job_of`.

    Raises:
        EnginebayError: The disk is full or read-only.
        UsageError: The output is no folder, or may not be written.
    """
    home = output / ARTIFACTS / ATTEMPTS
    token = secrets.token_hex(16)
    try:
        shutil.rmtree(home, ignore_errors=True)
        (home / token).mkdir(parents=True)
    except OSError as err:
        kind = EnginebayError if disk_error(err) else UsageError
        raise kind(
            f"the output '{output}' cannot be written: {err.strerror}",
            hint="name another folder: --output FOLDER",
        ) from err
    try:
        yield token
    finally:
        shutil.rmtree(home, ignore_errors=True)


def job_of(cell: Cell, output: Path | None, token: str) -> bytes:
    """Return the job of a cell: what :func:`~enginebay_lab.sweeps.cell_task.run_cell` takes.

    Relative paths begin in the cell's folder. Files are named by their digests; a config is read
    here, with all that it inherits.

    Args:
        cell: The cell.
        output: The sweep's folder; None where artifacts are not kept.
        token: What :func:`attempts` yields.

    Raises:
        ConfigError: The config cannot be read.
        UsageError: A file that the cell names cannot be read, or its path is no text.
    """
    return encode(_job(cell, output, token))


def files_digest(cell: Cell) -> str:
    """Return a digest of the files that a cell names, and of its config; empty for none of them.

    Raises:
        ConfigError: The config cannot be read.
        UsageError: A file cannot be read, or its path is no text.
    """
    return _job(cell, None, "").files_digest


def _job(cell: Cell, output: Path | None, token: str) -> CellJob:
    config = read_config(Path(cell.folder, cell.config)) if cell.config else None
    data = cell.data or _data_of(config or {})
    texts = [cell.model, data, *cell.inputs, *cell.rewriters]
    texts += [name for name in cell.metrics if ":" in name]
    texts += [text for text in _texts(cell.params) if "/" in text]
    named = ((text, find_files(text, cell.folder)) for text in texts if text)
    return CellJob(
        cell=msgspec.structs.replace(cell, folder=str(Path(cell.folder).absolute())),
        files={text: files for text, files in named if files},
        config=config,
        data=data,
        output=str(output.resolve()) if output else "",
        attempts=str(output.resolve() / ARTIFACTS / ATTEMPTS / token) if output else "",
        command=_command(cell),
    )


def _data_of(config: Mapping[str, Any]) -> str:
    """The data set that a config names itself; empty for none."""
    section = config.get("calib_config")
    if not isinstance(section, Mapping) or section.get("create_calib"):
        return ""
    return str(section.get("calib_file") or "")


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _command(cell: Cell) -> str:
    """What to type to make the artifact alone, from any folder."""
    words = ["enginebay", "deploy", cell.model, "--backend", cell.backend]
    given = msgspec.to_builtins(cell)  # without what is at its default
    named = {name: given[name] for name in _FLAGS if name in given} | cell.params
    for text in cell.inputs:
        words += ["--input", text]
    for name, value in named.items():
        words += _flag(name.replace("_", "-"), value)
    return f"{shlex.join(['cd', cell.folder or str(Path.cwd())])} && {shlex.join(words)}"


def _flag(name: str, value: Any) -> list[str]:
    if value in (None, ""):
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, Mapping):
        return [word for key, each in value.items() for word in (f"--{name}", f"{key}={each}")]
    if isinstance(value, list | tuple):
        return [f"--{name}", ",".join(map(str, value))]
    return [f"--{name}", str(value)]
