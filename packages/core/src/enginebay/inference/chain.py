"""Several engines that run one after the other, behind the contract of one."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.inference.receipt import Receipt, coarseness
from enginebay.inference.wrapper import Wrapper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from enginebay.inference.timing import Timing
    from enginebay.tensors import NumpyArray, TensorSpec


class ChainedWrapper(Wrapper):
    """Runs parts in order; each takes what it needs of the inputs and of earlier parts' outputs.

    Args:
        parts: The wrappers in order, of one backend; the chain owns and closes them.
        inputs: The inputs of the whole.
        outputs: Its outputs, in order.
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
        devices = {part.native_device for part in parts}
        self.native_device = devices.pop() if len(devices) == 1 else None
        super().__init__(inputs=inputs, outputs=outputs)
        self._last_uses = self._find_last_uses()

    def _find_last_uses(self) -> list[list[str]]:
        """List for each part the tensors that no later part needs."""
        last = dict.fromkeys(self.input_names, -1)
        for number, part in enumerate(self._parts):
            last.update(dict.fromkeys((*part.input_names, *part.output_names), number))
        for name in self.output_names:
            last.pop(name, None)
        return [[n for n, at in last.items() if at == i] for i in range(len(self._parts))]

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the parts on the host."""
        return self._through(feed)

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Run the parts where the tensors are."""
        return self._through(feed)

    def _through(self, feed: Mapping[str, Any]) -> list[Any]:
        tensors = dict(feed)
        for part, done in zip(self._parts, self._last_uses, strict=True):
            tensors.update(part({name: tensors[name] for name in part.input_names}))
            for name in done:  # large ones must not pile up
                del tensors[name]
        return [tensors[name] for name in self.output_names]

    @contextmanager
    def _counted_in(self, timing: Timing, prefix: str = "") -> Iterator[None]:
        """Count the whole, and each part under its number."""
        with ExitStack() as stack:
            stack.enter_context(super()._counted_in(timing, prefix))
            for number, part in enumerate(self._parts):
                stack.enter_context(part._counted_in(timing, f"{prefix}part {number}: "))
            yield

    @property
    def receipt(self) -> Receipt:
        """The first part's receipt, with the coarsest precision and the fallbacks of all parts."""
        receipts = [part.receipt for part in self._parts]
        return msgspec.structs.replace(
            receipts[0],
            precision=max((each.precision for each in receipts), key=coarseness),
            fallbacks=tuple(
                f"part {number}: {fallback}"
                for number, each in enumerate(receipts)
                for fallback in each.fallbacks
            ),
        )

    def synchronize(self) -> None:
        """Wait for every part's device."""
        for part in self._parts:
            part.synchronize()

    def release(self) -> None:
        """Close the parts, the last one first; all of them, whatever one raises."""
        with ExitStack() as stack:
            for part in self._parts:
                stack.callback(part.close)
