"""ONNX files that are damaged, not valid or not for an engine: a clear line from every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Run

NODE = helper.make_node
X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 4)) for name in "xy")
WEIGHTS = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
RELU = [NODE("Relu", ["x"], ["y"], name="relu")]
SEQUENCE = helper.make_tensor_sequence_value_info
OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 4]))
LOCAL = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
ENDLESS = helper.make_function(
    "own", "F", ["a"], ["b"], [NODE("F", ["a"], ["b"], domain="own")], LOCAL
)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: tuple[onnx.ValueInfoProto, ...] = (X,),
    outputs: tuple[onnx.ValueInfoProto, ...] = (Y,),
    weights: tuple[TensorProto, ...] = (),
    opset: int = 17,
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> None:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    imports = [*LOCAL] if functions else [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)
    path.write_bytes(model.SerializeToString())


def external(location: str, **entries: int) -> tuple[TensorProto, ...]:
    tensor = TensorProto(name="w", data_type=1, dims=(4, 4), data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "length": 64, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return (tensor,)


def cut(path: Path, share: float) -> None:
    save(path, RELU, weights=(WEIGHTS,))
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


PRODUCT = [NODE("MatMul", ["x", "w"], ["y"])]

#: Name → a function that writes the file, and the start of the error of every command.
UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "truncated": (lambda path: cut(path, 0.6), "is damaged or not an ONNX model"),
    "truncated late": (lambda path: cut(path, 0.97), "is damaged or not an ONNX model"),
    "a picture": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" * 9), "is damaged or not"),
    "a pointer": (
        lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d"),
        "is a pointer of Git LFS, not the file itself\nhint: git lfs pull --include '*bad.onnx'",
    ),
    "a web page": (lambda path: path.write_text("<!DOCTYPE html>\n<html>"), "is a web page"),
    "no outputs": (lambda path: save(path, RELU, outputs=()), "it has no outputs"),
    "endless functions": (
        lambda path: save(path, [NODE("F", ["x"], ["y"], domain="own")], functions=(ENDLESS,)),
        "has functions that call themselves: own.F",
    ),
    "absolute path": (
        lambda path: save(path, PRODUCT, weights=external(str(path.parent / "w.bin"))),
        "expected a data file in the model's folder, found '/",
    ),
    "path to the parent": (
        lambda path: save(path, PRODUCT, weights=external("../w.bin")),
        "expected a data file in the model's folder, found '../w.bin'",
    ),
    "missing data": (
        lambda path: save(path, PRODUCT, weights=external("none.bin")),
        "tensor 'w': its data file 'none.bin' does not exist",
    ),
    "short data": (
        lambda path: save(path, PRODUCT, weights=external("models.py", offset=10**6)),
        "tensor 'w': expected 64 bytes at offset 1000000 of 'models.py'",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_refused_by_every_command(
    cli: Run, here: Path, name: str
) -> None:
    write, error = UNREADABLE[name]
    save(here / "good.onnx", RELU)
    write(here / "bad.onnx")
    for words in (
        ("inspect", "bad.onnx"),
        ("deploy", "bad.onnx", "--backend", "onnxruntime", "--input", "x=2x4"),
        ("convert", "onnxruntime", "bad.onnx", "--work-dir", "out"),
        ("export", "bad.onnx"),
        ("audit", "good.onnx", "bad.onnx"),
    ):
        ran = cli(*words)
        assert (ran.code, ran.out) == (2, ""), (words, ran)
        lines = ran.err.splitlines()
        start = next(n for n, line in enumerate(lines) if line.startswith("error: "))
        assert "bad.onnx'" in lines[start]
        assert error in "\n".join(lines[start:])
        assert len(lines) - start <= 2
    assert not (here / "out").exists()


#: Name → the nodes, inputs, outputs and weights, and the error and hint.
NO_TENSORS = {
    "sequence in": (
        [NODE("ConcatFromSequence", ["x"], ["y"], axis=0)],
        {"inputs": (SEQUENCE("x", TensorProto.FLOAT, [1, 4]),)},
        "input 'x' of 'bad.onnx' is a sequence, expected a tensor",
        "return or take its elements as tensors, or join them with ConcatFromSequence",
    ),
    "sequence out": (
        [NODE("SplitToSequence", ["x"], ["y"], axis=0)],
        {"outputs": (SEQUENCE("y", TensorProto.FLOAT, [1, 4]),)},
        "output 'y' of 'bad.onnx' is a sequence, expected a tensor",
        "return or take its elements as tensors, or join them with ConcatFromSequence",
    ),
    "optional": (
        [NODE("OptionalGetElement", ["x"], ["y"])],
        {"inputs": (helper.make_value_info("x", OPTIONAL),)},
        "input 'x' of 'bad.onnx' is an optional, expected a tensor",
        "return or take the tensor itself",
    ),
    "probabilities by class": (
        [NODE("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3])],
        {
            "outputs": (
                helper.make_value_info(
                    "y",
                    helper.make_sequence_type_proto(
                        helper.make_map_type_proto(
                            TensorProto.INT64, helper.make_tensor_type_proto(1, [])
                        )
                    ),
                ),
            )
        },
        "output 'y' of 'bad.onnx' is a sequence of maps, expected a tensor",
        "export the model without ZipMap: skl2onnx.to_onnx(model, X, options={'zipmap': False})",
    ),
    "no type": (
        RELU,
        {"inputs": (onnx.ValueInfoProto(name="x"),)},
        "input 'x' of 'bad.onnx' is of no type, expected a tensor",
        "give it the type of a tensor: the file declares none",
    ),
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_is_no_tensor_is_refused_by_name(cli: Run, here: Path, name: str) -> None:
    nodes, parts, error, hint = NO_TENSORS[name]
    save(here / "bad.onnx", nodes, **parts)
    assert cli("inspect", "bad.onnx").code == 0
    for words in (
        ("deploy", "bad.onnx", "--backend", "onnxruntime", "--work-dir", "out"),
        ("convert", "onnxruntime", "bad.onnx", "--work-dir", "out"),
    ):
        ran = cli(*words)
        shown = f"error: {error}\n" + (f"hint: {hint}\n" if hint else "")
        assert (ran.code, ran.out, ran.err) == (2, "", shown)


def test_constants_are_converted_and_not_deployed(cli: Run, here: Path) -> None:
    save(here / "bad.onnx", [NODE("Relu", ["w"], ["y"])], inputs=(), weights=(WEIGHTS,))
    assert cli("inspect", "bad.onnx").code == 0
    ran = cli("deploy", "bad.onnx", "--backend", "onnxruntime", "--work-dir", "out")
    assert ran.code == 2
    assert ran.err == (
        "error: 'bad.onnx' has no inputs: its outputs are constants, which prove nothing\n"
        "hint: convert it without a verdict: enginebay convert BACKEND bad.onnx\n"
    )
    assert cli("convert", "onnxruntime", "bad.onnx", "--work-dir", "out").code == 0


def test_a_random_file_is_unverified_and_says_so(cli: Run, here: Path) -> None:
    node = NODE("RandomNormalLike", ["x"], ["y"])
    save(here / "bad.onnx", [node])
    ran = cli(
        "deploy", "bad.onnx", "--backend", "onnxruntime", "--work-dir", "out", "--input", "x=2x4"
    )
    assert ran.code == 1
    assert "unverified: the file draws random numbers (RandomNormalLike)" in ran.err


def test_an_artifact_command_names_the_way_from_a_file(cli: Run, here: Path) -> None:
    save(here / "good.onnx", RELU)
    ran = cli("run", "good.onnx")
    assert ran.code == 1
    assert ran.err.endswith("hint: deploy the model first: enginebay deploy good.onnx\n")


#: Name → the nodes and other parts, and what onnx's checker says.
NOT_VALID = {
    "a cycle": (
        [
            NODE("Add", ["x", "b"], ["a"], name="one"),
            NODE("Relu", ["a"], ["b"]),
            NODE("Neg", ["b"], ["y"]),
        ],
        {},
        (
            "Nodes in a graph must be topologically sorted, however input 'b' of node 'one' (Add) "
            "is not output of any previous nodes."
        ),
    ),
    "an unknown operator": (
        [NODE("Foo", ["x"], ["y"], name="foo")],
        {},
        "node 'foo' (Foo): No Op registered for Foo with domain_version of 17",
    ),
    "no such output": (
        [NODE("Relu", ["x"], ["z"])],
        {},
        "Graph output 'y' is not an output of any node in graph.",
    ),
    "a short weight": (
        PRODUCT,
        {"weights": (TensorProto(name="w", data_type=1, dims=(4, 4), raw_data=b"12"),)},
        (
            "TensorProto (tensor name: w) raw_data size (2 bytes) is too small for the declared "
            "shape and type (64 bytes required)."
        ),
    ),
}


@pytest.mark.parametrize("name", NOT_VALID)
def test_the_fault_of_a_refused_file_is_named(cli: Run, here: Path, name: str) -> None:
    nodes, parts, fault = NOT_VALID[name]
    save(here / "bad.onnx", nodes, **parts)
    ran = cli("convert", "onnxruntime", "bad.onnx", "--work-dir", "out")
    error = f"error: 'bad.onnx' is not valid by onnx {onnx.__version__}: {fault}\n"
    assert (ran.code, ran.out, ran.err) == (1, "", error)


def test_a_damaged_weight_is_refused_by_audit_and_none_is_no_error(cli: Run, here: Path) -> None:
    save(here / "good.onnx", RELU)
    save(here / "same.onnx", RELU)
    nodes, parts, _ = NOT_VALID["a short weight"]
    save(here / "short.onnx", nodes, **parts)
    ran = cli("audit", "good.onnx", "short.onnx")
    error = "error: a weight of 'short.onnx' cannot be read: ValueError: buffer size"
    assert (ran.code, ran.out) == (2, "")
    assert error in ran.err
    assert cli("audit", "good.onnx", "same.onnx").code == 0


def test_an_engine_that_runs_a_refused_file_is_named(cli: Run, here: Path) -> None:
    scaled = [NODE("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[2.0], offset=[1.0])]
    graph = helper.make_graph(scaled, "g", [X], [Y])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), here / "scaled.onnx")
    words = ("--backend", "openvino", "--input", "x=2x4", "--work-dir", "out")
    ran = cli("deploy", "scaled.onnx", *words)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: OpenVINO cannot convert 'scaled.onnx': No conversion rule found for operations: "
        "ai.onnx.ml.Scaler\nhint: --backend onnxruntime, which runs this file\n"
    )


T, E = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 4)) for name in "te")
CAPTURING = NODE(
    "If",
    ["c"],
    ["y"],
    then_branch=helper.make_graph([NODE("MatMul", ["x", "w"], ["t"])], "then", [], [T]),
    else_branch=helper.make_graph([NODE("Neg", ["r"], ["e"])], "else", [], [E]),
)

ZERO = numpy_helper.from_array(np.float32(0), "zero")

#: Name → the nodes and other parts of files that are odd, and right.
ODD = {
    "unnamed nodes": ([NODE("Relu", ["x"], ["a"]), NODE("Sigmoid", ["a"], ["y"])], {}),
    "branches that capture outer names": (
        [
            NODE("Relu", ["x"], ["r"]),
            NODE("ReduceSum", ["x"], ["s"], keepdims=0),
            NODE("Greater", ["s", "zero"], ["c"]),
            CAPTURING,
        ],
        {"weights": (WEIGHTS, ZERO)},
    ),
    "nodes in another order": (
        [NODE("Relu", ["m"], ["y"]), NODE("MatMul", ["x", "w"], ["m"])],
        {"weights": (WEIGHTS,)},
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_that_is_right_is_converted(cli: Run, here: Path, name: str) -> None:
    nodes, parts = ODD[name]
    save(here / "odd.onnx", nodes, **parts)
    ran = cli("convert", "onnxruntime", "odd.onnx", "--work-dir", "out")
    assert ran.code == 0, ran.err
    assert cli("run", "out", "--input", "x=2x4").code == 0
