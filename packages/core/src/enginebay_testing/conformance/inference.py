"""Conformance tests of inference: a call returns tensors, and has no side effects."""

from __future__ import annotations

import gc
import math
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
from enginebay.authors.arrays import to_numpy
from enginebay.authors.artifacts import load_request
from enginebay.errors import InferenceError, InputError, UsageError
from enginebay_testing.conformance.kit import ALSO_PASSES, compare, error_of, expect

if TYPE_CHECKING:
    from enginebay.authors.arrays import NumpyArray
    from enginebay_testing.conformance.kit import Kit

_DTYPES = (
    *("float16", "float32", "float64", "bfloat16", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)

#: Linux's file with the memory of a process; its second number counts the resident pages.
_STATM = Path("/proc/self/statm")

#: The limits after 300 calls: a tenth of a MiB, of a file and of a thread for each call.
_GROWTH = {"KiB": 30 << 10, "files": 30, "threads": 30}


class InferenceLaws:
    """Conformance tests: a wrapper returns tensors, and a call has no side effects."""

    def test_names_and_order_are_the_models(self, kit: Kit) -> None:
        """Inputs and outputs have the model's names and order, including unused inputs."""
        wrapper = kit.wrapper("names")
        expect("inputs", wrapper.input_names, ("second", "unused", "first"))
        expect("outputs", wrapper.output_names, ("zulu", "alpha", "mike"))
        # The order in which the caller passes the inputs must not matter.
        kit.check("names", wrapper, dict(reversed(kit.example("names").arrays().items())))

    @pytest.mark.parametrize("dtype", _DTYPES)
    def test_every_dtype_comes_back_as_it_went_in(self, kit: Kit, dtype: str) -> None:
        """Values of each dtype are returned unchanged; NaN and extreme values may be refused."""
        if dtype not in kit.backend.info.dtypes and dtype in kit.passing_dtypes(_DTYPES):
            kit.skip(f"the backend lists no {dtype} among its dtypes, {ALSO_PASSES}")
        kit.require_dtypes(dtype)
        example, wrapper = kit.example(f"twice:{dtype}"), kit.wrapper(f"twice:{dtype}")
        kit.check(f"twice:{dtype}", wrapper, example.arrays())
        output = wrapper(example.inputs)["output"]
        expected = example.module(**example.inputs)
        assert output.dtype == expected.dtype, f"expected {expected.dtype}, found {output.dtype}"
        assert (output == expected).all(), f"expected {expected}, found {output}"
        extremes = {"x": _extreme_values(dtype)}
        # An engine may refuse NaN and the largest values, but not change them.
        with suppress(InputError, InferenceError):
            kit.check(f"twice:{dtype}", wrapper, extremes)

    @pytest.mark.parametrize("size", [1, 2, 7, 8])
    def test_an_open_dimension_takes_any_size(self, kit: Kit, size: int) -> None:
        """A dynamic dimension accepts every size in its range."""
        kit.require_dynamic_shapes()
        rng = np.random.default_rng(size)
        inputs = {name: rng.standard_normal((size, 3), np.float32) for name in "xz"}
        kit.check("pair", kit.wrapper("pair"), inputs)

    def test_an_open_dimension_may_be_empty(self, kit: Kit) -> None:
        """A dynamic dimension whose range starts at zero accepts zero, and then other sizes."""
        kit.require_dynamic_shapes()
        wrapper = kit.wrapper("pair:empty")
        for size in (0, 3):
            inputs = {name: np.ones((size, 3), np.float32) for name in "xz"}
            kit.check("pair:empty", wrapper, inputs)

    def test_scalars_go_in_and_come_out(self, kit: Kit) -> None:
        """A model accepts a scalar (a tensor without dimensions) and returns a scalar."""
        kit.check("scalar", kit.wrapper("scalar"), {"x": np.array(2.5, np.float32)})

    def test_any_strides_will_do(self, kit: Kit) -> None:
        """Inputs may be transposed, reversed, sliced, broadcast or read-only."""
        wrapper = kit.wrapper("pair")
        for kind, x in _make_views().items():
            for z in (np.ones((2, 3), np.float32), x):
                try:
                    kit.check("pair", wrapper, {"x": x, "z": z})
                except (AssertionError, InferenceError) as err:
                    raise AssertionError(f"with an input that is {kind}: {err}") from err
        # Also a larger input: NumPy does not release the memory of small arrays at once, which
        # hides an engine that reads an array after it was freed.
        image = kit.example("convolutions").arrays()["image"]
        image = np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 1, -1)), -1, 1)
        try:
            kit.check("convolutions", kit.wrapper("convolutions"), {"image": image})
        except (AssertionError, InferenceError) as err:
            raise AssertionError(f"with an image in channels-last layout: {err}") from err

    def test_torch_in_torch_out(self, kit: Kit) -> None:
        """Torch tensors of any strides give tensors on the same device; arrays give arrays."""
        import torch

        wrapper, example = kit.wrapper("pair"), kit.example("pair")
        tensors = {name: x.T.contiguous().T for name, x in example.inputs.items()}
        outputs = wrapper(tensors)
        expect("types for tensors", {type(y) for y in outputs.values()}, {torch.Tensor})
        expect("devices for tensors", {y.device.type for y in outputs.values()}, {"cpu"})
        expected = example.run(example.arrays())
        compare(expected, outputs, precision=wrapper.receipt.precision)
        types = {type(y) for y in wrapper(example.arrays()).values()}
        expect("types for arrays", types, {np.ndarray})

    def test_what_was_returned_never_changes(self, kit: Kit) -> None:
        """Later calls do not change an earlier output, and the caller may write to the output."""
        wrapper, example = kit.wrapper("pair"), kit.example("pair")
        inputs = example.arrays()
        first = wrapper(inputs)
        copies = {name: value.copy() for name, value in first.items()}
        for number in range(3):
            wrapper({name: np.full_like(value, number) for name, value in inputs.items()})
        for name, value in first.items():
            assert np.array_equal(value, copies[name]), f"output '{name}' has changed"
            value[...] = -1
        kit.check("pair", wrapper, inputs)

    def test_outputs_share_no_memory(self, kit: Kit) -> None:
        """No output shares memory with an input or with another output."""
        inputs = kit.example("pair").arrays()
        outputs = kit.wrapper("pair")(inputs)
        arrays = {**inputs, **{f"output {name}": value for name, value in outputs.items()}}
        for name in outputs:
            for other, array in arrays.items():
                if other != f"output {name}":
                    shared = np.shares_memory(outputs[name], array)
                    assert not shared, f"output '{name}' shares its memory with {other}"

    def test_calls_keep_no_memory(self, kit: Kit) -> None:
        """After 50 calls, 300 further calls do not accumulate memory, open files or threads."""
        if not _STATM.exists():
            kit.skip("this system does not report the memory of a process")
        wrapper, inputs = kit.wrapper("fixed"), kit.example("fixed").arrays()
        # What earlier tests have left open is not this wrapper's.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        sizes = []
        # Measured after 50 calls, which may fill caches, and after 300 more.
        for calls in (50, 300):
            for _ in range(calls):
                wrapper(inputs)
            gc.collect()
            memory = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10
            counts = (len(list(_STATM.with_name(name).iterdir())) for name in ("fd", "task"))
            sizes.append((memory, *counts))
        for kind, limit, before, after in zip(_GROWTH, _GROWTH.values(), *sizes, strict=True):
            assert after - before < limit, f"300 calls have left {after - before} {kind}"

    def test_two_wrappers_at_once(self, kit: Kit) -> None:
        """Several wrappers of one artifact or of different artifacts do not affect each other."""
        others = kit.wrapper("pair"), kit.wrapper("names")
        with eb.load(kit.artifact("pair")) as second:
            for number in range(3):
                x = {name: np.full((2, 3), number, np.float32) for name in "xz"}
                kit.check("pair", second, x)
                kit.check("pair", others[0], {name: value + 1 for name, value in x.items()})
                kit.check("names", others[1], kit.example("names").arrays())
        kit.check("pair", others[0], kit.example("pair").arrays())

    def test_calls_may_overlap(self, kit: Kit) -> None:
        """A wrapper returns correct outputs for simultaneous calls from several threads."""
        # Also large arrays: threads seldom meet while they copy a few numbers.
        for model, shape, calls in (("pair", (2, 3), 200), ("large", (512, 1024), 64)):
            wrapper = kit.wrapper(model)

            def call(
                number: int, wrapper: eb.Wrapper = wrapper, shape: tuple[int, int] = shape
            ) -> bool:
                # Different inputs: the outputs of a simultaneous call would be wrong.
                x = np.full(shape, number % 17, np.float32)
                outputs = wrapper(dict.fromkeys(wrapper.input_names, x))
                return all((outputs[name] == x * _FACTORS[name]).all() for name in outputs)

            interval = sys.getswitchinterval()
            sys.setswitchinterval(1e-5)
            try:
                with ThreadPoolExecutor(8) as pool:
                    correct = list(pool.map(call, range(calls)))
            finally:
                sys.setswitchinterval(interval)
            wrong = correct.count(False)
            assert not wrong, f"expected no wrong numbers, found them in {wrong} of {calls} calls"

    @pytest.mark.parametrize("wrong", ["missing", "extra", "dtype", "rank", "size"])
    def test_wrong_inputs_never_reach_the_engine(
        self, kit: Kit, wrong: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Missing or extra inputs, wrong dtypes and wrong shapes never reach the engine."""
        wrapper = kit.wrapper("pair")
        called: list[object] = []
        monkeypatch.setattr(wrapper, "execute", called.append)
        monkeypatch.setattr(wrapper, "execute_torch", called.append)
        inputs = _wrong_inputs(wrong)
        error = error_of(InputError, lambda: wrapper(inputs), f"an input with a wrong {wrong}")
        assert not called, "the engine was called"
        named = any(f"'{name}'" in str(error) for name in ("x", "z", "extra"))
        assert named, f"expected an error that names the input, found {error}"

    def test_the_receipt_says_what_runs(self, kit: Kit) -> None:
        """The receipt names the engine, and a device and a precision that the backend lists."""
        receipt, info = kit.wrapper("fixed").receipt, kit.backend.info
        assert receipt.engine, "expected the engine's name and version, found ''"
        for field, kind, listed in (
            ("device", receipt.device.partition(":")[0], info.devices),
            ("precision", receipt.precision, info.precisions),
        ):
            assert kind in listed, f"expected a {field} of {', '.join(listed)}, found '{kind}'"

    def test_timed_layers_are_told_apart(self, kit: Kit) -> None:
        """The layers that ``time_layers`` returns have unique names and a positive total time."""
        request = load_request(kit.artifact("convolutions"))
        try:
            layers = request.time_layers(kit.example("convolutions").arrays(), 3)
        except UsageError as err:
            kit.skip(str(err))
        names = [layer.name for layer in layers]
        assert len(set(names)) == len(names), f"two layers have the same name: {names}"
        assert sum(layer.seconds for layer in layers) > 0, "the layers take no time"


def _extreme_values(name: str) -> NumpyArray:
    """Return a 2×3 array of a dtype's largest and special values, which a cast would change."""
    import torch

    dtype = getattr(torch, name)
    if name == "bool":
        values: list[Any] = [True, False, True]
    elif dtype.is_floating_point:
        values = [math.nan, -math.inf, torch.finfo(dtype).max]
    else:
        info = torch.iinfo(dtype)
        values = [info.min, info.max, info.max // 2]
    return to_numpy(torch.tensor([values, values[::-1]], dtype=dtype))


_FACTORS = {"sum": 2, "scaled": 2, "same": 1, "output": 3}


def _make_views() -> dict[str, NumpyArray]:
    """Return arrays of shape 2×3 with every kind of strides; each key describes the array."""
    base = np.random.default_rng(0).standard_normal((12, 12), np.float32)
    frozen = base[:2, :3].copy()
    frozen.flags.writeable = False
    return {
        "transposed": base[:3, :2].T,
        "reversed": base[1::-1, 2::-1],
        "every other element": base[:4:2, :6:2],
        "turned and reversed": base[4::-2, :2].T,
        "broadcast": np.broadcast_to(base[0, :3], (2, 3)),
        "one number": np.broadcast_to(np.float32(0.5), (2, 3)),
        "read-only": frozen,
        "not aligned": _copy_unaligned(frozen),
    }


def _copy_unaligned(array: NumpyArray) -> NumpyArray:
    memory = np.frombuffer(b"\0" + array.tobytes(), np.uint8)
    return memory[1:].view(array.dtype).reshape(array.shape)


def _wrong_inputs(wrong: str) -> dict[str, NumpyArray]:
    x = np.ones((2, 3), np.float32)
    cases: dict[str, dict[str, NumpyArray]] = {
        "missing": {"x": x},
        "extra": {"x": x, "z": x, "extra": x},
        "dtype": {"x": x, "z": x.astype(np.float64)},
        "rank": {"x": x, "z": x[0]},
        "size": {"x": x, "z": np.ones((2, 4), np.float32)},
    }
    return cases[wrong]
