"""Names of transformers that this package uses and that may change; the error if one is missing.

transformers warns that its exporters may change in any release, and this package is made for one
series of releases. ``tests/test_upstream.py`` has a test for each name, so that a run with a new
release lists what has changed; no other file of this package imports one of these modules::

    from enginebay_transformers import upstream

    upstream.register_backend(MyExporter)

A name is imported when it is first used. The names need torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import distribution
from typing import TYPE_CHECKING, Any

from enginebay.environment import installed_version, require
from enginebay.errors import MissingDependencyError

if TYPE_CHECKING:  # classes to inherit from
    from transformers.exporters import (
        ExportConfigMixin as ExportConfigMixin,
        HfExporter as HfExporter,
        ModelRunner as ModelRunner,
    )

#: Module of transformers → the names in it, separated by spaces.
HOMES = {
    "transformers": "Cache DynamicCache EncoderDecoderCache GenerationConfig StaticCache",
    "transformers.cache_utils": "DynamicLayer",
    "transformers.exporters": (
        "AutoHfExporter ExportConfigMixin ExportedComponent ExportedModel ExportMetadata HfExporter"
        " ModelRunner register_backend"
    ),
    "transformers.exporters.exporter_dynamo": "register_pytree_node",
    "transformers.exporters.metadata": "build_export_metadata record_output_structure",
    "transformers.exporters.utils": "decompose_for_generation get_leaf_tensors",
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    require("torch")  # without torch, these modules can be imported, and fail when they are used
    try:
        value = getattr(import_module(home), name)
    except Exception as err:  # a lazy module of theirs may raise anything
        raise changed(f"{home}.{name}") from err
    globals()[name] = value
    return value


def changed(name: str) -> MissingDependencyError:
    """Return the error for a name that the installed transformers does not have as it is used here.

    Example:
        >>> err = changed("transformers.exporters.HfExporter")
        >>> print(err)  # doctest: +ELLIPSIS
        'transformers.exporters.HfExporter' is missing or differs in transformers ...; ...
    """
    ours = distribution("enginebay-transformers")
    requirement = next(line for line in ours.requires or () if line.startswith("transformers"))
    found = installed_version("transformers")
    state = f"is missing or differs in transformers {found}" if found else "is not installed"
    message = f"'{name}' {state}; enginebay-transformers {ours.version} is made for {requirement}"
    return MissingDependencyError(message, hint=f"pip install '{requirement}'")
