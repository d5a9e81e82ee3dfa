"""The MessagePack message to the machine that runs a sweep cell (one model, backend, precision)."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from enginebay_lab.sweeps.sweep_rows import SweepRow


class CellJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sweep cell (one model, backend and precision), with facts that only the client knows.

    The client is the process that runs the sweep.

    Attributes:
        cell: The cell, with an absolute path of its folder.
        files: For each text of the cell that refers to files, the SHA-256 of each file by path.
        config: The contents of the cell's deploy config, including the configs that it inherits.
        data: The name of the data set, from the cell or from the deploy config.
        output: The sweep's folder; empty to delete artifacts.
        attempts: The folder inside ``output`` in which workers build artifacts if they can write to
            this folder.
        command: The command that deploys only this cell.
    """

    cell: Cell
    files: dict[str, dict[str, str]] = {}
    config: dict[str, Any] | None = None
    data: str = ""
    output: str = ""
    attempts: str = ""
    command: str = ""

    @property
    def files_digest(self) -> str:
        """A digest of the files and the config; empty without files and config."""
        if not self.files and self.config is None:
            return ""
        # Without paths, so that a sweep can be moved with its files.
        digests = {text: list(files.values()) for text, files in self.files.items()}
        plain = msgspec.json.encode((digests, self.config), order="deterministic")
        return blake2b(plain, digest_size=8).hexdigest()


def encode_message(message: CellJob | SweepRow) -> bytes:
    """Return a job or a row, encoded in MessagePack.

    Raises:
        TypeError: A parameter of the cell is not plain data.
    """
    try:
        return msgspec.msgpack.encode(message)
    except UnicodeEncodeError:  # an error message may quote a file name that is not UTF-8
        plain = msgspec.to_builtins(message, builtin_types=(bytes,))
        return msgspec.msgpack.encode(_escape_texts(plain))


def _escape_texts(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escape_texts(name): _escape_texts(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_texts(entry) for entry in value]
    return value
