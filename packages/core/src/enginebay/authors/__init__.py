"""Public names for authors of plugins, in modules that say what a name is about.

::

    from enginebay.authors import isolation
    from enginebay.authors.arrays import NumpyArray

    isolation.call("enginebay_myengine.convert:run", path, timeout=60)

| door | names about |
|---|---|
| ``arrays`` | arrays, shapes and samples; the comparison of outputs |
| ``artifacts`` | manifests, requests for loading |
| ``files`` | IR files, configs, atomic replacement, locks |
| ``isolation`` | child processes and their time limits |
| ``sources`` | models, their options, weights and tasks |

A few names that belong to none of them are here: the contexts of rewriters, steps, timing.

A backend or a model source may import these modules, :mod:`enginebay`, :mod:`enginebay.hooks`,
:mod:`enginebay.errors` and :mod:`enginebay.environment`, but no other module of Enginebay. The
backends and model sources of this repository follow this rule too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from enginebay.lazy import lazy_module as lazy_module, lazy_names as lazy_names

if TYPE_CHECKING:
    from enginebay.inference import (
        Latency as Latency,
        count_time as count_time,
    )
    from enginebay.operations import (
        Step as Step,
        Steps as Steps,
        find_rewriters as find_rewriters,
    )
    from enginebay.params import (
        declared_fields as declared_fields,
        read_fields as read_fields,
    )
    from enginebay.plugins import (
        contributed as contributed,
        forget_plugins as forget_plugins,
        installed_backends as installed_backends,
    )
    from enginebay.rewriting import (
        Context as Context,
        LoweringContext as LoweringContext,
        Rewriting as Rewriting,
    )


_fetch, __dir__, __all__ = lazy_names(
    __name__,
    {
        "inference": "Latency count_time",
        "operations": "Step Steps find_rewriters",
        "params": "declared_fields read_fields",
        "plugins": "contributed forget_plugins installed_backends",
        "rewriting": "Context LoweringContext Rewriting",
    },
)
__all__ += ["lazy_module", "lazy_names"]

#: The modules of this package.
DOORS = ("arrays", "artifacts", "files", "isolation", "sources")

#: Door → the names that were in this module before there were doors. They stay until release 0.2,
#: without a warning, which plugins that turn warnings into errors would not survive.
_MOVED = {
    "arrays": (
        "Array NumpyArray OutputComparison PackedArray Sample ShapeProfile Shapes assign "
        "compare_outputs format_dims inputs_for is_torch load_samples name_shapes "
        "numpy_dtype output_leaves parse_inputs parse_shapes resolve_profiles "
        "save_samples to_numpy to_torch touching"
    ),
    "artifacts": (
        "LoadRequest Manifest check_target input_sets load_request move_artifact use_artifact"
    ),
    "files": (
        "Problems quiet read_config read_exported_program read_ir read_onnx read_table "
        "read_torchscript source_modules to_half write_whole"
    ),
    "isolation": "Worker call check_time_limit run time_left time_limit",
    "sources": (
        "BoundModel Call DataRecord Item ModelSource Options check_source evaluation "
        "evaluator_outputs find_model fixed_seed image_size load_weights measure_norms "
        "named_object read_options read_task reference_model shapes_of take_weights "
        "unchanged"
    ),
}


if not TYPE_CHECKING:  # type checkers find each name in its module

    def __getattr__(name: str) -> Any:
        for door, names in _MOVED.items():
            if name in names.split():
                return getattr(import_module(f"{__name__}.{door}"), name)
        return _fetch(name)
