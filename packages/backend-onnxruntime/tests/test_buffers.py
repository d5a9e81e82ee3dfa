"""Fixed addresses, for CUDA graphs and reused outputs: a GPU in ``nox -s gpu``, else the CPU.

The CPU's provider captures no graph. It runs the same bindings, so everything but the graph is
tested there.
"""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch

from enginebay.errors import ConversionError, FallbackError, InferenceError
from enginebay_onnxruntime.buffers import MOST_SIZES, BufferedWrapper, check_buffered

ON_GPU = os.environ.get("ENGINEBAY_GPU") == "onnxruntime"
DEVICE = "cuda" if ON_GPU else "cpu"
TWO = (
    "(float[a, b] x, float[a, b] z) => (float[a, b] sum, float[b, a] turned)"
    " { sum = Add(x, z)  turned = Transpose(x) }"
)
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="captures a graph: nox -s gpu_onnxruntime")


@pytest.fixture
def load(write, backend):
    """Load a model in ONNX's text format."""
    wrappers = []

    def load(text, **params):
        model = write(text)
        wrappers.append(backend.build_wrapper(work_dir=str(model.parent), **params))
        return wrappers[-1]

    yield load
    for wrapper in wrappers:
        wrapper.close()


@pytest.fixture
def load_buffered(load):
    """Load a model in ONNX's text format, with buffers for its inputs and outputs."""

    def load_buffered(text, **options):
        options.setdefault("graph", True)
        params = {"cuda_graph": True} if ON_GPU and options["graph"] else {}
        wrapper = load(text, device=DEVICE, **params)
        return BufferedWrapper(
            wrapper.session,
            receipt=wrapper.receipt,
            inputs=wrapper.inputs,
            outputs=wrapper.outputs,
            native_device=DEVICE,
            **options,
        )

    return load_buffered


def tensors(*shape):
    """Two tensors on the device, and their names."""
    return {name: torch.randn(*shape, device=DEVICE) for name in ("x", "z")}


def check_two(wrapper, feed):
    """Compare a call with torch."""
    out = wrapper(feed)
    assert torch.equal(torch.as_tensor(out["sum"]), torch.as_tensor(feed["x"] + feed["z"]))
    assert torch.equal(torch.as_tensor(out["turned"]), torch.as_tensor(feed["x"].T))
    return out


def test_inputs_of_changing_values_sizes_and_strides(load_buffered):
    wrapper = load_buffered(TWO)
    for shape in [(3, 4), (3, 4), (1, 7), (3, 4), (0, 2), (1, 7), (1, 1)]:
        check_two(wrapper, tensors(*shape))
    wide = torch.randn(9, 8, device=DEVICE)
    check_two(wrapper, {"x": wide[::3, :4], "z": wide.T[:3, ::2][:, :4]})


def test_arrays_and_tensors_in_turns(load_buffered):
    wrapper = load_buffered(TWO)
    for _ in range(3):
        feed = tensors(2, 3)
        check_two(wrapper, feed)
        out = check_two(wrapper, {name: value.cpu().numpy() for name, value in feed.items()})
        assert isinstance(out["sum"], np.ndarray)
        check_two(wrapper, {name: value.T.cpu().numpy() for name, value in feed.items()})


def test_more_sizes_than_are_kept(load_buffered):
    wrapper = load_buffered(TWO)
    for size in [*range(1, MOST_SIZES + 4), 1, MOST_SIZES + 2, 2]:
        check_two(wrapper, tensors(size, 2))


@pytest.mark.parametrize("convert", [lambda tensor: tensor, lambda tensor: tensor.cpu().numpy()])
def test_returned_outputs_never_change(load_buffered, convert):
    wrapper = load_buffered(TWO)
    feed = {name: convert(tensor) for name, tensor in tensors(3, 4).items()}
    first = wrapper(feed)
    expected = {name: convert(torch.as_tensor(value)).tolist() for name, value in first.items()}
    for _ in range(3):
        wrapper({name: convert(tensor) for name, tensor in tensors(3, 4).items()})
    assert {name: value.tolist() for name, value in first.items()} == expected


@pytest.mark.parametrize("graph", [False, True])
def test_reused_outputs_keep_their_memory(load_buffered, graph):
    wrapper = load_buffered(TWO, graph=graph, reuse_outputs=True)
    first = check_two(wrapper, tensors(3, 4))["sum"]
    other = check_two(wrapper, tensors(5, 4))["sum"]
    feed = tensors(3, 4)
    again = check_two(wrapper, feed)["sum"]
    assert first.data_ptr() == again.data_ptr() != other.data_ptr()
    assert torch.equal(first, feed["x"] + feed["z"])
    arrays = {name: value.cpu().numpy() for name, value in feed.items()}
    kept = wrapper(arrays)["sum"]
    wrapper({name: value + 1 for name, value in arrays.items()})
    assert np.array_equal(kept, arrays["x"] + arrays["z"])


def test_two_wrappers_and_threads(load_buffered):
    wrappers = [load_buffered(TWO), load_buffered(TWO)]
    faults = []

    def call(number):
        try:
            stream = torch.cuda.Stream() if ON_GPU else None
            with torch.cuda.stream(stream):
                for turn in range(20):
                    check_two(wrappers[(number + turn) % 2], tensors(2 + turn % 2, 3))
        except BaseException as err:
            faults.append(err)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_dtypes_and_scalars(load_buffered):
    wrapper = load_buffered("(bool[n] x, float16[] z) => (bool[n] y, float16[] w)"
                            " { y = Not(x)  w = Neg(z) }")  # fmt: skip
    for values in ([True, False], [False, False]):
        x, z = torch.tensor(values, device=DEVICE), torch.tensor(2, device=DEVICE).half()
        out = wrapper({"x": x, "z": z})
        assert out["y"].tolist() == [not value for value in values]
        assert out["w"].item() == -2
        assert wrapper({"x": x.cpu().numpy(), "z": z.cpu().numpy()})["y"].dtype == bool


def test_a_model_without_inputs(load_buffered):
    wrapper = load_buffered(
        "() => (float[2] y) { c = Constant<value = float[2] {1, 2}>()  y = Neg(c) }"
    )
    first = wrapper({})["y"]
    first[:] = 9
    assert wrapper({})["y"].tolist() == [-1, -2]


def test_a_failed_run_says_what_to_leave_out_and_is_forgotten(load_buffered):
    if ON_GPU:
        pytest.skip("CUDA's kernels do not check indices")
    text = "(float[4] x, int64[k] i) => (float[k] y) { y = Gather(x, i) }"
    wrapper = load_buffered(text)
    x = torch.ones(4)
    with pytest.raises(InferenceError) as raised:
        wrapper({"x": x, "i": torch.tensor([9])})
    message = str(raised.value)
    assert message.startswith(
        "ONNX Runtime cannot run the model as a CUDA graph on x [4], i [1]: Error in execution"
    )
    assert raised.value.hint.startswith("leave out --cuda-graph: ")
    assert wrapper({"x": x, "i": torch.tensor([3])})["y"].tolist() == [1]
    with pytest.raises(InferenceError, match=r"failed on x torch\.float32\(4,\)"):
        load_buffered(text, graph=False)({"x": x, "i": torch.tensor([9])})


def test_closing_frees_the_buffers_and_outputs_outlive_them(load_buffered):
    wrapper = load_buffered(TWO, reuse_outputs=True)
    feed = tensors(3, 4)
    out = wrapper(feed)["sum"]
    wrapper.close()
    assert torch.equal(out, feed["x"] + feed["z"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(string[n] x) => (string[n] y) { y = Identity(x) }", "'x' is of string"),
        ("(uint64[n] x) => (uint64[n] y) { y = Identity(x) }", "'x' is of uint64"),
        ("(float[n] x) => (float[n] x, float[n] y) { y = Neg(x) }", "the output 'x' is an input"),
    ],
)
def test_a_model_without_addresses_of_its_own_is_refused(load, text, reason):
    wrapper = load(text)
    with pytest.raises(ConversionError) as raised:
        check_buffered(wrapper.inputs, wrapper.outputs)
    assert f"cannot be used for this model: {reason}" in str(raised.value)
    assert raised.value.hint == "leave out --cuda-graph and --reuse-outputs"


@needs_gpu
def test_a_graph_of_a_loaded_model(load):
    with load(TWO, device="cuda", cuda_graph=True) as wrapper:
        assert isinstance(wrapper, BufferedWrapper)
        assert wrapper.receipt.details["cuda_graph"]
        for _ in range(5):
            check_two(wrapper, tensors(3, 4))


@needs_gpu
@pytest.mark.parametrize(
    "text",
    [
        "(float[a, b] x) => (int64[2, m] y) { y = NonZero(x) }",
        "(float[2, 2] x) => (float y) { y = Det(x) }",  # runs on the CPU
    ],
)
def test_a_model_that_is_no_graph_is_refused_with_the_hint(load, text):
    with pytest.raises((ConversionError, InferenceError)) as raised:
        load(text, device="cuda", cuda_graph=True)({"x": torch.ones(2, 2, device="cuda")})
    assert "CUDA graph" in str(raised.value)
    assert "leave out --cuda-graph" in raised.value.hint


@needs_gpu
def test_reused_outputs_of_a_loaded_model(load):
    with load(TWO, device="cuda", reuse_outputs=True) as wrapper:
        feed = tensors(3, 4)
        addresses = {check_two(wrapper, feed)["sum"].data_ptr() for _ in range(3)}
    assert len(addresses) == 1


@pytest.mark.skipif(ON_GPU, reason="the machine has CUDA")
@pytest.mark.parametrize("name", ["cuda_graph", "reuse_outputs"])
def test_a_machine_without_cuda_is_named(load, name):
    with pytest.raises(FallbackError, match="'cuda' was requested, but onnxruntime"):
        load(TWO, device="cuda", **{name: True})
