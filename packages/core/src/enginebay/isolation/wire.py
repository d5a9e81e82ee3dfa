"""How values travel between a parent and the child that :func:`~enginebay.isolation.call` starts.

MessagePack by msgspec: unlike JSON it keeps NaN, infinities, bytes and integer keys. Never pickle.
"""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any

import msgspec


class Returned(msgspec.Struct, tag="returned"):
    """The function came back.

    Attributes:
        value: What it returned, encoded.
    """

    value: bytes


class Raised(msgspec.Struct, tag="raised"):
    """The function raised.

    Attributes:
        kind: The name of the nearest class in ``enginebay.errors``; None where it is no such error.
        message: Its text.
        summary: Its own class and its text.
        traceback: The whole story as Python prints it.
        hint: The error's hint.
    """

    kind: str | None
    message: str
    summary: str
    traceback: str
    hint: str | None


def encode(value: Any) -> bytes:
    """The value as bytes.

    Raises:
        TypeError: msgspec does not know its type; the message names it.
    """
    return msgspec.msgpack.encode(value, enc_hook=_encode_path)


def decode(data: bytes, kind: Any) -> Any:
    """The value of type ``kind``.

    Raises:
        msgspec.ValidationError: The bytes hold something else; the message says where.
    """
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_path)


def _encode_path(value: Any) -> str:
    if isinstance(value, PurePath):
        return os.fspath(value)
    raise NotImplementedError(f"values of type '{type(value).__qualname__}' cannot be sent")


def _decode_path(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError(f"values of type '{kind.__qualname__}' cannot be received")
