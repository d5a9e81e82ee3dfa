"""A backend whose engine does not survive NaN, and cuts the integers of one input to 32 bits."""

from __future__ import annotations

import os

import numpy as np

import enginebay as eb
from enginebay.errors import InferenceError
from enginebay_testing import loopback
from enginebay_testing.loopback import LoopbackParams, LoopbackWrapper

to_backend = loopback.to_backend


class Frail(LoopbackWrapper):
    def execute(self, feed):
        if any(np.isnan(array).any() for array in feed.values()):
            if "raises" in feed:
                raise InferenceError("no NaN here")
            os._exit(7)
        if "narrow" in feed:
            feed = {"narrow": feed["narrow"].astype("int32").astype("int64")}
        return super().execute(feed)


@eb.hookimpl
def build_wrapper(request):
    return Frail(request)


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="frail", irs=("onnx",), params=LoopbackParams, dtypes=("float32", "int64", "bool")
    )
