"""The typed interface to one backend plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.backend.backend_hooks import (
        BackendHooks as BackendHooks,
        default_backend as default_backend,
        device_kind as device_kind,
        load_hooks as load_hooks,
    )
    from enginebay.backend.layer_times import (
        time_layers as time_layers,
        times_layers as times_layers,
    )
    from enginebay.backend.node_selection import (
        describe_wide_nodes as describe_wide_nodes,
        fits_eight_bits as fits_eight_bits,
        kept_nodes as kept_nodes,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "backend.backend_hooks": "BackendHooks default_backend device_kind load_hooks",
        "backend.layer_times": "time_layers times_layers",
        "backend.node_selection": "describe_wide_nodes fits_eight_bits kept_nodes",
    },
)
