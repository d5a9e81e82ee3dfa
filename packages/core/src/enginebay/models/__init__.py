"""From what a user names to a model whose inputs are bound: sources, signature, open dimensions."""

from __future__ import annotations

from enginebay.models.binding import eager
from enginebay.models.dynamic import DynamicDim, DynamicShapes, normalise, to_profiles
from enginebay.models.examples import example_inputs, open_dimensions, range_profiles, shapes_of
from enginebay.models.finding import find_model
from enginebay.models.forward import evaluation, output_tensors
from enginebay.models.names import renamed, unused
from enginebay.models.options import Options, image_size, read_options
from enginebay.models.signature import Signature, read_signature
from enginebay.models.sources import ModelSource, load_model
from enginebay.models.weights import fixed_seed, load_weights, measure_norms, take_weights

__all__ = [
    "DynamicDim",
    "DynamicShapes",
    "ModelSource",
    "Options",
    "Signature",
    "eager",
    "evaluation",
    "example_inputs",
    "find_model",
    "fixed_seed",
    "image_size",
    "load_model",
    "load_weights",
    "measure_norms",
    "normalise",
    "open_dimensions",
    "output_tensors",
    "range_profiles",
    "read_options",
    "read_signature",
    "renamed",
    "shapes_of",
    "take_weights",
    "to_profiles",
    "unused",
]
