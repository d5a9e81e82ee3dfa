"""Conformance tests of discovery: listing and loading a plugin import no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.arrays import numpy_dtype

if TYPE_CHECKING:
    from enginebay_testing.conformance.kit import Kit

_LOADING = """\
import argparse, sys, enginebay as eb
backend = eb.get_backend(sys.argv[1])
backend.add_arguments(argparse.ArgumentParser())
backend.Params()
print(*sys.modules)
"""

#: Modules that loading a plugin must not import: torch alone takes a second.
_HEAVY = frozenset({"torch", "onnx", "onnxscript"})


class DiscoveryLaws:
    """Conformance tests: listing and loading a backend imports no engine."""

    def test_it_is_installed_once(self, kit: Kit) -> None:
        """Exactly one installed distribution provides the backend, and has valid metadata."""
        status = kit.status
        assert status.state == "installed", f"{status.state}: {status.reason}; fix: {status.fix}"
        assert status.distribution, "the backend has no distribution"
        assert status.version, "the backend's distribution has no version"

    def test_loading_imports_no_engine(self, kit: Kit) -> None:
        """Loading the plugin with its parameters and flags imports neither the engine nor torch."""
        imported = set(kit.python(_LOADING).split())
        heavy = imported & {*kit.engine_modules, *_HEAVY}
        assert not heavy, f"loading the plugin imported {', '.join(sorted(heavy))}"

    def test_it_says_what_it_is(self, kit: Kit) -> None:
        """``BackendInfo`` is complete; its first device and precision are the defaults."""
        info = kit.backend.info
        assert info.name == kit.name, f"expected the name '{kit.name}', found '{info.name}'"
        for field in ("irs", "devices", "dtypes", "precisions"):
            values = getattr(info, field)
            assert values, f"{field} is empty"
            assert len(set(values)) == len(values), f"{field} has duplicates: {values}"
        for dtype in info.dtypes:
            numpy_dtype(dtype)
        params = kit.backend.Params()
        defaults = (params.device.partition(":")[0], kit.backend.allowed_precision(params))
        first = (info.devices[0], info.precisions[0])
        assert defaults == first, (
            f"the parameters' defaults are {defaults}, but the BackendInfo lists {first} first"
        )
        unlisted = set(info.calibrated).difference(info.precisions)
        assert not unlisted, f"{', '.join(unlisted)}: in calibrated, but not in precisions"
