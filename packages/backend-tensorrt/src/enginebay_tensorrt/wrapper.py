"""The wrapper of a TensorRT engine."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import enginebay as eb
from enginebay_tensorrt import cuda
from enginebay_tensorrt.engine import load_engine
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.plugin_libraries import load_plugins, locate_plugins
from enginebay_tensorrt.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import tensorrt as trt
    import torch

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_tensorrt.engine import Engine
    from enginebay_tensorrt.params import Params


Value = TypeVar("Value")


class TensorrtWrapper(eb.Wrapper):
    """Runs one engine; overlapping calls use separate execution contexts.

    Like a torch operation, a call with CUDA tensors is enqueued on the caller's current stream and
    returns at once; the tensors are not copied. Arrays on the host are copied through pinned
    memory, on a separate stream.

    Args:
        engine: The engine.
        params: The parameters that the engine was built with.
        inputs: The inputs that callers pass; by default the engine's inputs.
        outputs: The outputs that callers receive, in order; by default the engine's outputs.
    """

    concurrent = True
    native_device = "cuda"

    def __init__(
        self,
        engine: Engine,
        params: Params,
        *,
        inputs: Sequence[TensorSpec] = (),
        outputs: Sequence[TensorSpec] = (),
    ) -> None:
        super().__init__(
            inputs=inputs or [tensor.spec for tensor in engine.inputs.values()],
            outputs=outputs or [tensor.spec for tensor in engine.outputs.values()],
        )
        self.engine = engine
        self._as_graph = params.cuda_graph and engine.is_static
        self._receipt = _make_receipt(engine, params)
        # Create the first runner now, so that too little memory is an error of loading.
        self._idle = [Runner(engine, as_graph=self._as_graph)]

    @classmethod
    def from_request(cls, request: WrapperRequest[Params]) -> TensorrtWrapper:
        """Load the artifact's plugins and engine and, for a stripped engine, the weights."""
        params = request.params
        load_plugins(get_library(params), locate_plugins(params.plugins, request.directory))
        weights = request.directory / params.weights_file if params.strip_plan else None
        engine = load_engine(request.directory / request.files[0], params, weights)
        return cls(engine, params, inputs=request.inputs, outputs=request.outputs)

    @property
    def receipt(self) -> eb.Receipt:
        """The versions, the device and the precision with which the engine runs."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the engine on arrays and wait for the outputs."""
        with self._use_runner() as runner:
            return self._order_outputs(runner.run(feed))

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Enqueue a call with CUDA tensors on the caller's current stream."""
        with self._use_runner() as runner:
            outputs = self._order_outputs(runner.run_torch(feed))
        # The engine's GPU and the caller's may be different.
        device = next(iter(feed.values())).device
        return [output.to(device) for output in outputs]

    def limit_sizes(self, limits: object) -> None:
        """Set no limits: the engine has its own, one profile or several."""

    def _order_outputs(self, outputs: dict[str, Value]) -> list[Value]:
        return [outputs[name] for name in self.output_names]

    def watch(self, profiler: trt.IProfiler) -> None:
        """Report the layer times of the next calls to a profiler; calls must not overlap."""
        self._idle[-1].watch(profiler)

    @contextmanager
    def _use_runner(self) -> Iterator[Runner]:
        """Yield a runner that no other call uses at the same time."""
        try:  # without asking first: another thread may take the last runner in between
            runner = self._idle.pop()
        except IndexError:
            runner = Runner(self.engine, as_graph=self._as_graph)
        try:
            yield runner
        except eb.EnginebayError:
            self._idle.append(runner)  # rejected before anything was enqueued
            raise
        except BaseException:
            with suppress(RuntimeError):  # CUDA may be unusable; the cause is raised
                runner.close()  # its context may be in any state
            raise
        self._idle.append(runner)

    def synchronize(self) -> None:
        """Wait until the GPU has finished all enqueued work."""
        with cuda.on_device(self.engine.device.index):
            cuda.call("cudaDeviceSynchronize")

    def release(self) -> None:
        """Wait for enqueued work, then free contexts, memory and engine."""
        while self._idle:
            self._idle.pop().close()
        del self.engine


def _make_receipt(engine: Engine, params: Params) -> eb.Receipt:
    dynamic = [t.spec for t in (*engine.inputs.values(), *engine.outputs.values())]
    open_specs = [spec.describe() for spec in dynamic if not spec.is_static]
    fallbacks = (
        (f"cuda_graph was requested, but the shape of {open_specs[0]} is not fixed",)
        if params.cuda_graph and open_specs
        else ()
    )
    raw = engine.cuda_engine
    return eb.Receipt(
        engine=f"{engine.library.product.backend} {engine.library.version}",
        device=f"cuda:{engine.device.index}",
        device_name=engine.device.name,
        provider=engine.library.product.title,
        # A plan does not contain the precision of its kernels; a strongly typed graph fixes it.
        precision=params.precision,
        driver=f"CUDA {engine.device.driver}",
        fallbacks=fallbacks,
        details={
            "layers": str(raw.num_layers),
            "profiles": str(raw.num_optimization_profiles),
            "context_bytes": str(raw.device_memory_size_v2),
            "compute_capability": engine.device.compute_capability,
            **({"cuda_graph": "recorded"} if params.cuda_graph and not open_specs else {}),
        },
    )
