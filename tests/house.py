"""Measures of the house: core's size, layers and closures, and the internal names others use.

``python -m tests.house`` prints every figure beside its ceiling in ``tests/house.toml``, and lowers
the ceilings to the figures. It raises none: that is a decision, which a person writes down.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay import authors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "packages" / "core" / "src" / "enginebay"
CEILINGS = Path(__file__).with_name("house.toml")

#: What is reached → the file of core at which the search for imports starts.
CLOSURES = {
    "load": "operations/load_artifact.py",
    "comparing outputs": "verification/sample_comparison.py",
    "the contract": "hooks.py",
}

#: A use of an artifact of ONNX Runtime, which prints the modules of core that it imports.
_LOAD = """\
import sys
import numpy
import enginebay as eb
eb.load(sys.argv[1])({"x": numpy.ones((1, 3), "float32")})
print(*(name for name in sys.modules if name.partition(".")[0] == "enginebay"))
"""

#: The public modules of core. Each lists its public names in ``__all__``.
PUBLIC_MODULES = frozenset(
    {
        "enginebay",
        "enginebay.hooks",
        "enginebay.errors",
        "enginebay.environment",
        "enginebay.authors",
        *(f"enginebay.authors.{door.name}" for door in iter_modules(authors.__path__)),
        "enginebay.commands",
    }
)


def internal_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield each internal name of core that a module uses: its line and the whole name.

    A name is public only where a public module has it in its ``__all__``:
    ``enginebay.authors.files.read_onnx`` is public, ``enginebay.ir.read_onnx`` is not.
    """
    tree = ast.parse(source)
    aliases: dict[str, str] = {}  # the names of public modules in this module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_core(node.module):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in PUBLIC_MODULES:
                    aliases[alias.asname or alias.name] = whole
                elif not _is_public(whole):
                    yield node.lineno, whole
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "enginebay":
                    aliases[alias.asname or alias.name] = alias.name
                elif _is_core(alias.name) and not _is_public(alias.name):
                    yield node.lineno, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id)
            if module and not _is_public(f"{module}.{node.attr}"):
                yield node.lineno, f"{module}.{node.attr}"


def internal_names_in(folders: Iterable[Path]) -> set[tuple[Path, str]]:
    """Return (file, internal name of core) for the Python files in these folders."""
    return {
        (path, name)
        for folder in folders
        for path in folder.rglob("*.py")
        for _, name in internal_names(path.read_text(encoding="utf-8"))
    }


def _is_core(module: str | None) -> bool:
    """Return True for core's modules; the other packages have different import names."""
    return module is not None and module.partition(".")[0] == "enginebay"


def _is_public(whole: str) -> bool:
    module, _, name = whole.rpartition(".")
    if module not in PUBLIC_MODULES or whole in PUBLIC_MODULES:
        return whole in PUBLIC_MODULES
    return name in _public_names(module) or (name.startswith("__") and name.endswith("__"))


@cache
def _public_names(module: str) -> frozenset[str]:
    return frozenset(import_module(module).__all__)


def measure() -> dict[str, int]:
    """Return every figure of the house by its name, as in ``house.toml``."""
    figures: dict[str, int] = {}
    for room, files in sorted(rooms().items()):
        figures[f"lines of {room}"] = sum(map(count_lines, files))
        figures[f"files of {room}"] = len(files)
    figures["lines of enginebay"] = sum(map(count_lines, CORE.rglob("*.py")))
    figures["files of enginebay"] = len(list(CORE.rglob("*.py")))
    figures["layers of enginebay"] = len(_read_layers())
    figures["names in enginebay.authors"] = len(_authors_names())
    figures["internal names that other packages take"] = len(internal_names_in(_other_packages()))
    for name, start in CLOSURES.items():
        files = closure(CORE / start)
        figures[f"files that {name} reaches"] = len(files)
        figures[f"lines that {name} reaches"] = sum(map(count_lines, files))
    figures["modules that a load and a call import"] = len(loaded_modules())
    return figures


def loaded_modules() -> list[str]:
    """Return the modules of core that a new process imports to load an artifact and call it."""
    import onnx.parser

    import enginebay as eb

    with TemporaryDirectory() as folder:
        model, artifact = Path(folder, "model.onnx"), Path(folder, "artifact")
        text = "g (float[1, 3] x) => (float[1, 3] y) { y = Relu(x) }"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), model)
        eb.convert(model, backend="onnxruntime", work_dir=artifact)
        # The first process writes the cache of plugins and the second reads it. The cache is of no
        # other test's, and without -P it would depend on what is written into the current folder.
        command = [sys.executable, "-P", "-c", _LOAD, str(artifact)]
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        for _ in range(2):
            run = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
    return run.stdout.split()


def rooms() -> dict[str, list[Path]]:
    """Return room → its files; a module that is no folder is a room too."""
    found: dict[str, list[Path]] = {}
    for file in CORE.rglob("*.py"):
        room = file.relative_to(CORE).parts[0].removesuffix(".py")
        if not room.startswith("__"):
            found.setdefault(room, []).append(file)
    return found


def count_lines(file: Path) -> int:
    """Return the number of lines of a file, with blank ones and comments."""
    return len(file.read_text(encoding="utf-8").splitlines())


def closure(start: Path) -> set[Path]:
    """Return the files of core that a file imports, directly or through other files.

    Imports inside functions count, those for type checkers do not. A name of a room counts as an
    import of the file that defines it.
    """
    found: set[Path] = set()
    pending = [start]
    while pending:
        file = pending.pop()
        if file in found:
            continue
        found.add(file)
        if file != CORE / "__init__.py":  # which names all that is public
            imports = _find_imports(ast.parse(file.read_text(encoding="utf-8")))
            files = (resolve_import(module, name) for module, name in imports)
            pending += [file for file in files if file is not None]
    return found


@cache
def resolve_import(module: str, name: str) -> Path | None:
    """Return the file of core that defines a name which is imported from a module."""
    if inner := _module_file(f"{module}.{name}"):
        return inner
    file = _module_file(module)
    if file is None:
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_names":
            for home, names in ast.literal_eval(node.args[1]).items():
                if name in names.split():
                    return resolve_import(f"enginebay.{home}", name)
    for node in tree.body if file.name == "__init__.py" else ():
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return resolve_import(str(node.module), name)
    return file


def read_ceilings() -> dict[str, int]:
    """Return the ceiling of each figure by its name."""
    ceilings: dict[str, int] = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["ceilings"]
    return ceilings


def _module_file(module: str) -> Path | None:
    path = CORE.parent.joinpath(*module.split("."))
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in candidates if file.is_file()), None)


def _find_imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and _is_core(child.module):
            yield from ((str(child.module), alias.name) for alias in child.names)
        yield from _find_imports(child)


def _read_layers() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    layers: list[str] = contract["layers"]
    return layers


def _authors_names() -> set[str]:
    modules = [module for module in PUBLIC_MODULES if module.startswith("enginebay.authors")]
    return {f"{module}.{name}" for module in modules for name in _public_names(module)}


def _other_packages() -> list[Path]:
    core = ROOT / "packages" / "core"
    packages = [path for path in (ROOT / "packages").iterdir() if path != core]
    own = [core / "src" / name for name in ("enginebay_rewriters", "enginebay_testing")]
    return [*packages, *own, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]


def main() -> None:
    """Print each figure beside its ceiling, and lower the ceilings to the figures."""
    figures, before = measure(), read_ceilings()
    ceilings = {name: min(figure, before.get(name, figure)) for name, figure in figures.items()}
    for name, figure in figures.items():
        known = before.get(name)
        sys.stdout.write(f"{figure:7,}  {name}" + ("\n" if figure == known else f" ({known})\n"))
    comment = CEILINGS.read_text(encoding="utf-8").partition("[ceilings]")[0]
    lines = "".join(f'"{name}" = {ceiling}\n' for name, ceiling in ceilings.items())
    CEILINGS.write_text(f"{comment}[ceilings]\n{lines}", encoding="utf-8")


if __name__ == "__main__":
    main()
