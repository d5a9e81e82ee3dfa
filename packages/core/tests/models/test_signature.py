from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from packages.core.tests.exports import export
from torch import nn

from enginebay.errors import InputError, ModelError
from enginebay.exporters.flat_model import FlatModel
from enginebay.models import bind
from enginebay.models.signature import read_signature
from enginebay.sources import find_model

X = torch.arange(6.0).reshape(2, 3)
Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    """An output like those of transformers, not registered with pytree."""

    logits: torch.Tensor
    hidden_states: tuple | None = None
    loss: torch.Tensor | None = None


class Net(nn.Module):
    """A module around a function; ``forward`` has the function's parameters."""

    def __init__(self, function) -> None:
        super().__init__()
        self.forward = function


def names(function, args, **options) -> tuple[list[str], list[str]]:
    signature = read_signature(Net(function), args, **options)
    return [spec.name for spec in signature.inputs], [spec.name for spec in signature.outputs]


@pytest.mark.parametrize(
    ("function", "args", "inputs"),
    [
        (lambda x: x + 1, X, ["x"]),
        (lambda x: x + 1, (X,), ["x"]),
        (lambda x: x + 1, {"x": X}, ["x"]),
        (lambda x, mask: x * mask, (X, X), ["x", "mask"]),
        (lambda x, mask: x * mask, [X, X], ["x", "mask"]),
        (lambda x, mask: x * mask, (X, {"mask": X}), ["x", "mask"]),
        (lambda x, mask: x * mask, {"mask": X, "x": X}, ["x", "mask"]),
        (lambda x, mask=None: x * 2, {"x": X}, ["x"]),
        (lambda x, flag, mask: x * mask, (X, True, X), ["x", "mask"]),
        (lambda x, *, mask: x * mask, (X, {"mask": X}), ["x", "mask"]),
        (lambda *args: args[0] + args[1], (X, X), ["args_0", "args_1"]),
        (lambda x, **more: x + more["b"] * more["a"], (X, {"b": X, "a": X}), ["x", "b", "a"]),
        (lambda features: features[0] + features[1], ([X, X],), ["features.0", "features.1"]),
        (lambda batch: batch["image"] + 1, {"image": X}, ["batch.image"]),
        (lambda batch: batch["image"] + 1, ({"image": X},), ["batch.image"]),
        (lambda x, batch: x + batch["a"]["b"], (X, {"a": {"b": X}}), ["x", "batch.a.b"]),
        (lambda pair: pair.left + pair.right, Pair(X, X), ["pair.left", "pair.right"]),
        (lambda o: o.logits + 1, Output(X), ["o.logits"]),
        (lambda x, n: x * n, (X, 3), ["x"]),
        (lambda x: x + 1, X.numpy(), ["x"]),
        (lambda x, extra: x * extra["s"][1], (X, {"s": [None, X, "text"]}), ["x", "extra.s.1"]),
    ],
)
def test_inputs_are_named_after_the_parameters(function, args, inputs: list[str]) -> None:
    assert names(function, args)[0] == inputs


@pytest.mark.parametrize(
    ("result", "outputs"),
    [
        (lambda x: x + 1, ["output"]),
        (lambda x: (x + 1,), ["output_0"]),
        (lambda x: [x + 1, x + 2], ["output_0", "output_1"]),
        (lambda x: (x + 1, [x + 2, {"a": x + 3}]), ["output_0", "output_1.0", "output_1.1.a"]),
        (lambda x: {"logits": x + 1, "aux": {"a": x + 2}}, ["logits", "aux.a"]),
        (lambda x: OrderedDict(b=x + 1, a=x + 2), ["b", "a"]),
        (lambda x: Pair(x + 1, x + 2), ["left", "right"]),
        (lambda x: Output(x + 1, (x + 2, x + 3)), ["logits", "hidden_states.0", "hidden_states.1"]),
        (lambda x: (None, x + 1), ["output_1"]),
        (lambda x: {"x": x}, ["x_out"]),
        (lambda x: {"x": x, "x_out": x}, ["x_out", "x_out_1"]),
        (lambda x: {"a.b": x, "a": {"b": x}}, ["a.b", "a.b_1"]),
        (lambda x: {1: x + 1}, ["1"]),
    ],
)
def test_outputs_are_named_by_their_keys(result, outputs: list[str]) -> None:
    assert names(result, X)[1] == outputs


def test_non_tensor_outputs_are_left_out_with_a_note() -> None:
    signature = read_signature(Net(lambda x: {"y": x + 1, "size": (3, None), "kind": "a"}), X)
    assert [spec.name for spec in signature.outputs] == ["y"]
    assert signature.notes == (
        "output 'size.0' is of type int, not a tensor, and is left out",
        "output 'kind' is of type str, not a tensor, and is left out",
    )


def test_specs_contain_dtypes_and_sizes() -> None:
    signature = read_signature(
        Net(lambda ids, h, n: (ids > 0, h * 2, n + 1)),
        (torch.ones(1, 4, dtype=torch.int64), torch.ones(2).bfloat16(), torch.tensor(3)),
    )
    described = [spec.describe() for spec in (*signature.inputs, *signature.outputs)]
    assert described == [
        *("ids int64[1, 4]", "h bfloat16[2]", "n int64[]"),
        *("output_0 bool[1, 4]", "output_1 bfloat16[2]", "output_2 int64[]"),
    ]


def test_given_names_replace_the_inferred_names() -> None:
    result = names(lambda x, y: (x, y), (X, X), input_names=["a", "b"], output_names=["c", "d"])
    assert result == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"input_names": ["a"]},
            "input_names: expected 2 names (x, y), found 1 (a)",
        ),
        (
            {"input_names": "ab"},
            "input_names: expected 2 names (x, y), found 1 (ab)",
        ),
        (
            {"output_names": ["a", "b", "c"]},
            "output_names: expected 2 names (output_0, output_1), found 3 (a, b, c)",
        ),
        (
            {"input_names": ["a", "a"]},
            (
                "input_names: expected a unique name for each input, found the empty or repeated "
                "name 'a'"
            ),
        ),
        (
            {"output_names": ["a", ""]},
            (
                "output_names: expected a unique name for each output, found the empty or "
                "repeated name ''"
            ),
        ),
        (
            {"output_names": ["x", "z"]},
            "an input and an output have the same name 'x'; expected different names",
        ),
    ],
)
def test_invalid_input_and_output_names_are_refused(options, message: str) -> None:
    with pytest.raises(InputError) as caught:
        names(lambda x, y: (x + y, x), (X, X), **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X,), "missing a required argument: 'mask'"),
        ((X, X, X, X), "too many positional arguments"),
        ({"x": X}, "missing a required argument: 'mask'"),
        ({"x": X, "mask": X, "z": X}, "got an unexpected keyword argument 'z'"),
    ],
)
def test_inputs_that_do_not_match_forward_are_refused(args, message: str) -> None:
    with pytest.raises(InputError) as caught:
        names(lambda x, mask, flag=True: x, args)
    assert (
        str(caught.value)
        == f"the example inputs do not match forward(x, mask, flag=True): {message}"
    )


@pytest.mark.parametrize("args", [{"x": X, "maks": X}, {"x": X, "mask": X, "maks": X}])
def test_a_misspelled_input_gets_the_nearest_name(args) -> None:
    with pytest.raises(InputError) as caught:
        names(lambda x, mask: x * mask, args)
    assert str(caught.value) == "unknown input 'maks'; the parameters of forward: x, mask"
    assert caught.value.hint == "did you mean 'mask'?"


def test_a_misspelled_input_alone_is_tried_as_a_dict_first() -> None:
    with pytest.raises(InputError) as caught:
        names(lambda image: image * 2.5, {"imaeg": X})
    assert str(caught.value) == "unknown input 'imaeg'; the parameters of forward: image"
    assert caught.value.hint == "did you mean 'image'?"
    assert isinstance(caught.value.__cause__, ModelError)


def test_a_dict_whose_keys_resemble_a_parameter_is_passed_whole() -> None:
    assert names(lambda images: images["image"] * 2, {"image": X})[0] == ["images.image"]
    assert names(lambda x, **more: x * more["xx"], {"x": X, "xx": X})[0] == ["x", "xx"]


def test_inputs_without_a_tensor_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"^the example inputs for forward\(n\) contain no tensor$"
    ):
        names(lambda n: torch.ones(n), (3,))


def test_error_in_forward_becomes_a_chained_model_error() -> None:
    def forward(x):
        raise ValueError("\n  no good\nreally")

    line = forward.__code__.co_firstlineno + 1
    with pytest.raises(ModelError) as e:
        names(forward, X)
    assert str(e.value) == (
        f"the model's forward raised ValueError: no good (models/{Path(__file__).name}:{line})"
    )
    assert isinstance(e.value.__cause__, ValueError)


def test_error_inside_torch_names_only_the_models_line() -> None:
    def forward(x):
        return nn.Linear(9, 9)(x)

    line = forward.__code__.co_firstlineno + 1
    with pytest.raises(ModelError, match=rf"cannot be multiplied .*\(models/\S+:{line}\)$"):
        names(forward, X)
    with pytest.raises(ModelError, match=r"cannot be multiplied \(\S+ and 9x9\)$"):
        read_signature(nn.Sequential(nn.Linear(9, 9)), X)


@pytest.mark.parametrize("code", [0, None, "enough"])
def test_a_forward_that_exits_is_a_model_error(code: object) -> None:
    def forward(x):
        sys.exit(code)

    message = "(no message)" if code is None else str(code)
    with pytest.raises(ModelError) as caught:
        names(forward, X)
    assert str(caught.value).startswith(f"the model's forward raised SystemExit: {message} (")


def test_keyboard_interrupt_in_forward_is_not_caught() -> None:
    def forward(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        names(forward, X)


def test_forward_that_returns_no_tensor_is_a_model_error() -> None:
    with pytest.raises(ModelError, match=r"returned no tensor; it returned a str$"):
        names(lambda x: "hello", X)


def test_reading_a_signature_restores_modes_and_inputs() -> None:
    def forward(x, extra):
        assert not net.training
        assert not torch.is_grad_enabled()
        x.add_(1)
        extra["a"].zero_()
        return x * 2

    net = Net(forward)
    net.left, net.right = nn.Dropout(), nn.Dropout().eval()
    x = X.clone().requires_grad_()
    extra = {"a": X.clone()}
    signature = read_signature(net, (x, extra))
    assert torch.equal(x, X)
    assert torch.equal(extra["a"], X)
    assert (net.training, net.left.training, net.right.training) == (True, True, False)
    assert torch.equal(signature.example_inputs["x"], X)
    assert torch.equal(signature.example_outputs["output"], (X + 1) * 2)
    assert not signature.example_inputs["x"].requires_grad
    assert signature.call.mutated == {0, 1}


def test_training_mode_is_restored_after_forward_raises() -> None:
    def forward(x):
        raise RuntimeError

    net = Net(forward)
    with pytest.raises(ModelError, match=r"RuntimeError: \(no message\) "):
        read_signature(net, X)
    assert net.training


def test_forward_error_names_the_line_of_the_error_that_it_reports() -> None:
    def fail() -> None:
        raise KeyError("inner")

    def forward(x):
        try:
            fail()
        except KeyError as err:
            raise ValueError("outer") from err

    line = forward.__code__.co_firstlineno + 4
    with pytest.raises(ModelError, match=rf"ValueError: outer \(\S+test_signature\.py:{line}\)"):
        read_signature(Net(forward), X)


def test_float32_is_computed_without_tf32() -> None:
    """cuDNN's convolutions on a GPU use TF32 by default."""
    seen = []

    def forward(x):
        convolutions = torch.backends.cudnn.allow_tf32
        seen.append((convolutions, torch.get_float32_matmul_precision()))
        return x

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        read_signature(Net(forward), X)
        assert seen == [(False, "highest")]
        assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == (
            True,
            "high",
        )
    finally:
        torch.set_float32_matmul_precision(before)


def test_fp32_precision_set_by_the_caller_is_respected() -> None:
    setting = torch.backends.cudnn.conv
    seen, before = [], setting.fp32_precision

    def forward(x):
        seen.append(setting.fp32_precision)
        return x

    setting.fp32_precision = "ieee"  # rnn has its default, which torch then calls a mix
    try:
        read_signature(Net(forward), X)
        assert seen == [setting.fp32_precision] == ["ieee"]
    finally:
        setting.fp32_precision = before


def test_inference_mode_of_the_caller_has_no_effect(tmp_path) -> None:
    with torch.inference_mode():
        x = torch.ones(2, 3)
        signature = read_signature(nn.Linear(3, 2), x)
        ir = export(nn.Linear(3, 2), x, ir="torchscript", path=tmp_path / "m")
    assert not signature.example_outputs["output"].is_inference()
    assert ir.outputs == signature.outputs


def test_signature_runs_the_model_on_named_inputs() -> None:
    net = Net(lambda x, batch, scale: {"y": x * scale, "z": batch["m"] + 1})
    signature = read_signature(net, (X, {"m": X}, 3))
    outputs = signature.run(net, {"batch.m": X[:1], "x": X[:1]})
    assert torch.equal(outputs["y"], X[:1] * 3)
    assert torch.equal(outputs["z"], X[:1] + 1)
    with pytest.raises(InputError, match=r"^wrong inputs: expected x, batch.m, found x$"):
        signature.run(net, {"x": X})


def test_changed_number_of_outputs_is_a_model_error() -> None:
    net = Net(lambda x: list(x))
    signature = read_signature(net, X)
    with pytest.raises(ModelError) as caught:
        signature.run(net, {"x": X[:1]})
    assert str(caught.value) == (
        "the model's forward returns a different number of tensors: 2 for the example inputs, now 1"
    )


def test_example_outputs_survive_the_next_run() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 3))

        def forward(self, x):
            self.cache.copy_(x)
            return self.cache

    net = Cached()
    signature = read_signature(net, X)
    signature.run(net, {"x": X + 1})
    assert torch.equal(signature.example_outputs["output"], X)


def test_flat_model_shares_weights_and_matches_the_model() -> None:
    net = nn.Linear(3, 2)
    signature = read_signature(net, X)
    flat = FlatModel(net, signature)
    assert next(flat.parameters()) is net.weight
    assert torch.equal(flat(X)[0], net(X))


# torch.compile imports deprecated parts of torch itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_compiled_model_has_the_signature_of_its_original(tmp_path) -> None:
    net = nn.Linear(3, 2)
    compiled = torch.compile(net)
    signature = read_signature(compiled, X)
    assert [spec.name for spec in signature.inputs] == ["input"]
    assert torch.equal(signature.run(compiled, {"input": X})["output"], net(X))
    assert export(compiled, X, ir="torchscript", path=tmp_path / "m").inputs == signature.inputs


def test_numpy_inputs_are_copied() -> None:
    array = np.ones((2, 3), dtype=np.float32)
    signature = read_signature(Net(lambda x: x.add_(1)), array)
    assert (array == 1).all()
    assert (signature.example_inputs["x"] == 1).all()


class Keyed(nn.Module):
    def forward(self, x, y=None, *, z=None):
        return x + sum(part for part in (y, z) if part is not None)


@pytest.mark.parametrize(
    ("args", "keywords"), [((X, X), {}), ((X,), {"y": X}), ((), {"x": X, "z": X})]
)
@pytest.mark.parametrize("given", ["as captured", "by name"])
def test_an_exported_program_is_called_as_it_was_captured(args, keywords, given) -> None:
    module = torch.export.export(Keyed(), args, keywords).module()
    by_name = dict(zip("xy", args, strict=False)) | keywords
    signature = read_signature(module, by_name if given == "by name" else (*args, keywords))
    assert [spec.name for spec in signature.inputs] == list(by_name)
    assert torch.equal(signature.example_outputs["output"], X + X)


def test_inputs_after_an_omitted_parameter_become_keywords() -> None:
    class Middle(nn.Module):
        def forward(self, x, y=None, z=None):
            return x if y is None and z is not None else None

    signature = read_signature(Middle(), {"x": X, "z": X})
    assert [spec.name for spec in signature.inputs] == ["x", "z"]


def test_runner_restores_state_and_leaves_inputs_unchanged() -> None:
    class Careless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout()
            self.register_buffer("last", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            self.last.copy_(self.dropout(x))
            return self.last

    model = Careless().train()
    bound = bind(find_model((model, torch.zeros(2))))
    inputs = [{"x": np.full(2, n, np.float32)} for n in range(3)]
    with bound.runner() as run:
        outputs = [run(each)["output"] for each in inputs]
    assert [array.tolist() for array in outputs] == [[1, 1], [2, 2], [3, 3]]
    assert [each["x"][0] for each in inputs] == [0, 1, 2]
    assert model.training


class State:
    """Contains a tensor, and is not registered with pytree."""

    def __init__(self) -> None:
        self.scale = torch.full((3,), 2.0)


def test_constant_tensors_in_objects_are_noted_by_argument() -> None:
    net = Net(lambda x, state, lines: x * state["own"].scale)
    given = (X, {"own": State()}, (line for line in "ab"))
    signature = read_signature(net, given)
    assert [spec.name for spec in signature.inputs] == ["x"]
    assert signature.notes == (
        (
            "argument 'state.own' is of type State: its 1 tensors are constants; to make them "
            "inputs, register the type with torch.utils._pytree.register_pytree_node"
        ),
        "argument 'lines' is of type generator, which cannot be copied: all runs share the object",
    )
