"""Execution providers in packages of their own: what goes wrong before a model is computed.

The packages are made here, most with a library that ONNX Runtime really loads. The tests in
``providers/`` use packages from PyPI.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import onnxruntime
import pytest

import enginebay as eb
from enginebay.errors import ConversionError, MissingDependencyError, ParamsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELU = "(float[2] x) => (float[2] y) { y = Relu(x) }"
#: The two functions of every provider's library. This one offers no device.
LIBRARY = """
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
void *CreateEpFactories(const char *name, const void *api, const void *logger, void **factories,
                        size_t most, size_t *count) { BODY *count = 0; return NULL; }
void *ReleaseEpFactory(void *factory) { return NULL; }
"""

pytestmark = pytest.mark.skipif(
    not hasattr(onnxruntime, "get_ep_devices"), reason="ONNX Runtime 1.23 loads providers first"
)
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc compiles the library")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Install a package; return its module's name, which no other test has."""

    def package(code: str, *, requires: str = "", summary: str = "") -> str:
        module = f"provider_of_{tmp_path.name}".replace("-", "_")
        folder = tmp_path / "site" / module
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
        (folder / "libprovider.so").touch()
        info = folder.with_name(f"{module}-1.5.dist-info")
        info.mkdir()
        header = f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.5\n"
        header += f"Summary: {summary}\n" + (f"Requires-Dist: {requires}\n" if requires else "")
        (info / "METADATA").write_text(header)
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n{module}/libprovider.so,,\n")
        monkeypatch.syspath_prepend(folder.parent)
        return module

    return package


@pytest.fixture
def compile_library(tmp_path: Path) -> Callable[..., Path]:
    """Compile a library that ONNX Runtime loads, with code that runs then."""

    def compile_library(body: str = "") -> Path:
        library = tmp_path / "libprovider.so"
        source = tmp_path / "provider.c"
        source.write_text(LIBRARY.replace("BODY", body))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        return library

    return compile_library


def code_with(path: object) -> str:
    return f"def get_library_path():\n    return {str(path)!r}\n"


def test_a_package_that_is_not_installed_is_named(load):
    with pytest.raises(ParamsError) as raised:
        load(RELU, providers=["onnxruntime_nothing"])
    assert str(raised.value).startswith("unknown provider 'onnxruntime_nothing'; available in ")
    assert raised.value.hint == "pip install onnxruntime-nothing"


@pytest.mark.parametrize("name", ["", "os.path", "/opt/lib/libprovider.so"])
def test_what_cannot_be_a_package_is_not_to_be_installed(load, name):
    with pytest.raises(ParamsError) as raised:
        load(RELU, providers=[name])
    assert str(raised.value).startswith(f"unknown provider '{name}'; available in ")
    assert raised.value.hint is None


def test_a_package_that_does_not_import_is_refused(load, package):
    module = package("raise ImportError('libfoo.so.1: cannot open')")
    with pytest.raises(MissingDependencyError) as raised:
        load(RELU, providers=[module])
    reason = "libfoo.so.1: cannot open"
    text = f"provider package '{module}' cannot be imported: ImportError: {reason}"
    assert str(raised.value) == text
    command = f"pip install --force-reinstall {module.replace('_', '-')}"
    assert raised.value.hint == command


def test_a_module_that_is_no_provider_is_refused(load):
    with pytest.raises(ConversionError) as raised:
        load(RELU, providers=["json"])
    assert str(raised.value) == (
        "package 'json' has no execution provider: expected a function get_library_path() or "
        "library_path()"
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (code_with("/nowhere/lib.so"), "'/nowhere/lib.so' is not a file"),
        (
            "def library_path():\n    raise FileNotFoundError('none for macOS')",
            "FileNotFoundError: none for macOS",
        ),
    ],
)
def test_a_package_without_its_library_is_refused(load, package, code, reason):
    module = package(code)
    with pytest.raises(ConversionError) as raised:
        load(RELU, providers=[module])
    name = module.replace("_", "-")
    assert str(raised.value) == f"{name} 1.5 has no library for this machine: {reason}"
    assert raised.value.hint == f"pip install --force-reinstall {name}"


def test_a_file_that_is_no_library_is_refused(load, package, tmp_path):
    (tmp_path / "text.so").write_text("no library")
    module = package(code_with(tmp_path / "text.so"))
    with pytest.raises(ConversionError) as raised:
        load(RELU, providers=[module])
    version, name = onnxruntime.__version__, module.replace("_", "-")
    text = f"ONNX Runtime {version} cannot load the provider of {name} 1.5: Failed to load library"
    assert str(raised.value).startswith(text)


@needs_gcc
def test_a_provider_for_another_onnx_runtime_is_named_with_both_versions(load, package, tmp_path):
    source = tmp_path / "empty.c"
    source.write_text("")
    subprocess.run(["gcc", "-shared", "-o", tmp_path / "lib.so", source], check=True)
    module = package(code_with(tmp_path / "lib.so"), requires="onnxruntime<1.23,>=1.22")
    with pytest.raises(ConversionError) as raised:
        load(RELU, providers=[module])
    assert str(raised.value).startswith(
        f"ONNX Runtime {onnxruntime.__version__} cannot load the provider of "
        f"{module.replace('_', '-')} 1.5, which is made for onnxruntime<1.23,>=1.22: "
    )
    assert "CreateEpFactories" in str(raised.value)
    assert raised.value.hint == "pip install 'onnxruntime<1.23,>=1.22'"


@needs_gcc
@pytest.mark.parametrize(
    ("requires", "newest"), [("", "-U onnxruntime"), ("onnxruntime>=99", "'onnxruntime>=99'")]
)
def test_a_provider_that_offers_no_device_is_refused_each_time(
    load, package, compile_library, requires, newest
):
    module = package(code_with(compile_library()), requires=requires)
    for _ in range(2):
        with pytest.raises(ConversionError) as raised:
            load(RELU, providers=[module])
        name = module.replace("_", "-")
        assert str(raised.value).startswith(f"{name} 1.5 offers no device on this machine, where ")
        assert raised.value.hint.endswith(
            "the provider may be made for another ONNX Runtime than "
            f"{onnxruntime.__version__}: pip install {newest}"
        )


@needs_gcc
@pytest.mark.parametrize(
    ("body", "found"),
    [("abort();", "ended with SIGABRT"), ("for (;;) sleep(1);", "ran past its time limit of 5 s")],
)
def test_a_provider_that_dies_or_hangs_fails_the_check(
    backend, package, compile_library, body, found
):
    module = package(code_with(compile_library(body)))
    failure = backend.check_env(backend.Params(providers=(module,)), timeout=5).failed
    assert failure.tier == "device"
    assert found in failure.found


@needs_gcc
def test_an_installed_provider_that_does_not_work_is_skipped(backend, package, compile_library):
    module = package(code_with(compile_library()), summary="Our ONNX execution provider")
    name = module.replace("_", "-")
    report = backend.check_env()
    assert report.ok
    checks = {check.tier: check for check in report.checks if check.name == name}
    assert checks["metadata"].found == f"1.5, {module}/libprovider.so"
    assert checks["smoke"].status == "skipped"
    assert "offers no device on this machine" in checks["smoke"].found
    assert checks["smoke"].found.endswith(f"check-env onnxruntime --providers {module}")
    failure = backend.check_env(backend.Params(providers=(name,))).failed
    assert (failure.tier, failure.name) == ("device", name)


def test_a_package_that_is_found_twice_is_listed_once(package, monkeypatch, tmp_path):
    from enginebay_onnxruntime.provider_packages import list_installed

    module = package("", summary="Our ONNX execution provider")
    monkeypatch.syspath_prepend(f"{tmp_path}/site/.")
    assert [each for each, _, _ in list_installed()].count(module) == 1


def test_a_provider_for_another_onnx_runtime_fails_the_check_if_it_was_asked_for(backend, package):
    wanted = "onnxruntime<1.23,>=1.22"
    module = package("", requires=wanted, summary="Our ONNX execution provider")
    assert backend.check_env().ok
    check = backend.check_env(backend.Params(providers=(module,))).failed
    assert check.found == f"1.5 with ONNX Runtime {onnxruntime.__version__}"
    assert (check.tier, check.wanted, check.fix) == ("metadata", wanted, f"pip install '{wanted}'")


@pytest.mark.parametrize("device", ["npu", "gpu:1"])
def test_a_device_without_a_providers_package_fails_the_check(backend, device):
    check = backend.check_env(backend.Params(device=device)).failed
    assert (check.tier, check.name) == ("device", device)
    assert check.fix.startswith("--providers onnxruntime_qnn")


def test_old_versions_are_told_what_to_install(package, monkeypatch):
    from enginebay_onnxruntime.provider_packages import plug_in

    module = package("")
    monkeypatch.setattr(onnxruntime, "__version__", "1.23.2")
    with pytest.raises(MissingDependencyError) as raised:
        plug_in(module)
    assert str(raised.value) == (
        "providers in packages of their own require ONNX Runtime 1.24 or newer, found 1.23.2"
    )
    assert raised.value.hint == "pip install 'onnxruntime>=1.24'"


@pytest.mark.parametrize("device", ["cuda", "npu:", "gpu:x", "cpu:1"])
def test_a_device_that_no_package_has_is_refused(load, package, device):
    module = package("")
    with pytest.raises(ParamsError, match="for the provider of a package: expected cpu, auto, npu"):
        load(RELU, providers=[module], device=device)


def test_the_cache_of_optimised_models_is_refused(load, package, tmp_path):
    module = package("")
    with pytest.raises(ParamsError) as raised:
        load(RELU, providers=[module], optimized_cache=str(tmp_path / "cache"))
    assert raised.value.hint == "leave out --optimized-cache"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"providers": ["CPUExecutionProvider"]},
        {"providers": ["MODULE"], "device": "auto"},
        {"providers": ["MODULE", "CPUExecutionProvider"]},
        {"providers": ["MODULE"], "sizes": {"n": [1]}},
    ],
)
def test_a_model_is_compiled_for_one_provider_with_fixed_sizes(load, package, params):
    module = package("")
    providers = [name.replace("MODULE", module) for name in params.get("providers", ())]
    with pytest.raises(ParamsError, match=r"compiled is for one provider|has fixed sizes"):
        load(RELU, compiled=True, **{**params, "providers": providers})


def test_listing_backends_imports_no_provider(package):
    package("raise SystemExit('imported')", summary="Our ONNX execution provider")
    assert "onnxruntime" in [status.name for status in eb.list_backends()]
