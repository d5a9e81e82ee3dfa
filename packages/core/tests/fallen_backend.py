"""A backend whose engine reports a fallback."""

from __future__ import annotations

import enginebay as eb
from enginebay_testing import loopback
from enginebay_testing.loopback import LoopbackParams, LoopbackWrapper

to_backend = loopback.to_backend


class Fallen(LoopbackWrapper):
    receipt = eb.Receipt(engine="e 1", device="cpu", fallbacks=("no turbo here",))


@eb.hookimpl
def build_wrapper(request):
    return Fallen(request)


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="fallen", irs=("onnx",), params=LoopbackParams)
