"""Builds the message to a sweep's worker, and makes the folder in which workers build artifacts."""

from __future__ import annotations

import secrets
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.files import read_config
from enginebay.errors import EnginebayError, Hint, UsageError, argument, disk_error
from enginebay_lab.sweeps.cell_files import find_files
from enginebay_lab.sweeps.cell_job import CellJob, encode_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.sweeps.cells import Cell

#: The folder of a sweep's artifacts, and the folder in it where workers build them.
ARTIFACTS_FOLDER, ATTEMPTS_FOLDER = "artifacts", ".attempts"
#: The fields of a cell that are flags of ``enginebay deploy`` with a single value.
_DEPLOY_FLAGS = (
    *("precision", "config", "exporter", "ir", "rewriters", "data", "take", "seed"),
    *("probes", "rtol", "atol"),
)


@contextmanager
def attempts_folder(output: Path) -> Iterator[str]:
    """Make the folder in which workers build artifacts, and remove it after the ``with`` block.

    Yields:
        The folder's random name, an argument of :func:`build_job`.

    Raises:
        EnginebayError: The disk is full or read-only.
        UsageError: The output is not a folder, or cannot be written.
    """
    attempts = output / ARTIFACTS_FOLDER / ATTEMPTS_FOLDER
    # Random: a worker that finds a folder of this name must see the same file system.
    token = secrets.token_hex(16)
    try:
        # The remains of a killed sweep; the caller holds the lock of the output.
        shutil.rmtree(attempts, ignore_errors=True)
        (attempts / token).mkdir(parents=True)
    except OSError as err:
        kind = EnginebayError if disk_error(err) else UsageError
        raise kind(
            f"the output '{output}' cannot be written: {err.strerror}",
            hint=Hint("name a different folder: {}", argument("output", "FOLDER")),
        ) from err
    try:
        yield token
    finally:
        shutil.rmtree(attempts, ignore_errors=True)


def build_job(cell: Cell, output: Path | None, token: str) -> bytes:
    """Return the message with which :func:`~enginebay_lab.sweeps.cell_task.run_cell` runs a cell.

    The message contains the contents of the cell's config, but only the digests of other files.

    Args:
        cell: The sweep cell (one model, backend and precision).
        output: The sweep's folder; None to delete artifacts.
        token: The folder name that :func:`attempts_folder` yields.

    Raises:
        ConfigError: The config cannot be read.
        UsageError: A file of the cell cannot be read, or its path is not valid text.
    """
    return encode_message(_describe_job(cell, output, token))


def digest_cell_files(cell: Cell) -> str:
    """Return a digest of a sweep cell's config and files; an empty text if it has neither.

    Raises:
        ConfigError: The config cannot be read.
        UsageError: A file cannot be read, or its path is not valid text.
    """
    return _describe_job(cell, None, "").files_digest


def _describe_job(cell: Cell, output: Path | None, token: str) -> CellJob:
    config = read_config(Path(cell.folder, cell.config)) if cell.config else None
    data = cell.data or _config_data(config or {})
    texts = [cell.model, data, *cell.inputs, *cell.rewriters]
    # The built-in metric "accuracy" or the device "cpu" is no file, even if a file has this name.
    texts += [name for name in cell.metrics if ":" in name]
    texts += [text for text in _find_texts(cell.params) if "/" in text]
    named = ((text, find_files(text, cell.folder)) for text in texts if text)
    output = output and output.resolve()
    attempts = output and output / ARTIFACTS_FOLDER / ATTEMPTS_FOLDER / token
    return CellJob(
        cell=msgspec.structs.replace(cell, folder=str(Path(cell.folder).absolute())),
        files={text: files for text, files in named if files},
        config=config,
        data=data,
        output=str(output or ""),
        attempts=str(attempts or ""),
        command=_deploy_command(cell),
    )


def _config_data(config: Mapping[str, object]) -> str:
    """Return the name of the data set in a config; empty if the config has no data set."""
    section = config.get("calib_config")
    if not isinstance(section, Mapping) or section.get("create_calib"):
        return ""
    return str(section.get("calib_file") or "")


def _find_texts(value: object) -> Iterator[str]:
    """Yield every text in nested mappings and sequences."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _find_texts(entry)
    elif isinstance(value, Sequence):
        for entry in value:
            yield from _find_texts(entry)


def _deploy_command(cell: Cell) -> str:
    """Return the shell command that deploys one sweep cell; it can be run in any folder."""
    words = ["enginebay", "deploy", cell.model, "--backend", cell.backend]
    fields = msgspec.to_builtins(cell)  # without defaults
    flags = {name: fields[name] for name in _DEPLOY_FLAGS if name in fields} | cell.params
    for text in cell.inputs:
        words += ["--input", text]
    for name, value in flags.items():
        words += _format_flag(name.replace("_", "-"), value)
    return f"{shlex.join(['cd', cell.folder or str(Path.cwd())])} && {shlex.join(words)}"


def _format_flag(name: str, value: object) -> list[str]:
    if value in (None, ""):
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, Mapping):
        pairs = [f"{key}={entry}" for key, entry in value.items()]
        return [word for pair in pairs for word in (f"--{name}", pair)]
    if isinstance(value, list | tuple):
        return [f"--{name}", ",".join(map(str, value))]
    return [f"--{name}", str(value)]
