"""Wrapper of a model that was cut into parts: the parts' engines run one after the other."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from enginebay.inference import Receipt, Wrapper, coarseness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from enginebay.inference import Timing
    from enginebay.tensors import Array, NumpyArray, TensorSpec

_A = TypeVar("_A", bound="Array")


class ChainedWrapper(Wrapper):
    """Runs the parts of a model in order, each on inputs of the model or outputs of earlier parts.

    Args:
        parts: The wrappers of the parts, in order, all of one backend; :meth:`close` closes them.
        inputs: The inputs of the whole model.
        outputs: The outputs of the whole model, in order.
    """

    def __init__(
        self,
        parts: Sequence[Wrapper],
        *,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> None:
        self._parts = tuple(parts)
        self.concurrent = all(part.concurrent for part in parts)
        # Parts with different devices pass their tensors through the host.
        devices = {part.native_device for part in parts}
        self.native_device = devices.pop() if len(devices) == 1 else None
        super().__init__(inputs=inputs, outputs=outputs)
        self._last_uses = self._find_last_uses()

    def _find_last_uses(self) -> list[list[str]]:
        """Return for each part the names of the tensors that can be deleted after the part ran."""
        last_part = dict.fromkeys(self.input_names, -1)
        for number, part in enumerate(self._parts):
            last_part.update(dict.fromkeys((*part.input_names, *part.output_names), number))
        for name in self.output_names:
            last_part.pop(name, None)
        return [
            [name for name, last in last_part.items() if last == number]
            for number in range(len(self._parts))
        ]

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the parts on NumPy arrays, and return the outputs of the whole model."""
        return self._run_parts(feed)

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Run the parts on torch tensors, and return the outputs of the whole model."""
        return self._run_parts(feed)

    def _run_parts(self, feed: Mapping[str, _A]) -> list[_A]:
        tensors = dict(feed)
        for part, unused in zip(self._parts, self._last_uses, strict=True):
            tensors.update(part({name: tensors[name] for name in part.input_names}))
            for name in unused:  # large tensors between the parts must not add up in memory
                del tensors[name]
        return [tensors[name] for name in self.output_names]

    @contextmanager
    def _count_calls(self, timing: Timing, prefix: str = "") -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(super()._count_calls(timing, prefix))
            for number, part in enumerate(self._parts):
                stack.enter_context(part._count_calls(timing, f"{prefix}part {number}: "))
            yield

    @property
    def receipt(self) -> Receipt:
        """The effective settings of the first part, but the coarsest precision of all parts.

        The fallbacks of all parts are listed, each with the number of its part.
        """
        receipts = [part.receipt for part in self._parts]
        return msgspec.structs.replace(
            receipts[0],
            # The tolerance of the whole model must allow for its coarsest part.
            precision=max((receipt.precision for receipt in receipts), key=coarseness),
            fallbacks=tuple(
                f"part {number}: {fallback}"
                for number, receipt in enumerate(receipts)
                for fallback in receipt.fallbacks
            ),
        )

    def synchronize(self) -> None:
        """Wait until the devices of all parts have finished."""
        for part in self._parts:
            part.synchronize()

    def release(self) -> None:
        """Close all parts in reverse order, even if one of them raises."""
        with ExitStack() as stack:
            for part in self._parts:
                stack.callback(part.close)
