"""Model sources: from the name of a model, or an object, to a module with its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.sources.call_parameters import (
        ScriptName as ScriptName,
        as_script_number as as_script_number,
        describe_script_inputs as describe_script_inputs,
        forward_parameters as forward_parameters,
        required_parameters as required_parameters,
        script_methods as script_methods,
    )
    from enginebay.sources.codebase_library import (
        no_model_error as no_model_error,
        wrap_import_errors as wrap_import_errors,
    )
    from enginebay.sources.function_models import FunctionModel as FunctionModel
    from enginebay.sources.mapped_weights import map_weights as map_weights
    from enginebay.sources.named_weights import name_weights as name_weights
    from enginebay.sources.plugin_sources import find_model as find_model
    from enginebay.sources.source_check import (
        check_source as check_source,
        no_example_error as no_example_error,
    )
    from enginebay.sources.source_options import (
        Options as Options,
        image_size as image_size,
        read_options as read_options,
    )
    from enginebay.sources.sources import ModelSource as ModelSource
    from enginebay.sources.weights import (
        RANDOM_WEIGHTS as RANDOM_WEIGHTS,
        digest_weights as digest_weights,
        fixed_seed as fixed_seed,
        load_weights as load_weights,
        measure_norms as measure_norms,
        take_weights as take_weights,
        weights_text as weights_text,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "sources.call_parameters": (
            "ScriptName as_script_number describe_script_inputs forward_parameters "
            "required_parameters script_methods"
        ),
        "sources.codebase_library": "no_model_error wrap_import_errors",
        "sources.function_models": "FunctionModel",
        "sources.mapped_weights": "map_weights",
        "sources.named_weights": "name_weights",
        "sources.plugin_sources": "find_model",
        "sources.source_check": "check_source no_example_error",
        "sources.source_options": "Options image_size read_options",
        "sources.sources": "ModelSource",
        "sources.weights": (
            "RANDOM_WEIGHTS digest_weights fixed_seed load_weights measure_norms take_weights "
            "weights_text"
        ),
    },
)
