"""Models: find a model by its name, read its signature, and bind its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.models.bound_model import (
        BoundModel as BoundModel,
        bind as bind,
    )
    from enginebay.models.example_inputs import shapes_of as shapes_of
    from enginebay.models.forward_arguments import Call as Call
    from enginebay.models.forward_pass import (
        evaluation as evaluation,
        output_tensors as output_tensors,
    )
    from enginebay.models.input_names import choose_unused_name as choose_unused_name
    from enginebay.models.model_state import (
        ModelState as ModelState,
        unchanged as unchanged,
    )
    from enginebay.models.named_weights import name_weights as name_weights
    from enginebay.models.observation import (
        Observation as Observation,
        Observer as Observer,
    )
    from enginebay.models.plugin_sources import find_model as find_model
    from enginebay.models.recorded_calls import (
        RecordedCalls as RecordedCalls,
        record as record,
    )
    from enginebay.models.shape_variants import (
        between_shapes as between_shapes,
        crossed_shapes as crossed_shapes,
        extreme_shapes as extreme_shapes,
        shapes_at as shapes_at,
        unlimited_sizes as unlimited_sizes,
    )
    from enginebay.models.signature import Signature as Signature
    from enginebay.models.source_check import check_source as check_source
    from enginebay.models.source_options import (
        Options as Options,
        image_size as image_size,
        read_options as read_options,
    )
    from enginebay.models.sources import ModelSource as ModelSource
    from enginebay.models.weights import (
        RANDOM_WEIGHTS as RANDOM_WEIGHTS,
        fixed_seed as fixed_seed,
        load_weights as load_weights,
        measure_norms as measure_norms,
        take_weights as take_weights,
        weights_text as weights_text,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "models.forward_arguments": "Call",
        "models.bound_model": "BoundModel bind",
        "models.example_inputs": "shapes_of",
        "models.forward_pass": "evaluation output_tensors",
        "models.input_names": "choose_unused_name",
        "models.named_weights": "name_weights",
        "models.observation": "Observation Observer",
        "models.plugin_sources": "find_model",
        "models.recorded_calls": "RecordedCalls record",
        "models.shape_variants": (
            "between_shapes crossed_shapes extreme_shapes shapes_at unlimited_sizes"
        ),
        "models.signature": "Signature",
        "models.source_check": "check_source",
        "models.source_options": "Options image_size read_options",
        "models.sources": "ModelSource",
        "models.model_state": "ModelState unchanged",
        "models.weights": (
            "RANDOM_WEIGHTS fixed_seed load_weights measure_norms take_weights weights_text"
        ),
    },
)
