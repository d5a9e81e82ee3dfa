"""The laws for every backend, on the CPU, or on a GPU in ``nox -s gpu``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from enginebay_testing import Conformance, temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The same hooks, with a GPU as the device unless a law names another.
ON_CUDA = """
import msgspec
import enginebay as eb
from enginebay_onnxruntime import plugin
from enginebay_onnxruntime.params import OnnxruntimeParams
from enginebay_onnxruntime.plugin import *

class CudaParams(OnnxruntimeParams):
    __doc__ = OnnxruntimeParams.__doc__
    device: str = "cuda"

@eb.hookimpl
def backend_info():
    info = plugin.backend_info()
    devices = ("cuda", "cpu")
    name = "onnxruntime-on-cuda"
    return msgspec.structs.replace(info, name=name, params=CudaParams, devices=devices)
"""


@pytest.fixture(scope="session")
def on_cpu_or_cuda() -> Iterator[str]:
    """The backend, or its hooks with a GPU as the device."""
    if os.environ.get("ENGINEBAY_GPU") != "onnxruntime":
        yield "onnxruntime"
        return
    with temporary_backend("onnxruntime-on-cuda", ON_CUDA):
        yield "onnxruntime-on-cuda"


class TestConformance(Conformance):
    @pytest.fixture
    def backend(self, on_cpu_or_cuda: str) -> str:
        return on_cpu_or_cuda
