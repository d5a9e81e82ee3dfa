"""The sections of a config, and the errors and notes about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.config import ExportOptions
from enginebay.config.backend_section import backend_params
from enginebay.config.dynamic_axes import dynamic_shapes
from enginebay.config.problems import Problems
from enginebay.config.section_reader import read_sections
from enginebay.config.sections import IRSection
from enginebay.errors import ConfigError
from enginebay.operations.settings import resolve_settings
from enginebay.params import DynamicDim
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

STRANGER = '''
from typing import Literal
import enginebay as eb
from enginebay.errors import ParamsError

def odd(value):
    if value == "odd":
        raise ParamsError("odd is not served", hint="write even")
    return {"precision": value}

def half(on):
    return {"precision": "fp16"} if on else {}

class StrangerParams(eb.BackendParams):
    """Parameters of the stranger's engine.

    Args:
        precision: What it computes in.
        level (int): How hard it tries.
    """
    file_name: eb.FileName = eb.FileName("model", suffix=".str")
    precision: Literal["fp32", "fp16"] = "fp32"
    level: int = 1

    @classmethod
    def config_keys(cls):
        return {
            "common_config.fp16_mode": eb.ConfigKey(bool, half),
            "common_config.deep.mode": eb.ConfigKey(str, odd),
            "common_config.size": eb.ConfigKey(int, no_effect="it needs no space"),
        }

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="stranger", irs=("onnx",), params=StrangerParams, api_version=1)

@eb.hookimpl
def to_backend(request): ...

@eb.hookimpl
def build_wrapper(request): ...
'''


@pytest.fixture(scope="module", autouse=True)
def _stranger() -> Iterator[None]:
    with temporary_backend("stranger", STRANGER):
        yield


def params(config: dict[str, Any], **over: Any) -> Any:
    return eb.get_backend("stranger").build_param_from_config(config, **over)


def section(**keys: Any) -> dict[str, Any]:
    return {"backend_config": {"type": "stranger", **keys}}


def test_the_fields_are_keys() -> None:
    found = params(section(level=3, file_name="net", input_shapes={"x": [1, 3]}), work_dir="out")
    assert (found.level, found.file_name, found.input_shapes) == (3, "net.str", {"x": (1, 3)})
    assert found.work_dir == "out"


def test_keys_that_the_params_class_adds() -> None:
    assert params(section(common_config={"fp16_mode": True})).precision == "fp16"
    assert params(section(common_config={"fp16_mode": False})).precision == "fp32"
    assert params(section(common_config={"deep": {"mode": "fp16"}})).precision == "fp16"
    # A field of its own wins, wherever it stands.
    assert params(section(common_config={"fp16_mode": True}, precision="fp32")).precision == "fp32"


def test_of_two_keys_for_one_field_the_later_declared_wins() -> None:
    given = {"fp16_mode": True, "deep": {"mode": "fp32"}}
    for order in (("fp16_mode", "deep"), ("deep", "fp16_mode")):
        common = {key: given[key] for key in order}
        assert params(section(common_config=common)).precision == "fp32"


def test_a_choice_may_differ_in_its_case() -> None:
    assert params(section(precision="FP16")).precision == "fp16"


def test_explicit_fields_override_the_config() -> None:
    assert params(section(level=3), level=4).level == 4
    config = {**section(), "onnx_config": {"input_shape": [8, 8]}}
    assert params(config, input_shapes="x:1x2").input_shapes == {"x": (1, 2)}


def test_model_inputs() -> None:
    shapes = {"min_shape": [1, 3], "opt_shape": [2, 3], "max_shape": [4, 3]}
    found = params(section(model_inputs=[{"input_shapes": {"x": shapes}}]))
    assert found.min_shapes == {"x": (1, 3)}
    assert found.input_shapes == {"x": (2, 3)}
    assert found.max_shapes == {"x": (4, 3)}
    assert params(section(model_inputs=[{"opt_shapes": {"x": [2, 3]}}])).input_shapes == {
        "x": (2, 3)
    }
    open_ = params(section(model_inputs=[{"input_shapes": {"x": [-1, 3]}}]))
    assert (open_.input_shapes, open_.min_shapes) == ({"x": (None, 3)}, {})
    assert params(section(model_inputs={"opt_shapes": {"x": [1]}})).input_shapes == {"x": (1,)}


def test_other_sections_reach_the_params() -> None:
    config = {
        **section(),
        "onnx_config": {
            "input_shape": [96, 64],
            "input_names": ["input"],
            "save_file": "end2end.onnx",
        },
    }
    found = params(config)
    assert found.input_shapes == {"input": (1, 3, 64, 96)}
    assert found.file_name == "end2end.str"


def test_the_data_set_of_a_config() -> None:
    problems = Problems()
    found = read_sections({"calib_config": {"calib_file": "recorded.npz"}}, problems)
    assert (found.calib.data, problems, problems.notes) == ("recorded.npz", [], [])
    created = {"create_calib": True, "calib_file": "calib_data.h5"}
    assert read_sections({"calib_config": created}, problems).calib.data is None
    assert problems == []
    assert problems.notes == [
        "calib_config.create_calib: pass the data set to deploy with --data (data=…)"
    ]


@pytest.mark.parametrize(
    ("config", "message", "hint"),
    [
        (
            {"onxx_config": {}},
            "'onxx_config' is not a key of the config",
            "did you mean 'onnx_config'?",
        ),
        ({"backend_config": 3}, "'backend_config' is a int: expected keys and values", None),
        (section(type=3), "expected the name of a backend, found 3", None),
        (
            section(levle=3),
            (
                "'levle' is not a key of backend_config; available: "
                "common_config, device, file_name, input_shapes, level, max_shapes, min_shapes, "
                "model_inputs, precision, type"
            ),
            "did you mean 'level'?",
        ),
        (
            section(level="3"),
            "'3' does not fit backend_config.level: expected int, found str",
            None,
        ),
        (section(work_dir="x"), "'work_dir' is not a key of backend_config", None),
        (
            section(precision="fp17"),
            "'fp17' does not fit backend_config.precision: expected one of 'fp32', 'fp16'",
            "did you mean 'fp16'?",
        ),
        (
            section(common_config={"fp16_mod": True}),
            (
                "'fp16_mod' is not a key of "
                "backend_config.common_config; available: deep, fp16_mode, size"
            ),
            "did you mean 'fp16_mode'?",
        ),
        (section(common_config=[1]), "'common_config' is a list: expected keys and values", None),
        (
            section(common_config={"fp16_mode": 1}),
            "1 does not fit backend_config.common_config.fp16_mode: expected bool, found int",
            None,
        ),
        (section(common_config={"deep": {"mode": "odd"}}), "odd is not served", "write even"),
        (section(model_inputs=[{}, {}]), "expected one entry for the whole model, found 2", None),
        (section(model_inputs=[3]), "expected the key 'input_shapes', found int", None),
        (
            section(model_inputs=[{"shapes": {}}]),
            "'shapes' is not a key of backend_config.model_inputs.0",
            None,
        ),
        (
            section(model_inputs=[{"input_shapes": [1]}]),
            "expected a shape for each input, found list",
            None,
        ),
        (
            section(model_inputs=[{"input_shapes": {"x": {"min_shape": ["a"], "max_shape": [1]}}}]),
            "['a'] is not a shape: expected a list of integers",
            None,
        ),
        (
            section(input_shapes="x:4", min_shapes="x:5"),
            "the shapes of 'x' are out of order in dim 0",
            None,
        ),
        (
            {"onnx_config": {"type": "torchscript"}},
            "'onnx_config' requires type 'onnx', found 'torchscript'",
            "rename the section to ir_config",
        ),
        (
            {"ir_config": {"opset_version": 0}},
            "0 does not fit ir_config.opset_version: expected int >= 1",
            None,
        ),
        (
            {"ir_config": {"export_params": False}},
            "False does not fit ir_config.export_params: expected one of True",
            None,
        ),
        ({"ir_config": {"input_shape": [1]}}, "[1] does not fit ir_config.input_shape", None),
        (
            {"partition_config": {"type": "two_stage", "partition_cfg": []}},
            "'partition_cfg' is empty: expected at least one part",
            "write export_config = dict(cuts=['MARK', …])",
        ),
        (
            {**section(), "calib_config": {"calib_file": "a.h5"}},
            "'a.h5' is not a data set: expected an .npz file, a folder, or file.py:attr",
            "write it with numpy.savez, one array for each input",
        ),
        (
            {"export_config": {"exporters": "dynamo"}},
            "'exporters' is not a key of export_config; available: cuts, exporter, ",
            "did you mean 'exporter'?",
        ),
        (
            {"ir_config": {"exporter": "dynamo"}},
            "'exporter' is not a key of ir_config; available: ",
            "write exporter in export_config",
        ),
        (
            {"partition_config": {"cuts": ["neck"]}},
            "'cuts' is not a key of partition_config; available: ",
            "write cuts in export_config",
        ),
        (
            {"export_config": {"rtol": 1e-3}},
            "'rtol' is not a key of export_config; available: ",
            "write rtol in verify_config",
        ),
        (
            {"export_config": {"exporter": "trace"}},
            "'trace' does not fit export_config.exporter: expected one of 'dynamo', 'torchscript'",
            None,
        ),
        (
            {"verify_config": {"rtol": "x"}},
            "'x' does not fit verify_config.rtol: expected flo",
            None,
        ),
        ({"codebase_config": {"task": "x"}}, "'codebase_config' requires the key 'type'", None),
    ],
)
def test_what_is_wrong(config, message, hint) -> None:
    with pytest.raises(ConfigError) as raised:
        params(config)
    assert str(raised.value).startswith(message)
    if hint:
        assert raised.value.hint == hint


def test_extensions_and_variables_are_left_alone() -> None:
    config = {
        "ext_info": {"any": 1},
        "_private": {},
        "size": 3,
        "codebase_config": {"type": "a", "b": 1},
    }
    problems = Problems()
    read_sections(config, problems)
    assert problems == []


def test_ir_config_wins_over_onnx_config() -> None:
    problems = Problems()
    config = {"ir_config": {"type": "torchscript"}, "onnx_config": {"opset_version": 11}}
    found = read_sections(config, problems)
    assert (problems, found.ir.type, found.ir.opset_version) == ([], "torchscript", None)
    assert problems.notes == ["onnx_config has no effect: ir_config overrides it"]


def test_dynamic_axes_get_their_range_from_the_shapes() -> None:
    problems = Problems()
    config = {
        "onnx_config": {
            "input_names": ["input"],
            "dynamic_axes": {
                "input": {"0": "batch", 1: "num * segs", 2: "height"},
                "output": {0: "batch"},
            },
        },
        **section(
            model_inputs=[
                {"input_shapes": {"input": {"min_shape": [1, 3, 8], "max_shape": [1, 3, 16]}}}
            ]
        ),
    }
    sections = read_sections(config, problems)
    stranger = backend_params(eb.get_backend("stranger").Params, sections, problems, over={})
    assert problems == []
    assert dynamic_shapes(sections.ir, stranger) == {
        "input": {
            0: DynamicDim("batch", 1),
            1: DynamicDim("num_segs", 0),
            2: DynamicDim("height", 8, 16, 8),
        }
    }
    assert dynamic_shapes(IRSection(dynamic_axes={"x": (0, 2)}), stranger) == {
        "x": {0: DynamicDim("x_0", 1), 2: DynamicDim("x_2", 0)}
    }
    assert dynamic_shapes(IRSection(), stranger) is None


def test_explicit_settings_override_the_config(write) -> None:
    text = """
        backend_config = dict(type='stranger', level=2, precision='fp16')
        ir_config = dict(type='onnx', opset_version=17, input_names=['a'], output_names=['b'])
        export_config = dict(cuts=['neck'], opset=18)
        verify_config = dict(rtol=1e-3, probes=2)
    """
    given = ExportOptions(input_names=["c"], exporter="dynamo")
    settings = resolve_settings(write("a.py", text), params={"level": 5}, export=given)
    assert (settings.params.level, settings.params.precision) == (5, "fp16")
    export = settings.export
    assert (export.ir, export.opset, export.exporter) == ("onnx", 18, "dynamo")
    assert (export.input_names, export.output_names) == (["c"], ["b"])
    assert export.cuts == ["neck"]
    assert (settings.verify.rtol, settings.verify.probes) == (1e-3, 2)
    over = resolve_settings("a.py", verify=eb.VerifyOptions(rtol=0.5)).verify
    assert (over.rtol, over.probes) == (0.5, 2)
    assert settings.values["backend_config"]["level"] == 2
    assert resolve_settings("a.py", params=settings.params.replace(level=9)).params.level == 9
    other = resolve_settings("a.py", export=ExportOptions(cuts=["head"]))
    assert other.export.cuts == ["head"]


def test_a_config_for_another_backend_is_refused(write, loopback) -> None:
    file = write("a.py", "backend_config = dict(type='stranger')")
    with pytest.raises(ConfigError, match=r"^a.py:1:23: the config is for backend 'stranger', not"):
        resolve_settings(file, backend=loopback)


def test_a_plain_mapping_has_no_locations() -> None:
    with pytest.raises(ConfigError, match=r"^'levle' is not a key of backend_config"):
        resolve_settings(section(levle=1))
