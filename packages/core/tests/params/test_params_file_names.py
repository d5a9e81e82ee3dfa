"""FileName: a string that stores its suffix."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, strategies as st

from enginebay.errors import ParamsError
from enginebay.params import BackendParams, FileName

plain_names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1, max_size=20
).filter(lambda name: name not in {".", ".."})
suffixes = st.sampled_from([".onnx", ".param", ".bin", ".tar.gz"])


@pytest.mark.parametrize(
    ("name", "suffix", "result"),
    [
        ("net", ".param", "net.param"),
        ("net.param", ".param", "net.param"),
        ("resnet.v1", ".model", "resnet.v1.model"),
        ("net.bin", ".param", "net.bin.param"),
        ("net.PARAM", ".param", "net.PARAM.param"),
        ("net", ".tar.gz", "net.tar.gz"),
        ("my net", ".onnx", "my net.onnx"),
        (".hidden", ".onnx", ".hidden.onnx"),
        ("net", "", "net"),
        ("net.onnx", "", "net.onnx"),
    ],
)
def test_a_missing_suffix_is_added(name, suffix, result):
    assert FileName(name, suffix=suffix) == result


@pytest.mark.parametrize(
    ("file_name", "suffix", "stem"),
    [
        (FileName("net", suffix=".param"), ".param", "net"),
        (FileName("resnet.v1", suffix=".model"), ".model", "resnet.v1"),
        (FileName("net.onnx"), ".onnx", "net"),
        (FileName("net"), "", "net"),
        (FileName(".hidden"), "", ".hidden"),
    ],
)
def test_file_names_are_split_into_stem_and_suffix(file_name, suffix, stem):
    assert (file_name.suffix, file_name.stem) == (suffix, stem)


def test_siblings_share_the_stem():
    param = FileName("resnet.v1", suffix=".param")
    assert param.sibling(".bin") == "resnet.v1.bin"
    assert param.sibling(".bin").sibling(".param") == param
    assert FileName("model").sibling(".bin") == "model.bin"
    assert param.sibling(".bin").suffix == ".bin"


class ThreeFiles(BackendParams):
    file_name: FileName = FileName("model", suffix=".tar.gz", siblings=(".bin", ".a.json"))


def test_a_field_gives_its_siblings_to_every_name():
    for name in ("net", FileName("net"), FileName("net", siblings=(".x",))):
        params = ThreeFiles(file_name=name)
        assert params.get_model_files() == ("net.tar.gz", "net.bin", "net.a.json")
        for same in (copy.deepcopy(params), pickle.loads(pickle.dumps(params)), params.replace()):
            assert same.get_model_files() == params.get_model_files()
        again = ThreeFiles.from_mapping(params.to_mapping())
        assert again.get_model_files() == params.get_model_files()


def test_a_file_name_is_a_string():
    name = FileName("net", suffix=".param")
    assert isinstance(name, str)
    assert {name: 1}["net.param"] == 1
    assert type(str(name)) is str


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))]
)
def test_copies_know_their_suffix(twin):
    name = twin(FileName("resnet.v1", suffix=".model"))
    assert (type(name), name, name.suffix) == (FileName, "resnet.v1.model", ".model")


@given(name=plain_names, suffix=suffixes, other=suffixes)
def test_a_suffix_is_added_only_once(name, suffix, other):
    if name == suffix:
        return
    first = FileName(name, suffix=suffix)
    assert FileName(first, suffix=suffix) == first
    assert first in {name, name + suffix}
    assert first.stem + first.suffix == first
    assert first.sibling(other).sibling(suffix).suffix == suffix


FOLDER_HINT = "pass the folder as --work-dir"


@pytest.mark.parametrize(
    ("name", "suffix", "message", "hint"),
    [
        ("a/b", "", "'a/b' is not a file name: expected a name without a folder", FOLDER_HINT),
        ("/", ".x", "'/' is not a file name: expected a name without a folder", FOLDER_HINT),
        ("a\\b", "", "'a\\\\b' is not a file name: expected a name without a folder", FOLDER_HINT),
        ("", "", "'' is not a file name: expected a name like 'model'", None),
        ("", ".bin", "'' is not a file name: expected a name like 'model.bin'", None),
        (".bin", ".bin", "'.bin' is not a file name: expected a name like 'model.bin'", None),
        (None, "", "None is not a file name: expected a text, found NoneType", None),
        (3, ".bin", "3 is not a file name: expected a text, found int", None),
        (".", "", "'.' is not a file name: expected a name like 'model'", None),
        ("..", ".bin", "'..' is not a file name: expected a name like 'model.bin'", None),
        ("a\0b", "", "'a\\x00b' is not a file name: expected a name like 'model'", None),
        ("net", "bin", "'bin' is not a suffix: expected a dot and a name, like '.onnx'", None),
        ("net", ".", "'.' is not a suffix: expected a dot and a name, like '.onnx'", None),
        ("net", ".a/b", "'.a/b' is not a suffix: expected a dot and a name, like '.onnx'", None),
    ],
)
def test_invalid_file_names_are_refused(name, suffix, message, hint):
    with pytest.raises(ParamsError) as refusal:
        FileName(name, suffix=suffix)
    assert (str(refusal.value), refusal.value.hint) == (message, hint)


class WithPlainDefault(BackendParams):
    file_name: FileName = "net.param"  # a plain string is enough


class WithOptional(BackendParams):
    weights: FileName | None = None
    extra: tuple[FileName, ...] = ()


def test_a_field_takes_its_suffix_from_its_default():
    assert WithPlainDefault().file_name.sibling(".bin") == "net.bin"
    assert WithPlainDefault(file_name="other").file_name == "other.param"
    assert WithPlainDefault(file_name=FileName("a", suffix=".bin")).file_name == "a.bin.param"
    assert BackendParams(file_name="other").file_name == "other"


def test_optional_and_nested_file_names_are_checked():
    params = WithOptional(weights="a.bin", extra=["b.txt", "c"])
    assert params.weights.sibling(".x") == "a.x"
    assert [name.suffix for name in params.extra] == [".txt", ""]
    assert WithOptional().weights is None
    with pytest.raises(ParamsError, match=r"'a/b' is not a file name"):
        WithOptional(extra=["a/b"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "out/net",
            (
                "'out/net' does not fit WithPlainDefault.file_name: "
                "'out/net' is not a file name: expected a name without a folder"
            ),
        ),
        (3, "3 does not fit WithPlainDefault.file_name: expected FileName, found int"),
    ],
)
def test_a_field_refuses_invalid_file_names(value, message):
    with pytest.raises(ParamsError) as refusal:
        WithPlainDefault(file_name=value)
    assert str(refusal.value) == message
