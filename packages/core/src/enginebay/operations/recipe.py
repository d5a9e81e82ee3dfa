"""What an artifact was built from, to find that a deployment has nothing to do.

A recipe has the options as text, the versions, and a digest of each local file that was read. It
is compared without torch; only a model that is code is then loaded, to compare what no file shows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike, fspath
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.artifact import Recipe, open_artifact
from enginebay.data import DataSet
from enginebay.environment import installed_version
from enginebay.errors import EnginebayError
from enginebay.ir import is_ir_file
from enginebay.operations.read_files import digest_files, module_files, watch_files
from enginebay.params import Declared
from enginebay.plugins import contributed, list_plugins
from enginebay.rewriting import RewriterSet
from enginebay.sources import digest_weights, find_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from enginebay.artifact import Artifact
    from enginebay.operations.settings import Settings
    from enginebay.sources import ModelSource

_T = TypeVar("_T")

#: The length of a value in a message, in characters.
_LONGEST = 40

#: Distributions whose versions decide what an export is, besides those of the plugins.
_LIBRARIES = ("torch", "onnx", "onnxscript", "numpy")


def describe_options(settings: Settings, model: object, args: object) -> dict[str, Any]:
    """Return the options of a deployment that are no defaults, as JSON has them.

    Empty if an option is a Python object that no text describes, such as a function.
    """
    options = {
        "model": _absolute(model) if isinstance(model, str | PathLike) else model,
        "args": args,
        "backend": settings.backend.name,
        "params": settings.params,
        "export": settings.export,
        "verify": settings.verify,
        "dynamic": settings.dynamic,
        "data": settings.data,
        "int8_keep": settings.int8_keep,
        "config": settings.values,
    }
    described: dict[str, Any] = {}
    try:
        for name, value in options.items():
            if isinstance(value, Declared):
                described |= {f"{name}.{key}": _plain(entry) for key, entry in _chosen(value)}
            elif (plain := _plain(value)) not in (None, [], {}):
                described[name] = plain
    except TypeError:
        return {}
    return described


def _absolute(model: str | PathLike[str]) -> str:
    """Return a model's name with absolute paths, which are the same in every folder."""
    name, mark, weights = fspath(model).partition("?weights=")
    left, _, attribute = name.rpartition(":")
    module = Path(left if left.endswith(".py") else f"{left.replace('.', '/')}.py")
    if _exists(Path(name)):
        name = _full(name)
    elif left and _exists(module):
        name = f"{_full(module)}:{attribute}"
    elif left and _exists(Path(attribute)):  # a folder of a model source
        name = f"{left}:{_full(attribute)}"
    return f"{name}{mark}{_full(weights) if mark else ''}"


def _full(path: str | Path) -> str:
    return normpath(Path(path).absolute())  # links are left, since they may be changed


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        return False


def _chosen(options: Declared) -> Iterator[tuple[str, object]]:
    """Yield the fields that do not have their defaults."""
    for field in msgspec.structs.fields(options):
        made = field.default_factory
        default = field.default if made is msgspec.NODEFAULT else made()
        # The folder is not what an artifact is built from.
        if field.name != "work_dir" and (value := getattr(options, field.name)) != default:
            yield field.name, value


def _plain(value: object) -> Any:
    """Return a value as JSON has it; raise TypeError for an object that no text describes."""
    import numpy as np

    from enginebay.tensors import is_torch, to_numpy

    if isinstance(value, DataSet):
        if value.named is None:
            raise TypeError
        return _plain(value.named)
    if isinstance(value, RewriterSet):  # the code is in a file, which has a digest
        return [f"{each.kind} {each.name} {each.condition}" for each in value]
    if isinstance(value, PathLike):
        return fspath(value)
    if is_torch(value) or isinstance(value, np.ndarray):
        array = to_numpy(value)
        return [str(array.dtype), [*array.shape], hashlib.sha256(array.tobytes()).hexdigest()]
    if callable(getattr(value, "state_dict", None)):
        digest = digest_weights(value)  # type: ignore[arg-type]  # a module of torch
        return [type(value).__qualname__, digest_structure(value), digest]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, msgspec.Struct):
        return [_plain(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, str):
        return str(value)  # a file's name is of a class of its own
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError


def digest_structure(module: object) -> str:
    """Return the SHA-256 of a module's text, which has its layers and their settings."""
    return hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", repr(module)).encode()).hexdigest()


def record_recipe(
    options: dict[str, Any], opened: Iterable[str], source: ModelSource, target: Path
) -> Recipe | None:
    """Return the recipe of an artifact that was just built; None if no text describes an option.

    Args:
        options: The result of :func:`describe_options`.
        opened: Files that the deployment read.
        source: The model.
        target: The artifact's folder, whose files are its own.
    """
    if not options:
        return None
    files = digest_files([*opened, *module_files(), *_named_files(options)], apart_from=target)
    structure = "" if source.model is None else digest_structure(source.module)
    return Recipe(options, _versions(options), files, structure)


def find_previous(work_dir: str | Path, options: Mapping[str, Any]) -> Artifact | None:
    """Return the artifact that was built in this folder from the same model for the same backend.

    None if there is no such artifact, or a damaged one: it is replaced only on request.
    """
    try:
        artifact = open_artifact(work_dir)
    except EnginebayError:
        return None
    recipe = artifact.manifest.recipe
    same = recipe and all(options.get(n) == recipe.options[n] for n in ("model", "backend"))
    return artifact if same else None


def find_differences(
    artifact: Artifact, settings: Settings, options: Mapping[str, Any], model: object
) -> list[str]:
    """Return what differs between an artifact's recipe and a deployment; empty if nothing does.

    A model that is code is loaded if nothing else differs: it may read what nobody hears, or look
    for what was not there.
    """
    found = _compare_recipes(artifact, settings, options)
    verify = settings.verify
    if artifact.verdict in ("mismatched", "crashed") and not verify.allow_mismatch:
        found.append(f"its verdict is {artifact.verdict}")
    return found or (_find_hidden(artifact, settings, model) if _is_code(model) else [])


def _is_code(model: object) -> bool:
    """Return True for a name of a function whose weights no file has."""
    if not isinstance(model, str) or is_ir_file(model) or "?weights=" in model:
        return False
    return model.partition(":")[0] not in contributed("model_sources")


def _find_hidden(artifact: Artifact, settings: Settings, model: object) -> list[str]:
    recipe = artifact.manifest.recipe
    assert recipe, "of find_previous"
    with watch_files() as opened:
        source = find_model(model, settings.codebase_config, settings.params.input_shapes)
    files = digest_files([*opened, *module_files()], apart_from=artifact.path)
    found = [f"{path} is new" for path in sorted({*files} - {*recipe.files})]
    if source.model is not None:
        if digest_structure(source.module) != recipe.structure:
            found.append("the model has other layers, or other settings of them")
        if digest_weights(source.module) != artifact.manifest.reference_sha256:
            found.append("the model has other weights")
    return found


def _compare_recipes(
    artifact: Artifact, settings: Settings, options: Mapping[str, Any]
) -> list[str]:
    manifest, backend = artifact.manifest, settings.backend
    recipe = manifest.recipe
    assert recipe, "of find_previous"
    files = digest_files([*recipe.files, *_named_files(options)], apart_from=artifact.path)
    old = manifest.plugin
    pairs = (
        (old.distribution, old.version, backend.distribution_version),
        (f"engine of {backend.name}", manifest.engine_version, backend.get_version()),
        *_pairs(recipe.versions, _versions(options)),
        *_pairs(recipe.options, options),
    )
    return [f"{name}: {_show(name, a)} → {_show(name, b)}" for name, a, b in pairs if a != b] + [
        f"{path} {'is new' if not a else 'has changed' if b else 'is gone'}"
        for path, a, b in _pairs(recipe.files, files)
        if a != b
    ]


def _pairs(
    old: Mapping[str, _T], new: Mapping[str, _T]
) -> Iterator[tuple[str, _T | None, _T | None]]:
    for name in sorted({*old, *new}):
        yield name, old.get(name), new.get(name)


def _show(name: str, value: object) -> str:
    """Return an option's value for a message; arrays and modules have digests."""
    if value is None:  # fields such as verify.rtol have defaults
        return "default" if "." in name else "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < _LONGEST else f"{text[:_LONGEST]}…"


def _named_files(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that texts among the options name, and the model's and the data's folders.

    Libraries in C++ and Rust read such files, and nobody hears it. A class may be named "/".
    """
    for option, plain in options.items():
        stack = [plain]
        while stack:
            value = stack.pop()
            if isinstance(value, dict | list):
                stack += value.values() if isinstance(value, dict) else value
            elif isinstance(value, str):
                folders = option == "data" or (option == "model" and value is plain)
                yield from map(str, _paths_of(value, folders=folders))


def _paths_of(text: str, *, folders: bool) -> Iterator[Path]:
    text, _, weights = text.partition("?weights=")
    scheme, _, rest = text.partition(":")
    names = {text, text.rpartition(":")[0], weights, *([rest] if scheme.isidentifier() else ())}
    for name in names - {"", ".", ".."}:
        path = Path(name).absolute()
        with suppress(OSError, ValueError):  # too long for a path, or with a zero byte
            if path.is_file() or (folders and path.is_dir()):
                yield path


def _versions(options: Mapping[str, Any]) -> dict[str, str]:
    """Return distribution → version of the plugins, and of the libraries that export a model."""
    library = str(options["model"]).partition(":")[0]
    names = (*_LIBRARIES, *([library] if library.isidentifier() else ()))
    plugins = {status.distribution: status.version for status in list_plugins()}
    return plugins | {name: version for name in names if (version := installed_version(name))}
