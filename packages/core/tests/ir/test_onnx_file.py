from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from hypothesis import given, strategies as st
from onnx import TensorProto, helper, numpy_helper

from enginebay import environment
from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, ModelError, ModelSourceError
from enginebay.evaluator.onnx_evaluator import reference_outputs
from enginebay.ir.model import IRModel
from enginebay.ir.onnx_file import read_onnx

FLOAT = TensorProto.FLOAT


def value(name: str, dims=(2,), element: int = FLOAT):
    return helper.make_tensor_value_info(name, element, dims)


def outside(name: str, location: str, *, dims=(2,), **entries: object) -> TensorProto:
    """A tensor whose data is in another file."""
    tensor = TensorProto(name=name, data_type=FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, entry in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(entry))
    return tensor


def add_model(weights: TensorProto) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", weights.name], ["y"])],
        *("g", [value("x")], [value("y")]),
        initializer=[weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def in_subgraph(tensor: TensorProto) -> onnx.ModelProto:
    def branch(node) -> onnx.GraphProto:
        return helper.make_graph([node], "branch", [], [value("b")])

    then = branch(helper.make_node("Constant", [], ["b"], value=tensor))
    other = branch(helper.make_node("Identity", ["x"], ["b"]))
    inner = helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other)
    outer = helper.make_node("If", ["c"], ["y"], then_branch=branch(inner), else_branch=other)
    inputs = [value("x"), value("c", (), TensorProto.BOOL)]
    return helper.make_model(helper.make_graph([outer], "g", inputs, [value("y")]))


def in_function(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Constant", [], ["b"], value=tensor)
    opset = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "F", [], ["b"], [node], opset)
    graph = helper.make_graph(
        [helper.make_node("F", [], ["y"], domain="own")], "g", [], [value("y")]
    )
    return helper.make_model(
        graph, functions=[function], opset_imports=[*opset, helper.make_opsetid("own", 1)]
    )


def in_sparse(tensor: TensorProto) -> onnx.ModelProto:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    indices = numpy_helper.from_array(np.array([0, 1]), "i")
    sparse = helper.make_sparse_tensor(tensor, indices, [4])
    model.graph.sparse_initializer.append(sparse)
    return model


def in_tensors_attribute(tensor: TensorProto) -> onnx.ModelProto:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    attribute = helper.make_attribute("all", [tensor])
    model.graph.node[0].attribute.append(attribute)
    return model


def saved(model: onnx.ModelProto, folder) -> str:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def refusal(model: onnx.ModelProto, folder) -> str:
    with pytest.raises(ModelSourceError) as caught:
        read_onnx(saved(model, folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_inputs_outputs_and_opset_are_read(tmp_path) -> None:
    weights = numpy_helper.from_array(np.ones(2, np.float32), "w")
    model = add_model(weights)
    model.graph.input.append(value("w"))
    del model.graph.input[0], model.graph.output[:]
    model.graph.input.insert(0, value("x", ["batch", None, 3], TensorProto.BFLOAT16))
    model.graph.output.extend([value("y", None), value("s", (), TensorProto.STRING)])
    model.graph.output.append(helper.make_tensor_sequence_value_info("q", FLOAT, None))
    ir = read_onnx(saved(model, tmp_path))
    assert [spec.describe() for spec in (*ir.inputs, *ir.outputs)] == [
        "x bfloat16[batch, x_1, 3]",
        "y float32[unknown rank]",
        "s string[]",
        "q sequence[unknown rank]",
    ]
    assert (ir.kind, ir.exporter, ir.opset, ir.notes) == ("onnx", "file", 18, ())
    assert ir.path.is_absolute()
    assert ir.files == (ir.path,)


def test_a_dimension_whose_name_says_nothing_is_equal_to_no_other(tmp_path) -> None:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    del model.graph.input[:]
    model.graph.input.extend([value("x", ["?", 3, "?"]), value("z", ["n?", "-", "n?"])])
    ir = read_onnx(saved(model, tmp_path))
    assert [spec.dims for spec in ir.inputs] == [("x_0", 3, "x_2"), ("n?", "z_1", "n?")]


def test_a_negative_size_is_an_open_one(tmp_path) -> None:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    del model.graph.input[:]
    model.graph.input.extend([value("x", [-1, 3]), value("z", [-1, 0])])
    ir = read_onnx(saved(model, tmp_path))
    assert [spec.dims for spec in ir.inputs] == [("x_0", 3), ("z_0", 0)]


def test_a_size_that_is_named_by_its_digits_is_a_number(tmp_path) -> None:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    del model.graph.input[:]
    model.graph.input.append(value("x", ["s0", "3"]))
    assert [spec.dims for spec in read_onnx(saved(model, tmp_path)).inputs] == [("s0", 3)]


def test_external_data_in_the_folder_or_below_is_listed_once(tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    model = add_model(outside("w", "sub/w.bin", offset=8, length=8))
    model.graph.initializer.append(outside("w2", "sub/w.bin", length=8))
    ir = read_onnx(saved(model, tmp_path))
    assert ir.files == (ir.path, tmp_path / "sub" / "w.bin")
    found = reference_outputs(ir.path, {"x": np.zeros(2, np.float32)})
    assert found["y"].tolist() == [2, 3]


OUTSIDE = ["../w.bin", "/etc/passwd", "a/../../w.bin", "C:\\w.bin", "..\\w.bin", "\\\\host\\w.bin"]
PLACES = [add_model, in_subgraph, in_function, in_sparse, in_tensors_attribute]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", OUTSIDE)
def test_data_file_outside_the_folder_is_refused(tmp_path, place, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    (tmp_path / "model").mkdir()
    assert refusal(place(outside("w", location)), tmp_path / "model") == (
        f"'m.onnx': tensor 'w': expected a data file in the model's folder, found '{location}'"
    )


@pytest.mark.parametrize("location", ["", "*/_ORT_MEM_ADDR_/*", "w\0.bin"])
def test_invalid_data_locations_are_refused(tmp_path, location: str) -> None:
    (tmp_path / "w").write_bytes(bytes(8))
    assert "expected a data file in the model's folder" in refusal(
        add_model(outside("w", location)), tmp_path
    )


@pytest.mark.parametrize("place", PLACES)
def test_link_out_of_the_folder_is_refused(tmp_path, place) -> None:
    (tmp_path / "secret").write_bytes(bytes(8))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").symlink_to(tmp_path / "secret")
    assert refusal(place(outside("w", "w.bin")), tmp_path / "model") == (
        "'m.onnx': tensor 'w': its data file 'w.bin' is a link out of the model's folder"
    )


def test_linked_folder_with_a_data_file_is_refused(tmp_path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "w.bin").write_bytes(bytes(8))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "sub").symlink_to(tmp_path / "other")
    message = refusal(add_model(outside("w", "sub/w.bin")), tmp_path / "model")
    assert "a link out of the model's folder" in message


def test_missing_data_file_is_refused(tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    for location in ("w.bin", "folder", "no/w.bin"):
        assert refusal(add_model(outside("w", location)), tmp_path) == (
            f"'m.onnx': tensor 'w': its data file '{location}' does not exist"
        )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"length": 9}, "expected 9 bytes at offset 0 of 'w.bin', found a file of 8 bytes"),
        ({"offset": 1}, "expected 8 bytes at offset 1 of 'w.bin', found a file of 8 bytes"),
        (
            {"offset": 4, "length": 8},
            "expected 8 bytes at offset 4 of 'w.bin', found a file of 8 bytes",
        ),
        (
            {"offset": -8, "length": 8},
            "expected 8 bytes at offset -8 of 'w.bin', found a file of 8 bytes",
        ),
        ({"dims": (3,)}, "expected 12 bytes at offset 0 of 'w.bin', found a file of 8 bytes"),
        ({"offset": "0x4"}, "the offset or length of its data is not a number"),
    ],
)
def test_data_beyond_the_end_of_its_file_is_refused(tmp_path, entries, message: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    found = refusal(add_model(outside("w", "w.bin", **entries)), tmp_path)
    assert found == f"'m.onnx': tensor 'w': {message}"


def test_tensor_with_two_or_zero_locations_is_refused(tmp_path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    tensor = outside("w", "w.bin")
    tensor.external_data.add(key="location", value="../w.bin")
    message = "'m.onnx': tensor 'w': expected one location for its data, found 2"
    assert refusal(add_model(tensor), tmp_path) == message
    del tensor.external_data[:]
    assert refusal(add_model(tensor), tmp_path) == message.replace("found 2", "found 0")


@given(location=st.text(alphabet="./\\aw*:\0~$%", max_size=12))
def test_no_data_location_leads_out_of_the_folder(tmp_path_factory, location: str) -> None:
    folder = tmp_path_factory.mktemp("outer") / "model"
    folder.mkdir()
    (folder.parent / "w").write_bytes(bytes(8))
    (folder / "w").write_bytes(bytes(8))
    path = saved(add_model(outside("w", location)), folder)
    try:
        files = read_onnx(path).files
    except ModelSourceError:
        return
    assert all(file.resolve().is_relative_to(folder.resolve()) for file in files)


def test_missing_file_is_a_one_line_error(tmp_path) -> None:
    with pytest.raises(ModelSourceError, match=r"^no file '.*/m.onnx'$"):
        read_onnx(tmp_path / "m.onnx")


def test_folder_is_a_one_line_error(tmp_path) -> None:
    with pytest.raises(ModelSourceError, match=r"^'.*' cannot be read: Is a directory$"):
        read_onnx(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello, this is a text file\n" * 20, "is damaged or not an ONNX model: "),
        (b"PK\x03\x04" + bytes(100), "is damaged or not an ONNX model: "),
        (b"\x08\x09", "not an ONNX model: it has no graph and no outputs and no operator set"),
    ],
)
def test_file_in_a_different_format_is_a_one_line_error(
    tmp_path, content: bytes, message: str
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelSourceError) as caught:
        read_onnx(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"'{path}' is ")
    assert "\n" not in str(caught.value)


def test_truncated_file_is_refused(tmp_path) -> None:
    whole = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w")).SerializeToString()
    path = tmp_path / "m.onnx"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelSourceError, match="is damaged or not an ONNX model"):
            read_onnx(path)


def test_missing_onnx_package_hints_at_its_installation(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError) as caught:
        read_onnx(tmp_path / "m.onnx")
    assert str(caught.value).startswith("this step requires 'onnx', which cannot be imported: ")
    assert caught.value.hint == install_command("enginebay[export]")


def test_too_old_onnx_package_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(environment, "installed_version", lambda name: "1.20.1")
    with pytest.raises(MissingDependencyError) as caught:
        read_onnx(tmp_path / "m.onnx")
    message = "this step requires 'onnx' 1.21 or newer, found 1.20.1"
    assert str(caught.value) == message


def test_failure_of_the_evaluator_is_a_one_line_error(tmp_path) -> None:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    model.graph.node[0].domain = "nobody"
    model.opset_import.add(domain="nobody", version=1)
    path = saved(model, tmp_path)
    with pytest.raises(ModelError, match=r"^onnx's reference evaluator cannot run 'm.onnx': \w+"):
        reference_outputs(path, {"x": np.ones(2, np.float32)})


def test_digest_depends_on_every_file(tmp_path) -> None:
    first, second = tmp_path / "a.onnx", tmp_path / "b"
    first.write_bytes(b"a" * 10)
    second.write_bytes(b"b")
    alone = IRModel(kind="onnx", path=first, files=(first,))
    both = IRModel(kind="onnx", path=first, files=(first, second))
    assert alone.digest() == "bf2cb58a68f684d95a3b78ef8f661c9a4e5b09e82cc8f9cc88cce90528caeb27"
    assert both.digest() != alone.digest()
    before = both.digest()
    second.write_bytes(b"c")
    assert both.digest() != before


@pytest.mark.process
def test_core_packages_do_not_import_torch_or_onnx() -> None:
    code = (
        "import sys; from enginebay import ir, models, exporters, operations; "
        "print([name for name in ('torch', 'onnx') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Input data was truncated"),
        ('{"example_shapes": {"x": [-1]}}', "Expected `int` >= 0"),
        ('{"example_shapes": {"x": ["2"]}}', "Expected `int`, got `str`"),
    ],
)
def test_damaged_enginebay_json_is_refused(tmp_path, text: str, why: str) -> None:
    model = add_model(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    onnx.helper.set_model_props(model, {"enginebay.json": text})
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    with pytest.raises(ModelSourceError) as caught:
        read_onnx(path)
    start = f"'{path}' is damaged: the metadata 'enginebay.json' cannot be read: {why}"
    assert str(caught.value).startswith(start)
