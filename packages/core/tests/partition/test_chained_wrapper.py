"""A chain of wrappers has the contract of a single wrapper."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
from enginebay.errors import InferenceError, InputError
from enginebay.partition import ChainedWrapper
from enginebay.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def spec(name: str) -> TensorSpec:
    return TensorSpec(name, "float32", ("n",))


class Engine(eb.Wrapper):
    """Computes with a function, and notes that it was closed."""

    def __init__(
        self, takes: str, gives: str, function: Callable[..., Any], **receipt: Any
    ) -> None:
        super().__init__(inputs=map(spec, takes.split()), outputs=map(spec, gives.split()))  # type: ignore[arg-type]  # read once
        self.function, self.fields, self.closed = function, receipt, 0

    @property
    def receipt(self) -> eb.Receipt:
        return eb.Receipt(device="cpu", engine="numpy", **self.fields)

    def execute(self, feed: dict[str, Any]) -> Sequence[Any]:
        return [np.asarray(y) for y in self.function(*feed.values())]

    def release(self) -> None:
        self.closed += 1
        if "driver" in self.fields:
            raise RuntimeError("cannot be closed")


def chain(*parts: Engine, takes: str = "x", gives: str = "y") -> ChainedWrapper:
    return ChainedWrapper(
        parts, inputs=[spec(n) for n in takes.split()], outputs=[spec(n) for n in gives.split()]
    )


ONES = np.ones(2, np.float32)


def test_each_part_gets_its_own_inputs() -> None:
    first = Engine("x", "a b", lambda x: (x + 1, x * 3))
    second = Engine("z a", "c", lambda z, a: (z * a,))
    third = Engine("b c", "y", lambda b, c: (b - c,))
    whole = chain(first, second, third, takes="x z", gives="y a")
    found = whole({"x": ONES, "z": ONES * 5})
    assert list(found) == ["y", "a"]
    assert found["y"].tolist() == [-7, -7]
    assert found["a"].tolist() == [2, 2]


def test_a_tensor_is_dropped_after_its_last_use() -> None:
    seen: list[weakref.ref[Any]] = []

    def note(x: Any) -> tuple[Any]:
        result = x + 1
        seen.append(weakref.ref(result))
        return (result,)

    def alive(_b: Any) -> tuple[Any]:
        gc.collect()
        return (np.float32([seen[0]() is not None]),)

    first, second = Engine("x", "a", note), Engine("a", "b", lambda a: (a * 2,))
    assert chain(first, second, Engine("b", "y", alive))({"x": ONES})["y"].tolist() == [0]
    seen.clear()
    kept = chain(first, second, Engine("b", "y", alive), gives="y a")({"x": ONES})
    assert kept["y"].tolist() == [1]


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        ("fp32", "fp32", "fp32"),
        ("fp16", "bf16", "bf16"),
        ("bf16", "fp16", "bf16"),
        ("fp16", "int8", "int8"),
        ("fp8", "fp32", "fp8"),
        ("fp8", "of_tomorrow", "of_tomorrow"),
    ],
)
def test_the_receipt_has_the_coarsest_precision(first: str, second: str, whole: str) -> None:
    parts = [
        Engine("x", "a", lambda x: (x,), precision=first),
        Engine("a", "y", lambda x: (x,), precision=second),
    ]
    assert chain(*parts).receipt.precision == whole


def test_the_receipt_has_every_fallback() -> None:
    receipt = chain(
        Engine("x", "a", lambda x: (x,), provider="P"),
        Engine("a", "b", lambda x: (x,), precision="fp16", fallbacks=("no GPU",)),
        Engine("b", "y", lambda x: (x,), fallbacks=("slow", "small")),
    ).receipt
    assert (receipt.engine, receipt.provider, receipt.precision) == ("numpy", "P", "fp16")
    assert receipt.fallbacks == ("part 1: no GPU", "part 2: slow", "part 2: small")


def test_close_closes_every_part_once_even_if_one_raises() -> None:
    parts = [Engine("x", "a", lambda x: (x,)), Engine("a", "y", lambda x: (x,), driver="stuck")]
    whole = chain(*parts)
    with pytest.raises(RuntimeError, match="cannot be closed"):
        whole.close()
    whole.close()
    assert [part.closed for part in parts] == [1, 1]


def test_wrong_inputs_are_refused_before_any_part() -> None:
    whole = chain(Engine("x", "y", lambda x: 1 / 0))
    with pytest.raises(InputError, match="unknown input 'z'"):
        whole({"z": ONES})
    with pytest.raises(InferenceError, match="numpy failed on x float32"):
        whole({"x": ONES})


def test_chain_is_timed_as_one_call_and_by_part() -> None:
    whole = chain(Engine("x", "a", lambda x: (x,)), Engine("a", "y", lambda x: (x,)))
    with whole.time_execution() as timing:
        whole({"x": ONES})
        whole({"x": ONES})
    assert len(timing.seconds) == 2
    assert timing.names == ("engine", "part 0: engine", "part 1: engine")
    assert timing.statistics("part 1: engine").runs == 2
    assert timing.statistics("part 1: engine").max < timing.statistics().max
