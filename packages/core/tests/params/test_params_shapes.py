"""The grammar of shapes, and profiles of smallest, usual and largest shapes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from enginebay.errors import ParamsError
from enginebay.params import (
    BackendParams,
    ShapeProfile,
    name_shapes,
    parse_shapes,
    resolve_profiles,
)
from enginebay.params.shapes import check_shapes, format_dims


def as_text(shapes):
    return ",".join(f"{name}:{format_dims(dims)}" for name, dims in shapes.items())


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("", {}),
        (" , ", {}),
        ("1x3x224x224", {"": (1, 3, 224, 224)}),
        (":1x3", {"": (1, 3)}),
        ("7", {"": (7,)}),
        ("?", {"": (None,)}),
        (":", {"": ()}),
        ("x:", {"x": ()}),
        ("x=", {"x": ()}),
        ("input:1x3x224x224,mask:1x?", {"input": (1, 3, 224, 224), "mask": (1, None)}),
        ("b=2 a:1", {"b": (2,), "a": (1,)}),
        ("a:1,\n  b:2,", {"a": (1,), "b": (2,)}),
        ("x:0x4", {"x": (0, 4)}),
        ("x:007", {"x": (7,)}),
        ("net/in.0:1", {"net/in.0": (1,)}),
        ("scope:x:1x2", {"scope:x": (1, 2)}),
        ("a=b:1", {"a=b": (1,)}),
        ("1x3:4", {"1x3": (4,)}),
        ("x::", {"x:": ()}),
        ("größe:1", {"größe": (1,)}),
        (f"x:{2**63 - 1}", {"x": (2**63 - 1,)}),
        ("x:-1x3x-1", {"x": (None, 3, None)}),
        ("-1x3", {"": (None, 3)}),
    ],
)
def test_shapes_are_parsed_from_text(text, shapes):
    assert parse_shapes(text) == shapes
    assert list(parse_shapes(text)) == list(shapes)
    assert parse_shapes(as_text(shapes)) == shapes


ONE = "expected 1x3x224x224 or NAME:1x3x224x224"
NAMED = "expected NAME:1x3x224x224"
DYNAMIC = "write ? for a dynamic dim"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "abc",
            f"'abc' is not a shape: {ONE}",
            "write abc: if that is the name of a scalar input",
        ),
        ("1x", f"'1x' is not a shape: {ONE}", None),
        ("x1", f"'x1' is not a shape: {ONE}", "write x1: if that is the name of a scalar input"),
        ("1X3", f"'1X3' is not a shape: {ONE}", None),
        ("x:1x", f"'x:1x' is not a shape: {NAMED}", None),
        ("x:1.5", f"'x:1.5' is not a shape: {NAMED}", None),
        ("x:٣", f"'x:٣' is not a shape: {NAMED}", None),
        ("-2x3", f"'-2x3' is not a shape: {ONE}", DYNAMIC),
        ("x:-2x3", f"'x:-2x3' is not a shape: {NAMED}", DYNAMIC),
        ("x:1x-3", f"'x:1x-3' is not a shape: {NAMED}", DYNAMIC),
        (
            "x:1,x:2",
            "'x:1,x:2' must have exactly one shape for each input: the name 'x' occurs twice",
            None,
        ),
        (
            "1,2",
            "'1,2' must have exactly one shape for each input: several shapes have no name",
            None,
        ),
        (
            "x: 1x3",
            "one of 2 shapes has no input name, which is required for several inputs",
            "write NAME:1x3",
        ),
        (f"x:{2**63}", f"{2**63} is not a valid size of 'x': expected 0 to 2**63 - 1", None),
        ("x:" + "9" * 5000, f"'x:{'9' * 18}…' is not a shape: a size has 5000 digits", None),
    ],
)
def test_invalid_shape_texts_are_refused(text, message, hint):
    with pytest.raises(ParamsError) as refusal:
        parse_shapes(text)
    assert (str(refusal.value), refusal.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"a b": (1,)}, "'a b' is not a valid input name: commas and spaces separate shapes"),
        ({"a,b": (1,)}, "'a,b' is not a valid input name: commas and spaces separate shapes"),
        ({"x": (1, -1)}, "-1 is not a valid size of 'x': expected 0 to 2**63 - 1"),
    ],
)
def test_shapes_without_a_text_form_are_refused(shapes, message):
    with pytest.raises(ParamsError) as refusal:
        check_shapes(shapes)
    assert str(refusal.value) == message


dims = st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=5).map(tuple)
names = st.text(max_size=8).filter(lambda name: not any(c == "," or c.isspace() for c in name))
several = st.dictionaries(names.filter(bool), dims, max_size=4)
any_shapes = several | st.fixed_dictionaries({"": dims})


@given(any_shapes)
def test_shapes_survive_their_text_form(shapes):
    assert parse_shapes(as_text(shapes)) == shapes


@given(any_shapes)
def test_params_accept_shapes_as_text_mapping_or_json(shapes):
    params = BackendParams(input_shapes=as_text(shapes))
    assert params.input_shapes == shapes
    assert params == BackendParams(input_shapes=shapes)
    assert BackendParams.from_mapping(params.to_mapping()) == params


@given(st.text(alphabet="x:=?, 0123-ab", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        shapes = parse_shapes(text)
    except ParamsError:
        shapes = {}
    assert parse_shapes(as_text(shapes)) == shapes


def test_profiles_fill_open_dims_from_the_main_shape():
    profiles = resolve_profiles(
        {"x": (4, 3, 224), "y": (7,)},
        {"y": (None,), "x": (1, None, 32)},
        {"x": (8, None, None), "y": (9,)},
    )
    assert profiles == {
        "x": ShapeProfile((1, 3, 32), (4, 3, 224), (8, 3, 224)),
        "y": ShapeProfile((7,), (7,), (9,)),
    }
    assert list(profiles) == ["x", "y"]


def test_profiles_are_static_unless_sizes_differ():
    assert resolve_profiles({}) == {}
    only = resolve_profiles({"x": (1, 2)})["x"]
    assert only == ShapeProfile((1, 2), (1, 2), (1, 2))
    assert only.is_static
    assert resolve_profiles({"x": ()})["x"].is_static
    assert not resolve_profiles({"x": (1,)}, None, {"x": (2,)})["x"].is_static


def test_a_dim_without_a_size_stays_open():
    open_ended = resolve_profiles({"x": (None, 3)}, {"x": (1, None)})["x"]
    assert open_ended == ShapeProfile((1, 3), (None, 3), (None, 3))
    assert not open_ended.is_static
    assert not resolve_profiles({"x": (None,)})["x"].is_static


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), max_size=4))
def test_profiles_require_min_main_max_in_order(rows):
    low, main, high = ({"x": tuple(row[i] for row in rows)} for i in range(3))
    if all(a <= b <= c for a, b, c in rows):
        profile = resolve_profiles(main, low, high)["x"]
        assert (profile.min, profile.opt, profile.max) == (low["x"], main["x"], high["x"])
    else:
        with pytest.raises(ParamsError, match="are out of order"):
            resolve_profiles(main, low, high)


ORDER = "expected min ≤ main ≤ max, found"


@pytest.mark.parametrize(
    ("main", "low", "high", "message", "hint"),
    [
        (
            "x:4x3",
            "x:5x3",
            "",
            f"the shapes of 'x' are out of order in dim 0: {ORDER} '5x3', '4x3', '4x3'",
            None,
        ),
        (
            "x:4x3",
            "",
            "x:4x2",
            f"the shapes of 'x' are out of order in dim 1: {ORDER} '4x3', '4x3', '4x2'",
            None,
        ),
        (
            "x:?",
            "x:5",
            "x:4",
            f"the shapes of 'x' are out of order in dim 0: {ORDER} '5', '?', '4'",
            None,
        ),
        (
            "x:4",
            "x:1x1",
            "",
            "the smallest shape '1x1' of 'x' has rank 2: expected 1, as in '4'",
            None,
        ),
        ("x:4", "", "x:", "the largest shape '' of 'x' has rank 0: expected 1, as in '4'", None),
        (
            "image:4,y:1",
            "imgae:1,y:1",
            "",
            "'imgae' is not in the main shapes, which contain 'image', 'y'",
            "did you mean 'image'?",
        ),
        (
            "x:4,y:1",
            "",
            "x:8",
            "the largest shapes do not contain 'y': found 'x'",
            "add y:1",
        ),
    ],
)
def test_profiles_and_params_refuse_inconsistent_shapes(main, low, high, message, hint):
    with pytest.raises(ParamsError) as refusal:
        resolve_profiles(*map(parse_shapes, (main, low, high)))
    assert (str(refusal.value), refusal.value.hint) == (message, hint)
    with pytest.raises(ParamsError) as refusal:
        BackendParams(input_shapes=main, min_shapes=low, max_shapes=high)
    assert str(refusal.value) == message


def test_params_return_their_shape_profiles():
    params = BackendParams(input_shapes="x:4x3", min_shapes="x:1x?", max_shapes="x:8x?")
    assert params.shape_profiles() == {"x": ShapeProfile((1, 3), (4, 3), (8, 3))}


def test_an_unnamed_shape_gets_the_name_of_the_only_input():
    assert name_shapes({"": (1,)}, ["x"]) == {"x": (1,)}
    assert name_shapes({"x": (1,)}, ["x", "y"]) == {"x": (1,)}
    assert name_shapes({}, []) == {}


@pytest.mark.parametrize(
    ("shapes", "inputs", "message", "hint"),
    [
        (
            {"": (1, None)},
            ["x", "y"],
            "the shape '1x?' has no name: the model's inputs are 'x', 'y'",
            "write NAME:1x?",
        ),
        ({"": ()}, [], "the shape '' has no name: the model's inputs are none", "write NAME:"),
        (
            {"imgae": (1,)},
            ["image"],
            "'imgae' is not an input: the model's inputs are 'image'",
            "did you mean 'image'?",
        ),
    ],
)
def test_shape_names_that_are_not_inputs_are_refused(shapes, inputs, message, hint):
    with pytest.raises(ParamsError) as refusal:
        name_shapes(shapes, inputs)
    assert (str(refusal.value), refusal.value.hint) == (message, hint)


def test_torch_sizes_are_accepted_as_dims():
    torch = pytest.importorskip("torch")
    params = BackendParams(input_shapes={"x": torch.zeros(1, 3).shape})
    assert params.input_shapes == {"x": (1, 3)}
    assert type(params.input_shapes["x"]) is tuple


FORM = "expected text like 'x:1x3' or a mapping of names to lists of numbers"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, f"5 does not fit BackendParams.input_shapes: {FORM}, found int"),
        (
            {"x": "1x3"},
            f"{{'x': '1x3'}} does not fit BackendParams.input_shapes: {FORM}, found dict",
        ),
        (
            {"x": [1.5]},
            f"{{'x': [1.5]}} does not fit BackendParams.input_shapes: {FORM}, found dict",
        ),
        ({1: [1]}, f"{{1: [1]}} does not fit BackendParams.input_shapes: {FORM}, found dict"),
        (
            {"x": [-1]},
            (
                "{'x': [-1]} does not fit BackendParams.input_shapes: "
                "-1 is not a valid size of 'x': expected 0 to 2**63 - 1"
            ),
        ),
        (
            "x:1,x:1",
            (
                "'x:1,x:1' does not fit BackendParams.input_shapes: "
                "'x:1,x:1' must have exactly one shape for each input: the name 'x' occurs twice"
            ),
        ),
    ],
)
def test_params_refuse_invalid_shapes(value, message):
    with pytest.raises(ParamsError) as refusal:
        BackendParams(input_shapes=value)
    assert str(refusal.value) == message


def test_bounds_without_main_shapes_are_completed_later():
    params = BackendParams(min_shapes="x:1x3", max_shapes="x:8x3")
    (profile,) = params.shape_profiles({"x": (4, 3)}).values()
    assert (profile.min, profile.opt, profile.max) == ((1, 3), (4, 3), (8, 3))
    with pytest.raises(ParamsError, match="'x' is not in the main shapes, which contain 'y'"):
        params.shape_profiles({"y": (4, 3)})
