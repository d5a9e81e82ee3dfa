"""From what a user names to a model whose inputs are bound: sources, signature, open dimensions.

A plugin with a model source needs two of its files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.models.arguments import Call
    from enginebay.models.bound import BoundModel, bind
    from enginebay.models.dynamic import DynamicDim, DynamicShapes, between_shapes, extreme_shapes
    from enginebay.models.examples import shapes_of
    from enginebay.models.forward import evaluation, output_tensors
    from enginebay.models.input_names import unused
    from enginebay.models.observation import Observation, Observer
    from enginebay.models.plugin_sources import find_model
    from enginebay.models.python_source import named_object
    from enginebay.models.restoration import unchanged
    from enginebay.models.signature import Signature
    from enginebay.models.source_check import check_source
    from enginebay.models.source_options import Options, image_size, read_options
    from enginebay.models.sources import ModelSource
    from enginebay.models.weights import fixed_seed, load_weights, measure_norms, take_weights

__all__ = [
    "BoundModel",
    "Call",
    "DynamicDim",
    "DynamicShapes",
    "ModelSource",
    "Observation",
    "Observer",
    "Options",
    "Signature",
    "between_shapes",
    "bind",
    "check_source",
    "evaluation",
    "extreme_shapes",
    "find_model",
    "fixed_seed",
    "image_size",
    "load_weights",
    "measure_norms",
    "named_object",
    "output_tensors",
    "read_options",
    "shapes_of",
    "take_weights",
    "unchanged",
    "unused",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BoundModel": "models.bound",
        "Call": "models.arguments",
        "DynamicDim": "models.dynamic",
        "DynamicShapes": "models.dynamic",
        "ModelSource": "models.sources",
        "Observation": "models.observation",
        "Observer": "models.observation",
        "Options": "models.source_options",
        "Signature": "models.signature",
        "between_shapes": "models.dynamic",
        "bind": "models.bound",
        "check_source": "models.source_check",
        "evaluation": "models.forward",
        "extreme_shapes": "models.dynamic",
        "find_model": "models.plugin_sources",
        "fixed_seed": "models.weights",
        "image_size": "models.source_options",
        "load_weights": "models.weights",
        "measure_norms": "models.weights",
        "named_object": "models.python_source",
        "output_tensors": "models.forward",
        "read_options": "models.source_options",
        "shapes_of": "models.examples",
        "take_weights": "models.weights",
        "unchanged": "models.restoration",
        "unused": "models.input_names",
    },
)
