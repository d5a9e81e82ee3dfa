"""From what a user names to a model whose inputs are bound: sources, signature, open dimensions."""

from __future__ import annotations

from enginebay.models.binding import eager
from enginebay.models.bound import BoundModel, bind
from enginebay.models.dynamic import DynamicDim, DynamicShapes, extreme_shapes
from enginebay.models.examples import shapes_of
from enginebay.models.forward import evaluation, output_tensors
from enginebay.models.names import renamed, unused
from enginebay.models.options import Options, image_size, read_options
from enginebay.models.plugin_sources import find_model
from enginebay.models.signature import Signature
from enginebay.models.sources import ModelSource
from enginebay.models.weights import fixed_seed, load_weights, measure_norms, take_weights

__all__ = [
    "BoundModel",
    "DynamicDim",
    "DynamicShapes",
    "ModelSource",
    "Options",
    "Signature",
    "bind",
    "eager",
    "evaluation",
    "extreme_shapes",
    "find_model",
    "fixed_seed",
    "image_size",
    "load_weights",
    "measure_norms",
    "output_tensors",
    "read_options",
    "renamed",
    "shapes_of",
    "take_weights",
    "unused",
]
