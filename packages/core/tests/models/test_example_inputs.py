"""Example inputs are resized to the requested shapes, by the names that the caller uses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from enginebay.errors import InputError, ParamsError
from enginebay.models import bind
from enginebay.models.example_inputs import example_inputs
from enginebay.sources.sources import load_model


class Two(torch.nn.Module):
    def forward(self, image, mask, scale=1.0):
        return image * mask * scale


OWN = (torch.arange(6.0).reshape(2, 3), torch.ones(1, 3), 2.0)


def test_own_example_inputs_are_resized_to_input_shapes() -> None:
    source = load_model((Two(), OWN))
    assert example_inputs(None, source, {}) is OWN
    image, mask, scale = example_inputs(None, source, {"image": (3, 2)})
    assert image.tolist() == [[0, 1], [3, 4], [0, 1]]
    assert mask is OWN[1]
    assert scale == 2.0
    image, _, _ = example_inputs(None, source, {"image": (None, 4)})
    assert image.tolist() == [[0, 1, 2, 0], [3, 4, 5, 3]]


def test_single_tensor_and_dict_examples_are_resized() -> None:
    (only,) = example_inputs(None, load_model((torch.nn.ReLU(), OWN[0])), {"": (1, 2)})
    assert only.tolist() == [[0, 1]]
    by_name = {"mask": OWN[1], "image": OWN[0]}
    resized = example_inputs(None, load_model((Two(), by_name)), {"mask": (2, 3)})
    assert resized["mask"].shape == (2, 3)
    assert resized["image"] is OWN[0]


def test_given_input_names_are_mapped_to_parameters() -> None:
    source = load_model((Two(), OWN))
    image, mask, _ = example_inputs(None, source, {"b": (2, 3)}, names=["a", "b"])
    assert image is OWN[0]
    assert mask.shape == (2, 3)
    given = example_inputs({"a": OWN[0], "b": OWN[1]}, source, {}, names=["a", "b"])
    assert list(given) == ["image", "mask"]
    made = example_inputs(None, load_model(Two()), {"a": (1, 2), "b": (1, 2)}, names=["a", "b"])
    assert {name: value.shape for name, value in made.items()} == {"image": (1, 2), "mask": (1, 2)}


def test_impossible_input_shapes_are_refused() -> None:
    source = load_model((Two(), OWN))
    with pytest.raises(InputError, match=r"of shape \(2, 3\) cannot be resized to \(1,\)"):
        example_inputs(None, source, {"image": (1,)})
    with pytest.raises(ParamsError, match="'imgae' is not an input"):
        example_inputs(None, source, {"imgae": (1, 2)})


def test_masked_array_as_example_is_refused() -> None:
    masked = np.ma.masked_array(np.ones((1, 2), np.float32), mask=[[True, False]])
    with pytest.raises(InputError, match="the array has masked elements"):
        bind(load_model((torch.nn.ReLU(), masked)))
