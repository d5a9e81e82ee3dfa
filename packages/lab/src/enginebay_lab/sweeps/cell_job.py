"""The job of a cell, which is sent to the machine that runs it; as MessagePack, not pickle."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from enginebay_lab.sweeps.sweep_rows import SweepRow


class CellJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell, and the facts about it that only the client knows.

    Attributes:
        cell: The cell as it was written, with its folder.
        files: The files that its texts name: by the text, each file's sha256 by its path.
        config: The cell's deploy config, read on the client with all that it inherits.
        data: The name of the data set, from the cell or from its config.
        output: The sweep's folder; empty to drop artifacts.
        attempts: The folder in it in which machines that see it build artifacts.
        command: The command that builds the artifact alone.
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
        """A digest of the files and the config, without their paths; empty without any."""
        if not self.files and self.config is None:
            return ""
        digests = {text: list(files.values()) for text, files in self.files.items()}
        plain = msgspec.json.encode((digests, self.config), order="deterministic")
        return blake2b(plain, digest_size=8).hexdigest()


def encode_message(message: CellJob | SweepRow) -> bytes:
    """Encode a job or a row.

    Raises:
        TypeError: A parameter of the cell is not plain data.
    """
    try:
        return msgspec.msgpack.encode(message)
    except UnicodeEncodeError:  # an error message may quote a file name that is not UTF-8
        plain = msgspec.to_builtins(message, builtin_types=(bytes,))
        return msgspec.msgpack.encode(_escape_texts(plain))


def _escape_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escape_texts(name): _escape_texts(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_texts(entry) for entry in value]
    return value
