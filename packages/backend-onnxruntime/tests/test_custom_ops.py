"""Custom-op libraries, with the ops of onnxruntime-extensions."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import enginebay as eb
from enginebay.errors import ArtifactError, ConversionError, MissingDependencyError

PACKAGE = "onnxruntime_extensions"
IMPORTS = '"": 21, "ai.onnx.contrib": 1'
NEG_POS = "(float[n] x) => (float[n] neg, float[n] pos) { neg, pos = ai.onnx.contrib.NegPos(x) }"
X = np.array([-1, 2], np.float32)


@pytest.fixture
def extensions():
    return pytest.importorskip(PACKAGE, reason="the wheel onnxruntime-extensions is not installed")


def check(wrapper):
    out = wrapper({"x": X})
    assert out["neg"].tolist() == [-1, 0]
    assert out["pos"].tolist() == [0, 2]


def test_without_the_library_the_model_is_refused(load):
    with pytest.raises(ConversionError) as raised:
        load(NEG_POS, imports=IMPORTS)
    assert "cannot load 'model.onnx'" in str(raised.value)
    assert "ai.onnx.contrib" in str(raised.value)


def test_a_library_is_loaded_by_its_package_name(extensions, load):
    check(load(NEG_POS, imports=IMPORTS, custom_ops=[PACKAGE]))


def test_a_library_is_loaded_twice_in_one_process(extensions, load):
    check(load(NEG_POS, imports=IMPORTS, custom_ops=[PACKAGE]))
    check(load(NEG_POS, imports=IMPORTS, custom_ops=[PACKAGE]))


def test_fp16_does_not_change_dtypes_of_custom_ops(extensions, load):
    text = NEG_POS.replace("NegPos(x)", "NegPos(d)").replace("{ neg", "{ d = Mul(x, x) neg")
    wrapper = load(text, imports=IMPORTS, custom_ops=[PACKAGE], precision="fp16")
    assert wrapper({"x": X})["pos"].tolist() == [1, 4]


def test_a_library_by_path_moves_with_the_artifact(extensions, write, tmp_path):
    original = tmp_path / "build" / "libops.so"
    original.parent.mkdir()
    shutil.copyfile(extensions.get_library_path(), original)
    made = eb.convert(
        write(NEG_POS, imports=IMPORTS),
        backend="onnxruntime",
        work_dir=tmp_path / "made",
        params={"custom_ops": [str(original)]},
    )
    assert Path("custom_ops/libops.so") in made.files
    original.unlink()
    moved = (tmp_path / "made").rename(tmp_path / "moved")
    with eb.load(moved) as wrapper:
        check(wrapper)
    with (moved / "custom_ops" / "libops.so").open("r+b") as library:
        library.write(b"edited")
    with pytest.raises(ArtifactError, match=r"custom_ops/libops\.so"):
        eb.load(moved)


def test_cached_models_are_loaded_with_custom_ops(extensions, load, tmp_path):
    params = {"custom_ops": [PACKAGE], "optimized_cache": str(tmp_path / "cache")}
    for _ in range(2):
        wrapper = load(NEG_POS, imports=IMPORTS, **params)
        assert wrapper.receipt.details["optimized_cache"] == "hit"  # convert has loaded it once
        check(wrapper)


def test_check_env_loads_custom_ops(extensions, backend):
    report = backend.check_env(with_custom_ops=True)
    assert [
        (check.tier, check.status) for check in report.checks if check.name == "custom ops"
    ] == [("device", "ok")]
    assert backend.is_available(with_custom_ops=True)


def test_check_env_names_the_library_that_does_not_load(backend, tmp_path):
    (tmp_path / "broken.so").write_bytes(b"this is not a library")
    params = backend.Params(custom_ops=(str(tmp_path / "broken.so"),))
    report = backend.check_env(params, with_custom_ops=True)
    assert report.failed.name == "custom ops"
    assert report.failed.found.startswith("custom-op library 'broken.so' cannot be loaded: ")
    assert report.failed.wanted == f"operators that load: {tmp_path / 'broken.so'}"
    assert (
        report.failed.fix == "build the library for this version of ONNX Runtime and this platform"
    )


@pytest.mark.parametrize("content", [b"this is not a library", b"\x7fELF and no more"])
def test_a_file_that_is_not_a_library_is_refused(load, tmp_path, content, capfd):
    library = tmp_path / "broken.so"
    library.write_bytes(content)
    with pytest.raises(ConversionError) as raised:
        load(NEG_POS, imports=IMPORTS, custom_ops=[str(library)])
    assert str(raised.value).startswith("custom-op library 'broken.so' cannot be loaded: ")
    assert (
        raised.value.hint == "build the library for this version of ONNX Runtime and this platform"
    )


def test_a_library_without_the_entry_point_is_refused(load):
    import _ctypes

    with pytest.raises(ConversionError, match=r"cannot be loaded: .*RegisterCustomOps"):
        load(NEG_POS, imports=IMPORTS, custom_ops=[_ctypes.__file__])


def test_a_missing_library_is_refused(load):
    with pytest.raises(ConversionError) as raised:
        load(NEG_POS, imports=IMPORTS, custom_ops=["build/libops.so"])
    assert str(raised.value) == "custom-op library 'build/libops.so' is not a file"


def test_two_libraries_with_the_same_name_are_refused(load, tmp_path):
    paths = [tmp_path / folder / "libops.so" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"library")
    with pytest.raises(ConversionError, match=r"two files would be copied to .*libops\.so"):
        load(NEG_POS, imports=IMPORTS, custom_ops=[str(path) for path in paths])


def test_a_package_that_is_not_installed_is_refused(load):
    with pytest.raises(MissingDependencyError) as raised:
        load(NEG_POS, imports=IMPORTS, custom_ops=["no_such_ops"])
    assert str(raised.value) == (
        "custom-op package 'no_such_ops' cannot be imported: No module named 'no_such_ops'"
    )
    assert raised.value.hint == "pip install no-such-ops"


def test_a_package_without_a_library_is_refused(load):
    with pytest.raises(ConversionError) as raised:
        load(NEG_POS, imports=IMPORTS, custom_ops=["json"])
    assert str(raised.value) == (
        "package 'json' has no custom-op library: expected a function get_library_path()"
    )
    assert raised.value.hint == "pass the library's path"


def test_paths_are_distinguished_from_package_names():
    from enginebay_onnxruntime.custom_ops import is_path

    assert all(map(is_path, ["libops.so", "a/ops", "ops.dll", "C:\\ops", "libops.so.1", "./ops"]))
    assert not any(map(is_path, ["onnxruntime_extensions", "ops", "my.ops"]))
