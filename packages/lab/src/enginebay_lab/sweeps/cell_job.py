"""The job of a cell and its row, as they travel: MessagePack, never pickle."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from enginebay_lab.sweeps.sweep_rows import SweepRow


class CellJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell and what the machine that runs it needs besides.

    Attributes:
        cell: The cell as it was written, with its folder.
        files: The files that its texts name: by the text, each one's sha256 by its path.
        config: The cell's deploy config, read on the client with all that it inherits.
        data: What names the data set: the cell, or else its config.
        output: The sweep's folder; empty where artifacts are not kept.
        attempts: The folder in it where artifacts are built, on machines that see it.
        command: What to type to make the artifact alone.
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
        """A digest of the files and the config, wherever they are; empty where there is none."""
        if not self.files and self.config is None:
            return ""
        digests = {text: list(found.values()) for text, found in self.files.items()}
        plain = msgspec.json.encode((digests, self.config), order="deterministic")
        return blake2b(plain, digest_size=8).hexdigest()


def encode(message: CellJob | SweepRow) -> bytes:
    """Encode a job or a row.

    Raises:
        TypeError: A parameter of the cell is no plain data.
    """
    try:
        return msgspec.msgpack.encode(message)
    except UnicodeEncodeError:  # a model's error may quote a file's name that is no text
        plain = msgspec.to_builtins(message, builtin_types=(bytes,))
        return msgspec.msgpack.encode(_escaped(plain))


def _escaped(value: Any) -> Any:
    """Plain data in which every text can be encoded."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(name): _escaped(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(each) for each in value]
    return value
