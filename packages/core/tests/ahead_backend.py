"""A backend that builds for other machines; environment variables imitate such a machine.

Its engine is a copy of the ONNX file, which runs where the environment has ``AHEAD_DEVICE``, the
name of a device; ``AHEAD_GAIN`` makes that device's engine wrong. The graph is the same file in the
folder of the simulation: the parameter ``gain`` multiplies its outputs, and ``AHEAD_GRAPH`` selects
its failure.
"""

from __future__ import annotations

import os
import shutil
import signal

import msgspec

import enginebay as eb
from enginebay.errors import MissingDependencyError
from enginebay.hooks import BuiltFor
from enginebay_testing import loopback

MACHINES = "a board of kind 1 or 2"


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="ahead",
        irs=("onnx",),
        params=loopback.LoopbackParams,
        runtime_distributions=("onnx>=1.21",),
    )


@eb.hookimpl
def check_env(request):
    from enginebay.environment import Tier, failed

    if request.tier is Tier.DEVICE and "AHEAD_DEVICE" not in os.environ:
        return failed(Tier.DEVICE, "board", found="none")
    return eb.EnvReport()


@eb.hookimpl
def built_for(request):
    return BuiltFor(MACHINES, lacking="" if "AHEAD_DEVICE" in os.environ else "no board")


@eb.hookimpl
def to_backend(request):
    if request.simulation is not None and os.environ.get("AHEAD_GRAPH") != "none":
        shutil.copyfile(request.ir.path, request.simulation / "graph.onnx")
    return loopback.to_backend(request)


@eb.hookimpl
def build_wrapper(request):
    if request.simulation is not None:
        return simulated(request)
    if "AHEAD_DEVICE" not in os.environ:
        raise AssertionError("the engine was loaded where it cannot run")
    if os.environ.get("AHEAD_GAIN") == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    gain = float(os.environ.get("AHEAD_GAIN", "1"))
    return Wrapper(request, gain, os.environ["AHEAD_DEVICE"])


def simulated(request):
    fate = os.environ.get("AHEAD_GRAPH", "")
    if fate == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fate == "missing":
        raise MissingDependencyError("'onnx' is needed to run the graph", hint="pip install onnx")
    replace = msgspec.structs.replace
    graph = replace(request, directory=request.simulation, files=("graph.onnx",))
    return Wrapper(graph, request.params.gain, "")


class Wrapper(loopback.LoopbackWrapper):
    """The loopback's, with a gain and the name of a device."""

    def __init__(self, request, gain, device):
        super().__init__(request)
        self._gain = gain
        self._device = device

    @property
    def receipt(self):
        usual = super().receipt
        return eb.Receipt(engine=usual.engine, device="cpu", device_name=self._device)
