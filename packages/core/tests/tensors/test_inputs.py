from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from enginebay.errors import InputError
from enginebay.tensors.input_arrays import (
    generate_input,
    inputs_for,
    parse_input,
    random_inputs,
    resize,
    suggest_inputs,
)
from enginebay.tensors.spec import TensorSpec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x=1x3x224x224", TensorSpec("x", "float32", (1, 3, 224, 224))),
        ("ids=1x16:int64", TensorSpec("ids", "int64", (1, 16))),
        ("1x3", TensorSpec("", "float32", (1, 3))),
        ("batch.image=2", TensorSpec("batch.image", "float32", (2,))),
        ("empty=0x4:bfloat16", TensorSpec("empty", "bfloat16", (0, 4))),
        ("n=:int64", TensorSpec("n", "int64", ())),
        ("a=b=3", TensorSpec("a=b", "float32", (3,))),
    ],
)
def test_shape_and_dtype_are_parsed(text: str, spec: TensorSpec) -> None:
    assert parse_input(text) == {spec.name: spec}


@pytest.mark.parametrize(
    ("text", "value"),
    [("n=16000", 16000), ("n=-3", -3), ("n=0.5", 0.5), ("n=1e3", 1000.0), ("n=-.25", -0.25)],
)
def test_a_number_is_the_value_of_an_input_without_dimensions(text: str, value: float) -> None:
    spec = TensorSpec("n", "float32" if isinstance(value, float) else "int64", ())
    (array,) = inputs_for([spec], parse_input(text)).values()
    assert (array.shape, array.dtype, array.item()) == ((), np.dtype(spec.dtype), value)


def test_a_single_size_stays_a_shape_if_the_input_has_dimensions() -> None:
    for dims in (("n",), None):
        typed = parse_input("n=4")["n"]
        assert generate_input(TensorSpec("n", "float32", dims), typed).shape == (4,)


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ((2, 3), "x=2x3"),
        (("n", 3, "h", "w"), "x=1x3x224x224"),
        (("batch", "length"), "x=1x16"),
        ((), "x=1"),
        (None, "x=1x3x224x224"),
    ],
)
def test_the_suggested_text_of_an_input_can_be_typed(dims, text: str) -> None:
    spec = TensorSpec("x", "float32", dims)
    assert suggest_inputs([spec]) == f"--input {text}"
    (array,) = inputs_for([spec], parse_input(text)).values()
    assert len(array.shape) == text.count("x", 1) + (dims != ())


def test_sizes_of_one_name_are_suggested_alike() -> None:
    specs = [
        TensorSpec("x", "float32", ("batch", "n")),
        TensorSpec("state", "float32", (2, "batch", 8)),
    ]
    assert suggest_inputs(specs) == "--input x=1x16 --input state=2x1x8"


@given(dims=st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_every_shape_is_parsed(dims: list[int]) -> None:
    assert parse_input(f"x={'x'.join(map(str, dims))}")["x"].dims == tuple(dims)


@pytest.mark.parametrize(
    "text", ["", "x", "x=", "x=1x", "x=1x-3", "x=1,3", "x=①", "x=1x3.5", "x=?x3", "=", "x=1 x3"]
)
def test_invalid_input_text_is_a_one_line_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_input(text)
    assert str(caught.value) == f"'{text}' is not a valid input: expected NAME=SHAPE or NAME=FILE"
    assert caught.value.hint == "write x=1x3x224x224, ids=1x16:int64, x=file.npy or batch.npz"


def test_unknown_dtype_hints_at_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^unknown dtype 'flaot32'\nhint: [^\n]+$") as caught:
        parse_input("x=1x3:flaot32")
    assert caught.value.hint == "did you mean 'float32'?"


def test_arrays_are_read_from_files(tmp_path) -> None:
    a, b = np.arange(6).reshape(2, 3), np.ones(2, dtype=np.float16)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "both.npz", a=a, b=b)
    np.savez(tmp_path / "one.npz", whatever=b)
    assert (parse_input(f"x={tmp_path / 'a.npy'}")["x"] == a).all()
    assert list(parse_input(str(tmp_path / "a.npy"))) == [""]
    both = parse_input(str(tmp_path / "both.npz"))
    assert list(both) == ["a", "b"]
    assert both["b"].dtype == np.float16
    assert (parse_input(f"x={tmp_path / 'one.npz'}")["x"] == b).all()


def test_a_name_for_many_arrays_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "both.npz", a=np.ones(1), b=np.ones(1))
    with pytest.raises(InputError) as caught:
        parse_input(f"x={tmp_path / 'both.npz'}")
    assert str(caught.value) == "the name 'x' is for one input, but the .npz file contains 2 arrays"
    assert caught.value.hint == "leave the name out: the arrays in the file have names"


def test_missing_file_is_a_one_line_error() -> None:
    with pytest.raises(InputError, match=r"^no file 'no/where\.npy'$"):
        parse_input("x=no/where.npy")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x93NUMPY\x01"])
def test_damaged_file_is_a_one_line_error(tmp_path, suffix: str, content: bytes) -> None:
    file = tmp_path / f"x.{suffix}"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"^'.*' cannot be read as NumPy arrays\nhint: [^\n]+$"):
        parse_input(str(file))


def test_npy_file_with_npz_suffix_is_a_one_line_error(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.ones(2))
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    with pytest.raises(
        InputError, match=r"^'.*x.npz' cannot be read as NumPy arrays\nhint: [^\n]+$"
    ):
        parse_input(str(tmp_path / "x.npz"))


def test_pickles_in_files_are_not_loaded(tmp_path) -> None:
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as NumPy arrays"):
        parse_input(str(tmp_path / "evil.npy"))


SPECS = [
    TensorSpec("x", "float32", (2, 3)),
    TensorSpec("h", "float16", (4,)),
    TensorSpec("b", "bfloat16", (4,)),
    TensorSpec("ids", "int64", (50,)),
    TensorSpec("small", "uint8", (50,)),
    TensorSpec("mask", "bool", (50,)),
    TensorSpec("n", "int32", ()),
    TensorSpec("c", "complex64", (3,)),
]


def test_random_inputs_fit_their_specs_and_are_reproducible() -> None:
    first, second = random_inputs(SPECS), random_inputs(SPECS)
    assert list(first) == [spec.name for spec in SPECS]
    for spec in SPECS:
        assert tuple(first[spec.name].shape) == spec.dims
        assert str(first[spec.name].dtype) == spec.dtype
        assert np.array_equal(first[spec.name], second[spec.name])
    assert set(first["ids"].tolist()) == set(first["small"].tolist()) == {0, 1}
    assert not np.array_equal(random_inputs(SPECS, seed=1)["x"], first["x"])


@pytest.mark.parametrize("dims", [("batch", 3), None])
def test_random_input_of_an_open_shape_is_refused(dims) -> None:
    with pytest.raises(InputError) as caught:
        random_inputs([TensorSpec("x", "float32", dims)])
    shown = "unknown rank" if dims is None else "batch, 3"
    assert (
        str(caught.value)
        == f"cannot generate an input for x float32[{shown}]: its shape is dynamic"
    )
    assert caught.value.hint == f"--input x=1x3{'x224x224' if dims is None else ''}"


def test_random_input_of_strings_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"cannot generate an input for s string\[2\]\nhint: [^\n]+$"
    ) as caught:
        random_inputs([TensorSpec("s", "string", (2,))])
    assert caught.value.hint == (
        "--input s=file.npy, written by numpy.save('file.npy', ['first text', 'second text'])"
    )


shapes = hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)


@given(array=hnp.arrays(np.int64, shapes), data=st.data())
def test_resizing_repeats_or_cuts_along_each_axis(array: np.ndarray, data) -> None:
    sizes = [data.draw(st.integers(0, 9)) for _ in array.shape]
    resized = resize(array, sizes)
    assert resized.shape == tuple(sizes)
    index = np.ix_(*[np.arange(n) % old for n, old in zip(sizes, array.shape, strict=True)])
    assert (resized == array[index]).all()
    assert torch.equal(resize(torch.from_numpy(array), sizes), torch.from_numpy(resized))


@given(array=hnp.arrays(np.bool_, shapes))
def test_resizing_to_the_same_shape_changes_nothing(array: np.ndarray) -> None:
    assert resize(array, array.shape) is array


def test_resizing_to_another_rank_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^an input of shape \(2, 3\) cannot be resized to \(6,\)$"
    ):
        resize(torch.ones(2, 3), (6,))


def test_resizing_an_empty_axis_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        resize(torch.ones(0, 3), (2, 3))
    assert str(caught.value) == "axis 0 of an input has size 0 and cannot be resized to 2"


def test_unknown_name_is_told_where_an_open_input_is_missing() -> None:
    with pytest.raises(InputError, match=r"^unknown input 'input': the model takes x") as raised:
        inputs_for([TensorSpec("x", "float32", ("n", 3))], parse_input("input=2x3"))
    assert raised.value.hint == "rename 'input' to 'x'"
