"""Session options, the profile, and the cache of optimised models."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import enginebay as eb
from enginebay.errors import ConversionError, ParamsError

#: Two constants to fold, so that optimising can be seen in the number of nodes.
FOLDABLE = """(float[n] x) => (float[n] y)
    <float[1] a = {2}, float[1] b = {3}> { c = Mul(a, b)  d = Add(x, c)  y = Identity(d) }"""
ONES = np.ones(2, np.float32)


def test_thread_counts_reach_the_session(load):
    wrapper = load(FOLDABLE, intra_op_threads=1, inter_op_threads=2)
    options = wrapper.session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 2)
    assert options.execution_mode.name == "ORT_PARALLEL"
    assert load(FOLDABLE).session.get_session_options().execution_mode.name == "ORT_SEQUENTIAL"


@pytest.mark.parametrize("field", ["intra_op_threads", "inter_op_threads"])
def test_a_negative_number_of_threads_is_refused(backend, field):
    with pytest.raises(ParamsError, match=f"^-1 does not fit .*{field}: expected int >= 0"):
        backend.Params(**{field: -1})


def test_session_options_reach_the_session(load):
    wrapper = load(FOLDABLE, session_options={"session.set_denormal_as_zero": "1"})
    options = wrapper.session.get_session_options()
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    tiny = np.array([1e-40], np.float32)
    neg = "(float[n] x) => (float[n] y) { y = Neg(x) }"
    assert load(neg)({"x": tiny})["y"] < 0


@pytest.mark.parametrize(
    ("level", "nodes"), [("disable", 3), ("basic", 1), ("extended", 1), ("all", 1)]
)
def test_the_optimization_level_changes_the_graph(load, tmp_path, level, nodes):
    import onnx

    wrapper = load(FOLDABLE, graph_optimization=level, optimized_cache=str(tmp_path / "cache"))
    assert wrapper({"x": ONES})["y"].tolist() == [7, 7]
    (model,) = (tmp_path / "cache").glob("*/model.onnx")
    assert len(onnx.load(model).graph.node) == nodes


def test_a_profile_is_written_and_named(load, tmp_path, caplog):
    prefix = tmp_path / "profiles" / "run"
    wrapper = load(FOLDABLE, profile=str(prefix))
    wrapper({"x": ONES})
    with caplog.at_level(logging.INFO, "enginebay.onnxruntime"):
        wrapper.close()
    file = Path(wrapper.receipt.details["profile"])
    assert file in prefix.parent.iterdir()
    assert caplog.messages == [f"ONNX Runtime wrote its profile to '{file}'"]
    assert any(event.get("cat") == "Node" for event in json.loads(file.read_text()))


# -- optimisations that are wrong ----------------------------------------------------------------

#: Zeros around a plane of negative numbers, before a MaxPool.
PADDED = """(float[1,1,4,4] x) => (float[1,1,3,3] y) <int64[8] pads = {0,0,1,1,0,0,1,1}>
    { p = Pad(x, pads)  y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(p) }"""
NEGATIVE = -np.ones((1, 1, 4, 4), np.float32)


def test_padding_before_a_max_pool_stays_zero(load, tmp_path):
    expected = [[[[0, 0, 0], [0, -1, 0], [0, 0, 0]]]]
    cache = {"optimized_cache": str(tmp_path / "cache")}
    for params in ({}, {"graph_optimization": "basic"}, {"precision": "fp16"}, cache, cache):
        assert load(PADDED, **params)({"x": NEGATIVE})["y"].tolist() == expected


#: A layer between the steps of two fake quantisations.
FAKE_QUANTISED = """(float[1,2] x) => (float[1,2] y)
    <float scale = {0.1}, uint8 zero = {128}, float[2,2] w = {0.3, -0.007, 0.011, 1.0},
     float[2] b = {0.0123, 0.0456}>
    { p = QuantizeLinear(x, scale, zero)  q = DequantizeLinear(p, scale, zero)
      r = Gemm(q, w, b)
      s = QuantizeLinear(r, scale, zero)  y = DequantizeLinear(s, scale, zero) }"""


def test_weights_beside_a_fake_quantisation_stay_floats(load):
    steps = np.float32([[-12.7, 12.7], [3.3, -7.1], [9.9, 12.5], [-4.7, 0.7]])
    weights, bias = np.float32([[0.3, -0.007], [0.011, 1.0]]), np.float32([0.0123, 0.0456])
    wrapper = load(FAKE_QUANTISED)
    for row in steps:
        expected = np.round((row @ weights + bias) / 0.1) * 0.1
        assert wrapper({"x": row[None]})["y"][0] == pytest.approx(expected.clip(-12.8, 12.7), 1e-5)


def test_an_optimisation_is_disabled_only_for_models_it_breaks(load):
    key = "optimization.disable_specified_optimizers"
    for text, disabled in [
        (PADDED, "Pad_Fusion"),
        (FAKE_QUANTISED, "WeightBiasQuantization"),
        (FOLDABLE, ""),
    ]:
        options = load(text).session.get_session_options()
        assert (options.get_session_config_entry(key) if disabled else "") == disabled
    given = load(PADDED, session_options={key: "GemmActivationFusion"}).session
    assert given.get_session_options().get_session_config_entry(key) == "GemmActivationFusion"


# -- the cache of optimised models ---------------------------------------------------------------


class Cache:
    """A cache folder of optimised models, used without the load that `convert` makes."""

    def __init__(self, backend, write, tmp_path):
        self.folder = tmp_path / "cache"
        self._backend, self._write, self._made = backend, write, tmp_path / "made"

    def use(self, text=FOLDABLE, **params):
        """Load, check the numbers, and return the cache's entry in the receipt."""
        given = {"work_dir": str(self._made), "optimized_cache": str(self.folder), **params}
        self._backend.to_backend(self._write(text), **given)
        with self._backend.build_wrapper(**given) as wrapper:
            assert wrapper({"x": ONES})["y"].tolist() == [7, 7]
            return wrapper.receipt.details["optimized_cache"]

    @property
    def entries(self):
        return sorted(self.folder.iterdir())


@pytest.fixture
def cache(backend, write, tmp_path):
    return Cache(backend, write, tmp_path)


def test_the_second_load_uses_the_cache(cache):
    assert cache.use() == "written"
    assert cache.use() == "hit"
    assert len(cache.entries) == 1


@pytest.mark.parametrize(
    "params",
    [
        {"graph_optimization": "basic"},
        {"session_options": {"session.disable_prepacking": "1"}},
        {"providers": ["CPUExecutionProvider"], "device": "cpu", "precision": "fp16"},
    ],
)
def test_other_parameters_get_their_own_cache_entry(cache, params):
    assert cache.use() == "written"
    assert cache.use(**params) == "written"
    assert cache.use(**params) == cache.use() == "hit"


def test_another_model_gets_its_own_cache_entry(cache):
    assert cache.use() == "written"
    assert cache.use(FOLDABLE.replace("{2}", "{3}").replace("b = {3}", "b = {2}")) == "written"


def test_changed_external_weights_get_their_own_cache_entry(write, tmp_path):
    import onnx

    folder = tmp_path / "external"
    folder.mkdir()
    path = folder / "model.onnx"
    for value, entries in [(1.0, 1), (2.0, 2), (2.0, 2), (1.0, 2)]:
        model = onnx.load(
            write("(float[n] x) => (float[n] y) <float[1] c = {0}> { y = Add(x, c) }")
        )
        weights = np.full(1, value, np.float32)
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "c"))
        for file in folder.iterdir():
            file.unlink()
        onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
        artifact = eb.convert(
            path,
            backend="onnxruntime",
            work_dir=tmp_path / "artifact",
            params={"optimized_cache": str(tmp_path / "cache")},
            overwrite=True,
        )
        assert len(list((tmp_path / "cache").iterdir())) == entries
        with eb.load(artifact) as wrapper:
            assert wrapper({"x": ONES})["y"].tolist() == [1 + value] * 2


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "remove", "no digest"])
def test_a_damaged_entry_is_written_again(cache, damage):
    cache.use()
    (entry,) = cache.entries
    model = entry / "model.onnx"
    content = model.read_bytes()
    if damage == "truncate":
        model.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        model.write_bytes(b"")
    elif damage == "flip":
        model.write_bytes(content.replace(np.float32(6).tobytes(), np.float32(7).tobytes()))
        assert model.read_bytes() != content
    elif damage == "remove":
        model.unlink()
    else:
        (entry / "sha256").unlink()
    assert cache.use() == "written"
    assert model.read_bytes() == content
    assert cache.use() == "hit"
    assert cache.entries == [entry]


def test_cached_weights_are_stored_outside_the_model(backend, tmp_path):
    import onnx

    weights = np.arange(4096, dtype=np.float32)
    graph = onnx.parser.parse_graph("g (float[4096] x) => (float[4096] y) { y = Add(x, w) }")
    graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    opset = onnx.helper.make_opsetid("", 21)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), tmp_path / "model.onnx"
    )
    x = np.ones(4096, np.float32)
    for found in ("written", "hit"):
        with backend.build_wrapper(
            work_dir=str(tmp_path), optimized_cache=str(tmp_path / "c")
        ) as w:
            assert w.receipt.details["optimized_cache"] == found
            np.testing.assert_array_equal(w({"x": x})["y"], x + weights)
    (entry,) = (tmp_path / "c").iterdir()
    assert (entry / "model.onnx.data").stat().st_size >= weights.nbytes
    (entry / "model.onnx.data").write_bytes(b"damaged")
    with backend.build_wrapper(work_dir=str(tmp_path), optimized_cache=str(tmp_path / "c")) as w:
        assert w.receipt.details["optimized_cache"] == "written"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_network_that_computes_shapes_is_cached(tmp_path, precision):
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.head = nn.Linear(8, 64)

        def forward(self, x):
            x = self.conv(x).relu()
            return self.head(x.reshape(x.shape[0], 8, -1).amax(-1)).softmax(-1)

    artifact = eb.deploy(
        Net().eval(),
        torch.randn(2, 3, 8, 8),
        backend="onnxruntime",
        work_dir=tmp_path / "net",
        params={"optimized_cache": str(tmp_path / "cache"), "precision": precision},
        dynamic={"x": {0: "batch"}},
    ).artifact
    with eb.load(artifact) as wrapper:
        assert wrapper.receipt.details["optimized_cache"] == "hit"
    assert eb.verify(artifact).verdict == "verified"


def test_an_entry_that_does_not_load_is_written_again(cache, caplog):
    from enginebay_onnxruntime.cache import digest_files

    cache.use()
    (entry,) = cache.entries
    (entry / "model.onnx").write_bytes(b"whole, and no model")
    files = sorted(path for path in entry.iterdir() if path.name != "sha256")
    (entry / "sha256").write_text(digest_files(files))
    assert cache.use() == "written"
    assert caplog.messages[0].startswith(f"the optimised model in '{entry}' cannot be loaded")


def test_concurrent_writers_leave_one_cache_entry(cache, write, backend, tmp_path):
    write(FOLDABLE)
    start = threading.Barrier(6)
    found = []

    def load():
        start.wait()
        with backend.build_wrapper(
            work_dir=str(tmp_path), optimized_cache=str(cache.folder)
        ) as wrapper:
            found.append(wrapper({"x": ONES})["y"].tolist())

    threads = [threading.Thread(target=load) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[7, 7]] * 6
    assert len(cache.entries) == 1


def test_a_failed_load_leaves_nothing_in_the_cache(backend, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ConversionError):
        backend.build_wrapper(work_dir=str(tmp_path), optimized_cache=str(tmp_path / "cache"))
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_cache_is_refused(cache, tmp_path):
    tmp_path.joinpath("cache").mkdir(mode=0o500)
    with pytest.raises(ConversionError, match="Permission denied"):
        cache.use()


def test_a_file_that_is_not_valid_is_refused_without_codes_and_paths(backend, write):
    model = write("(float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }")
    with pytest.raises(ConversionError) as raised:
        backend.build_wrapper(work_dir=str(model.parent))
    assert str(raised.value) == (
        "ONNX Runtime cannot load 'model.onnx': Type Error: Type parameter (T) of Optype (Add) "
        "bound to different types (tensor(float) and tensor(int64) in node ()."
    )


def test_a_locale_that_the_machine_lacks_is_named(backend, write):
    attributes = 'case_change_action = "LOWER", locale = "xx_XX"'
    model = write(f"(string[n] x) => (string[m] y) {{ y = StringNormalizer<{attributes}>(x) }}")
    with pytest.raises(ConversionError) as raised:
        backend.build_wrapper(work_dir=str(model.parent))
    assert str(raised.value) == (
        "ONNX Runtime cannot load 'model.onnx': StringNormalizer requires the locale xx_XX, which "
        "this machine lacks"
    )
    assert raised.value.hint == (
        "apt-get install locales-all; or export the model with the locale C: "
        "options={id(vectorizer): {'locale': 'C'}}"
    )
