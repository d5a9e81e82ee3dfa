"""The wrapper of a loaded engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
import numpy as np
import onnx
from enginebay.authors import read_onnx
from onnx.reference import ReferenceEvaluator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.hooks import WrapperRequest

    from enginebay_myengine.params import MyengineParams


class MyengineWrapper(eb.Wrapper):
    """Runs one model, one call at a time; with ``concurrent = True``, calls may overlap."""

    def __init__(self, request: WrapperRequest[MyengineParams]) -> None:
        path = request.directory / request.files[0]
        model = read_onnx(path)
        super().__init__(
            inputs=request.inputs or model.inputs, outputs=request.outputs or model.outputs
        )
        self._evaluator = ReferenceEvaluator(str(path))

    @property
    def receipt(self) -> eb.Receipt:
        """What the engine reports about itself, not the requested parameters."""
        return eb.Receipt(engine=f"onnx {onnx.__version__}", device="cpu")

    def execute(self, feed: dict[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Run the model; the outputs are copies, since an output may share an input's memory."""
        return [np.array(value) for value in self._evaluator.run(None, feed)]

    def release(self) -> None:
        """Free the model."""
        del self._evaluator
