from __future__ import annotations

import pytest
from torch.export import Dim

from enginebay.errors import InputError
from enginebay.models.dynamic import from_profiles, normalise
from enginebay.params import DynamicDim
from enginebay.tensors.spec import TensorSpec

X = TensorSpec("x", "float32", (1, 3, 8, 8))
MASK = TensorSpec("mask", "bool", (1, 8))


@pytest.mark.parametrize(
    ("value", "dim"),
    [
        ("batch", DynamicDim("batch")),
        (("batch", 1, 8), DynamicDim("batch", 1, 8)),
        (("batch", 1, 4, 8), DynamicDim("batch", 1, 8, 4)),
        ((1, 8), DynamicDim("x_0", 1, 8)),
        ((1, 4, 8), DynamicDim("x_0", 1, 8, 4)),
        (Dim("batch", min=2, max=8), DynamicDim("batch", 2, 8)),
        (Dim("batch"), DynamicDim("batch", 1, None)),
        (Dim.AUTO, DynamicDim("x_0")),
        (Dim.DYNAMIC(min=2, max=4), DynamicDim("x_0", 2, 4)),
        (DynamicDim("n", 1, 2), DynamicDim("n", 1, 2)),
        (DynamicDim("n", 3, 3), DynamicDim("n", 3, 3)),
    ],
)
def test_every_form_of_dynamic_dimension_is_normalised(value, dim: DynamicDim) -> None:
    assert normalise({"x": {0: value}}, [X]) == {"x": {0: dim}}


@pytest.mark.parametrize(
    "fixed", [None, {}, {"x": None}, {"x": {}}, {"x": {0: None, 1: Dim.STATIC}}]
)
def test_fixed_axes_are_left_out(fixed) -> None:
    assert normalise(fixed, [X]) == {}


def test_negative_axes_count_from_the_end() -> None:
    assert normalise({"x": {-1: "w", -4: "n"}}, [X]) == {
        "x": {3: DynamicDim("w"), 0: DynamicDim("n")}
    }


def test_a_bare_name_takes_the_range_given_elsewhere() -> None:
    for first, second in (("batch", ("batch", 1, 8)), (("batch", 1, 8), "batch")):
        shapes = normalise({"x": {0: first}, "mask": {0: second}}, [X, MASK])
        assert shapes == {
            "x": {0: DynamicDim("batch", 1, 8)},
            "mask": {0: DynamicDim("batch", 1, 8)},
        }


KEYS = [TensorSpec(f"past.{layer}.key", "float32", (1, 2, 4, 8)) for layer in (0, 1)]


def test_container_name_opens_all_its_inputs_together() -> None:
    shared = {2: DynamicDim("past_2", 1, 8)}
    assert normalise({"past": {2: (1, 8)}}, [X, *KEYS]) == {spec.name: shared for spec in KEYS}
    given = {"past": {2: "n"}, "past.1.key": {}}
    assert normalise(given, KEYS) == {"past.0.key": {2: DynamicDim("n")}}
    sizes = ((1, 2, 1, 8), (1, 2, 4, 8), (1, 2, 8, 8))
    dynamic = from_profiles({spec.name: sizes for spec in KEYS}, ["past"])
    assert dynamic == {spec.name: {2: DynamicDim("past_2", 1, 8, 4)} for spec in KEYS}


def test_dynamic_entries_of_outputs_are_ignored() -> None:
    shapes = normalise({"x": {0: "n"}, "output": {0: "n"}}, [X], outputs=["output"])
    assert list(shapes) == ["x"]


@pytest.mark.parametrize(
    ("shapes", "message", "hint"),
    [
        (
            {"maks": {0: "n"}},
            "dynamic: unknown input 'maks'; available: x, mask",
            "did you mean 'mask'?",
        ),
        (
            {"x": {4: "n"}},
            "dynamic['x']: unknown axis 4 of the input x float32[1, 3, 8, 8]",
            None,
        ),
        (
            {"x": {"n": 0}},
            "dynamic['x']: unknown axis 'n' of the input x float32[1, 3, 8, 8]",
            None,
        ),
        (
            {"x": "batch"},
            "dynamic['x']: expected axes and names, found 'batch'",
            'write {"x": {0: "batch"}}',
        ),
        (
            {"x": {0: 8}},
            "dynamic['x'][0]: expected a name, or a name and sizes, found 8",
            'write "batch" or ("batch", 1, 8)',
        ),
        (
            {"x": {0: ("n", "m")}},
            "dynamic['x'][0]: expected a name, or a name and sizes, found ('n', 'm')",
            'write "batch" or ("batch", 1, 8)',
        ),
        (
            {"x": {0: "batch size"}},
            "'batch size' is not a valid name of a dimension",
            "use letters, digits and underscores",
        ),
        (
            {"x": {0: ("n", 8, 1)}},
            "dimension 'n': expected smallest ≤ usual ≤ largest, found [8, 1]",
            None,
        ),
        (
            {"x": {0: ("n", 1, 9, 8)}},
            "dimension 'n': expected smallest ≤ usual ≤ largest, found [1, 9, 8]",
            None,
        ),
        (
            {"x": {0: ("n", -1, 8)}},
            "dimension 'n': expected smallest ≤ usual ≤ largest, found [-1, 8]",
            None,
        ),
        (
            {"x": {0: ("n", 1, 8)}, "mask": {0: ("n", 1, 4)}},
            "dimension 'n' has two different ranges: 1…8 and 1…4",
            "write the same range twice, or use a different name for each dimension",
        ),
    ],
)
def test_invalid_dynamic_shapes_are_refused(shapes, message: str, hint: str | None) -> None:
    with pytest.raises(InputError) as caught:
        normalise(shapes, [X, MASK])
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_profiles_open_the_axes_that_vary() -> None:
    shapes = from_profiles(
        {"x": ((1, 3, 8), (4, 3, 8), (8, 3, 16)), "feats.0": ((1, 2), (1, 2), (1, 2))}
    )
    assert shapes == {
        "x": {0: DynamicDim("x_0", 1, 8, 4), 2: DynamicDim("x_2", 8, 16, 8)},
        "feats.0": {},
    }


def test_odd_input_names_become_valid_dimension_names() -> None:
    names = ["feats.0", "1st", "a b", "é"]
    shapes = from_profiles(dict.fromkeys(names, ((1,), (1,), (2,))))
    specs = [TensorSpec(name, "float32", (1,)) for name in names]
    assert list(normalise(shapes, specs)) == names
