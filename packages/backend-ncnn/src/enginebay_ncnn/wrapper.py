"""The wrapper of a loaded ncnn network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import enginebay as eb
from enginebay import TensorSpec
from enginebay.errors import InferenceError
from enginebay_ncnn.network import load_network
from enginebay_ncnn.params import parse_vulkan_index
from enginebay_ncnn.plan import Plan
from enginebay_ncnn.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ncnn

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_ncnn.params import NcnnParams
    from enginebay_ncnn.plan import Port


class NcnnWrapper(eb.Wrapper):
    """Runs one network; overlapping calls are safe, since each call has a separate extractor.

    Attributes:
        session: The session of the network; deleted when the wrapper is closed.
    """

    concurrent = True

    def __init__(
        self,
        session: Session,
        plan: Plan,
        *,
        receipt: eb.Receipt,
        inputs: Sequence[TensorSpec] = (),
        outputs: Sequence[TensorSpec] = (),
    ) -> None:
        super().__init__(
            inputs=inputs or [_make_spec(port) for port in plan.inputs],
            outputs=outputs or [_make_spec(port) for port in plan.outputs],
        )
        self.session = session
        self._receipt = receipt
        self._split_axes = {p.name: p.loop_axis for p in plan.inputs if p.loop_axis is not None}
        self._join_axes = [port.loop_axis for port in plan.outputs]
        self._infer = self._run_pieces if self._split_axes else self.session.run

    @classmethod
    def from_request(cls, request: WrapperRequest[NcnnParams]) -> NcnnWrapper:
        """Load the network of the request's artifact, and return a wrapper of the network."""
        params = request.params
        param, weights, plan = (request.directory / file for file in request.files)
        net, fallbacks = load_network(param, weights, params)
        ports = Plan.read(plan)
        return cls(
            Session(net, ports),
            ports,
            receipt=_make_receipt(net, params, fallbacks),
            inputs=request.inputs,
            outputs=request.outputs,
        )

    @property
    def receipt(self) -> eb.Receipt:
        """The options that the network was loaded with."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the network once, or once for each item of the batch; return the model's outputs."""
        return self._infer(feed)

    def _run_pieces(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        sizes = {feed[name].shape[axis] for name, axis in self._split_axes.items()}
        # The most frequent batch size, for which nothing must be sliced and concatenated.
        if sizes == {1}:
            return self.session.run(feed)
        if len(sizes) > 1:
            raise InferenceError(f"the inputs have batches of different sizes: {sorted(sizes)}")
        (size,) = sizes
        if not size:
            return self._run_empty_batch(feed)
        pieces = [self.session.run(self._take_piece(feed, index)) for index in range(size)]
        return [
            arrays[0] if axis is None else np.concatenate(arrays, axis)
            for arrays, axis in zip(zip(*pieces, strict=True), self._join_axes, strict=True)
        ]

    def first_piece(self, feed: dict[str, NumpyArray]) -> tuple[dict[str, NumpyArray], int]:
        """Return the inputs of the batch's first item, and the number of items in the batch."""
        sizes = [feed[name].shape[axis] for name, axis in self._split_axes.items()]
        return (self._take_piece(feed, 0), sizes[0]) if sizes else (feed, 1)

    def _take_piece(self, feed: dict[str, NumpyArray], index: int) -> dict[str, NumpyArray]:
        piece = dict(feed)
        for name, axis in self._split_axes.items():
            piece[name] = feed[name][(slice(None),) * axis + (slice(index, index + 1),)]
        return piece

    def _run_empty_batch(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        feed = dict(feed)  # run on zeros: only ncnn knows the other sizes of the outputs
        for name, axis in self._split_axes.items():
            shape = list(feed[name].shape)
            shape[axis] = 1
            feed[name] = np.zeros(shape, feed[name].dtype)
        return [
            array if axis is None else array[(slice(None),) * axis + (slice(0, 0),)]
            for array, axis in zip(self.session.run(feed), self._join_axes, strict=True)
        ]

    def release(self) -> None:
        """Free the network as soon as no call is running."""
        del self.session, self._infer


def _make_spec(port: Port) -> TensorSpec:
    dims: list[int | str] = list(port.shape)
    if port.loop_axis is not None:
        dims[port.loop_axis] = "batch"
    return TensorSpec(port.name, port.dtype, tuple(dims))


def _make_receipt(net: ncnn.Net, params: NcnnParams, fallbacks: list[str]) -> eb.Receipt:
    import ncnn

    vulkan = bool(net.opt.use_vulkan_compute)
    index = parse_vulkan_index(params.device)
    name = ncnn.get_gpu_info(index).device_name() if vulkan else ""
    return eb.Receipt(
        engine=f"ncnn {ncnn.__version__}",
        device=params.device if vulkan else "cpu",
        device_name=name,
        provider="Vulkan" if vulkan else "CPU",
        precision=params.precision,
        fallbacks=tuple(fallbacks),
        details=_make_details(net),
    )


def _make_details(net: ncnn.Net) -> dict[str, str]:
    return {"threads": str(net.opt.num_threads), "layers": str(len(net.layers()))}
