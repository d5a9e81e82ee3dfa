"""A backend that builds for other machines: invalid results of its hooks."""

from __future__ import annotations

import pytest

import enginebay as eb
from enginebay.errors import PluginError
from enginebay_testing import temporary_backend

SOURCE = """\
import enginebay as eb
from enginebay.hooks import BuiltFor
from enginebay_testing.loopback import LoopbackParams, build_wrapper, to_backend

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="odd", irs=("onnx",), params=LoopbackParams)

@eb.hookimpl
def built_for(request):
    return {}
"""
WANTED = "expected the machines as text, and the reason why this machine is not among them"


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ("'sm89'", "'sm89': expected BuiltFor"),
        ("BuiltFor('')", f"BuiltFor(machines='', lacking=''): {WANTED}"),
        ("BuiltFor('a GPU', True)", f"BuiltFor(machines='a GPU', lacking=True): {WANTED}"),
    ],
)
def test_invalid_result_of_built_for_names_the_plugin(result: str, found: str) -> None:
    with temporary_backend("odd", SOURCE.format(result)):
        backend = eb.get_backend("odd")
        with pytest.raises(PluginError) as caught:
            backend.built_for(backend.Params())
    assert str(caught.value) == f"built_for() of 'odd' (temporary-odd 0) returned {found}"
