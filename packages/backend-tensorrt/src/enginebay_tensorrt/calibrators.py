"""TensorRT 10's own int8 calibrators, fed with recorded inputs. TensorRT 11 has none."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import ParamsError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.bindings import trt

if TYPE_CHECKING:
    from enginebay_tensorrt.calibration import Samples

_BASES = {"entropy": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}


def calibrator(kind: str, samples: Samples) -> Any:
    """A calibrator that copies one sample after the other to the device.

    Args:
        kind: ``entropy`` or ``minmax``.
        samples: Inputs by name, all of the same shapes.

    Returns:
        The calibrator. What went wrong while it was asked is in its ``error``: the bindings would
        swallow an exception, and TensorRT take it for the end of the samples.

    Raises:
        ParamsError: Shapes differ: a calibrator has one profile.
    """
    shapes = {name: array.shape for name, array in samples[0].items()}
    for number, sample in enumerate(samples):
        for name, array in sample.items():
            if array.shape != shapes[name]:
                raise ParamsError(
                    f"calibrator {kind} takes samples of one shape: input '{name}' of sample "
                    f"{number} has {array.shape}, wanted {shapes[name]} as in the first",
                    hint="--calibrator qdq",
                )
    base: Any = getattr(trt, _BASES[kind])

    class Calibrator(base):  # type: ignore[misc]  # tensorrt has no types
        def __init__(self) -> None:
            base.__init__(self)
            self.error: Exception | None = None
            self._rest = iter(samples)
            self._memory: dict[str, int] = {}

        def get_batch_size(self) -> int:
            return 1

        def get_batch(self, names: list[str]) -> list[int] | None:
            sample = next(self._rest, None)
            if sample is None:
                self._free()
                return None
            try:
                return [self._upload(name, sample[name]) for name in names]
            except Exception as err:  # noqa: BLE001  # raised again by whoever builds
                self.error = err
                with suppress(RuntimeError):
                    self._free()
                return None

        def read_calibration_cache(self) -> bytes | None:
            return None

        def write_calibration_cache(self, cache: Any) -> None:
            """Nothing is kept: another model's scales would pass as this one's."""

        def _upload(self, name: str, array: Any) -> int:
            array = np.ascontiguousarray(array)
            if name not in self._memory:
                self._memory[name] = cuda.call("cudaMalloc", max(1, array.nbytes))
            kind = cuda.runtime().cudaMemcpyKind.cudaMemcpyHostToDevice
            cuda.call("cudaMemcpy", self._memory[name], array.ctypes.data, array.nbytes, kind)
            return self._memory[name]

        def _free(self) -> None:
            for address in self._memory.values():
                cuda.call("cudaFree", address)
            self._memory.clear()

    return Calibrator()
