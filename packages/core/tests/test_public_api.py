"""Public names, the cost of importing them, and engines' names in core."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
import enginebay_testing
from enginebay import authors
from enginebay.plugins import known_packages

if TYPE_CHECKING:
    from types import ModuleType

SOURCE = Path(eb.__file__).parent


@pytest.mark.parametrize("module", [eb, authors, enginebay_testing])
def test_every_public_name_resolves(module: ModuleType) -> None:
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(dir(module)) >= set(module.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'enginebay' has no attribute 'depoly'"):
        eb.depoly  # noqa: B018


@pytest.mark.parametrize("name", ["preview", "Preview", "compare"])
def test_a_name_of_the_lab_is_an_error_that_says_where_it_is(name: str) -> None:
    message = f"has no attribute '{name}': look in enginebay_lab, which comes with pip install "
    with pytest.raises(AttributeError, match=message):
        getattr(eb, name)
    assert not hasattr(eb, name)


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import enginebay", "torch numpy onnx msgspec pluggy argparse rich dataclasses"),
        ("import enginebay as eb; eb.list_backends()", "torch numpy onnx msgspec pluggy rich"),
        ("import enginebay.commands", "torch numpy onnx onnxscript"),
        ("from enginebay import load, BackendParams, Wrapper, hookimpl", "torch onnx rich"),
        ("import enginebay.operations.deployment", "torch onnx rich"),
        (
            "from enginebay.cli import backends, command_parser as c; c('backends', backends, [])",
            "torch numpy msgspec rich shutil bz2",
        ),
        ("import enginebay.errors", "enginebay.errors.hints enginebay.errors.text"),
    ],
)
def test_imports_stay_lazy(code: str, absent: str) -> None:
    check = f"{code}\nimport sys\nprint(*[m for m in {absent.split()!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


#: Removes the names that Windows lacks; ``sys.platform`` changes last, since the library reads it.
WINDOWS = """\
import os, signal, sys
sys.modules["fcntl"] = None
del os.killpg, signal.SIGHUP, signal.SIGKILL
sys.platform = "win32"
"""


def on_windows(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WINDOWS + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_command_on_windows_ends_with_one_line_and_a_hint() -> None:
    run = on_windows("from enginebay.cli import main; sys.exit(main(['backends']))")
    assert run.returncode == 1
    assert run.stderr == (
        "error: Enginebay needs a POSIX system, and this is Windows\n"
        "hint: install it in the Windows Subsystem for Linux: wsl --install\n"
    )


@pytest.mark.process  # a fork has used the name before
def test_public_name_on_windows_raises_the_same_error() -> None:
    run = on_windows("import enginebay; enginebay.deploy")
    assert run.stderr.splitlines()[-2:] == [
        "enginebay.errors.EnginebayError: Enginebay needs a POSIX system, and this is Windows",
        "hint: install it in the Windows Subsystem for Linux: wsl --install",
    ]


def test_core_names_engines_only_in_its_table_of_known_packages() -> None:
    pattern = re.compile(r"onnx_?runtime|openvino|ncnn|tensorrt", re.IGNORECASE)
    found = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        code = re.sub(r'"""[\s\S]*?"""|#.*', "", path.read_text())
        if pattern.search(code):
            found.append(name)
    assert found == []


def test_extras_install_a_single_engine_or_all() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for name in ("onnxruntime", "openvino", "ncnn"):
        assert extras[name] == ["enginebay[export]", known_packages("backends")[name].strip("'")]
        assert name in extras["all"][0]
    # Every extra except those for plugin authors, and TensorRT's, which needs CUDA.
    every = set(re.findall(r"\w+", " ".join(extras["all"])))
    assert every >= extras.keys() - {"all", "testing", "export"}
