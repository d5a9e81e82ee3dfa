"""The cache key of a build, which has a field for everything that determines the built files.

All values are JSON texts, so that a message can list the fields in which two keys differ:
``params.precision`` is ``"fp16"`` in one key and ``"fp32"`` in the other.
"""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.hooks import CalibrationData, ConvertRequest

#: The fields of a key by their dotted names, each value as JSON.
Key: TypeAlias = dict[str, str]

#: The version of the key's format: a new number makes all older entries misses.
KEY_FORMAT = 1

#: Parameters that name the output of the build: a file of that name is not an input.
_TARGETS = ("work_dir", "file_name")


def make_key(request: ConvertRequest) -> Key:
    """Return the cache key of a build.

    Raises:
        EnginebayError: The backend cannot determine the versions and devices that an artifact
            requires.
        OSError: The IR, or a file to which a parameter refers, cannot be read.
    """
    backend = eb.get_backend(request.backend)
    params = request.params.replace(work_dir=None).to_mapping()  # any folder may get a cached build
    ir = request.ir
    fields: dict[str, object] = {
        "format": KEY_FORMAT,
        "backend": backend.name,
        "platform": f"{platform.system()} {platform.machine()}",
        "ir.kind": ir.kind,
        "ir.digest": ir.digest(),  # of all files, including external weights
        "ir.files": [file.name for file in ir.files],
        "ir.opset": ir.opset,
        "ir.inputs": ir.inputs,
        "ir.outputs": ir.outputs,
        **_prefix_fields("shapes", request.shapes),
        **_prefix_fields("params", params),
        **_prefix_fields("content", dict(_digest_files(params))),
        "calibration": None if request.calibration is None else _digest_data(request.calibration),
        "keep": request.keep,
        "unordered": request.unordered,
        "simulation": request.simulation is not None,  # needs an entry with the graph
        **_prefix_fields("version", _list_versions(backend)),
        **_prefix_fields("bound_to", backend.bound_to(request.params)),
        "source": _digest_source(backend.name),
    }
    return {name: _encode_value(value) for name, value in fields.items()}


def digest_key(key: Key) -> str:
    """Return the SHA-256 of a key in hex, which is the name of the cache entry.

    Example:
        >>> digest_key({"a": "1", "b": "2"}) == digest_key({"b": "2", "a": "1"})
        True
    """
    # Sorted: the order in which the fields were added must not matter.
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def list_differences(new: Key, old: Key) -> list[str]:
    """Return a line for each field in which two keys differ.

    Example:
        >>> list_differences({"params.gain": "2.0", "backend": "1"}, {"backend": "1"})
        ['params.gain: 2.0, was missing']
    """
    return [
        f"{name}: {_shorten(new.get(name))}, was {_shorten(old.get(name))}"
        for name in sorted({*new, *old})
        if new.get(name) != old.get(name)
    ]


def _shorten(text: str | None) -> str:
    text = "missing" if text is None else text
    return text if len(text) <= 60 else f"{text[:59]}…"


def _encode_value(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()  # sets have no order


def _prefix_fields(field: str, mapping: Mapping[str, object]) -> dict[str, object]:
    return {f"{field}.{name}": value for name, value in mapping.items()}


def _digest_files(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (parameter name, file digest) for each parameter that refers to an existing file."""
    if isinstance(value, dict):
        for key, item in value.items():
            if name or key not in _TARGETS:
                yield from _digest_files(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _digest_files(item, f"{name}.{number}")
    # Not folders: some are caches of the engine, which change often and change no result.
    elif isinstance(value, str) and (path := _find_file(value)):
        with path.open("rb") as file:
            yield name, hashlib.file_digest(file, "sha256").hexdigest()


def _digest_data(data: CalibrationData) -> str:
    digest = hashlib.sha256()
    for sample in data:
        for name, array in sorted(sample.items()):
            # The bytes of two arrays may be equal although their shapes differ.
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


def _find_file(text: str) -> Path | None:
    """Return the file to which a path or ``file.py:attr`` refers; None if there is no such file."""
    for path in (Path(text), Path(text.partition(":")[0])):
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # too long for a path, or with a NUL
            continue
    return None


def _list_versions(backend: eb.Backend) -> dict[str, str]:
    """Return the versions of Enginebay, the backend's plugin, the engine and the dependencies."""
    # A requirement may list alternatives, separated by "|".
    alternatives = [part for text in backend.info.runtime_distributions for part in text.split("|")]
    with suppress(PackageNotFoundError):
        alternatives += requires(backend.distribution) or []
    versions = {"enginebay": eb.__version__, backend.distribution: backend.distribution_version}
    for text in alternatives:
        try:
            name = Requirement(text).name
            versions[name] = version(name)
        except (InvalidRequirement, PackageNotFoundError):
            continue  # an alternative that is not installed
    return versions


def _digest_source(backend: str) -> str:
    """Return the SHA-256 of the Python files of a backend's plugin."""
    # During development, the source changes without a new version.
    (status,) = (status for status in eb.list_backends() if status.name == backend)
    spec = find_spec(status.module.partition(".")[0])
    digest = hashlib.sha256()
    if spec is not None:
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
        files = [file for folder in folders for file in folder.rglob("*.py")]
        for file in sorted(files) if folders else [Path(spec.origin or "")]:
            digest.update(file.read_bytes())
    return digest.hexdigest()
