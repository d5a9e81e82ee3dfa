"""The JSON Schema accepts and refuses the same configs as the reader."""

from __future__ import annotations

import json

import jsonschema
import pytest

import enginebay as eb
from enginebay.errors import ConfigError
from enginebay_lab.configs.schema import config_schema
from enginebay_testing.loopback import LoopbackParams


@pytest.fixture(scope="module")
def schema(loopback):
    found = config_schema({"loopback": LoopbackParams})
    jsonschema.Draft202012Validator.check_schema(found)
    return json.loads(json.dumps(found))


GOOD = [
    {},
    {"$schema": "x.json", "_base_": ["a.py"], "ext_mine": {"a": 1}, "_size": 3},
    {"backend_config": {"type": "loopback", "gain": 2.5, "device": None, "file_name": "net"}},
    {
        "backend_config": {
            "type": "loopback",
            "input_shapes": "x:1x3",
            "min_shapes": {"x": [1, None]},
        }
    },
    {"backend_config": {"type": "loopback", "model_inputs": [{"input_shapes": {"x": [1, 3]}}]}},
    {
        "onnx_config": {
            "input_shape": None,
            "dynamic_axes": {"x": {"0": "batch"}},
            "opset_version": 17,
        }
    },
    {"onnx_config": {"dynamic_axes": {"x": [0, 2]}, "input_names": ["x"], "input_shape": [8, 8]}},
    {"codebase_config": {"type": "mine", "task": "Classification", "own": {"a": [1]}}},
    {"export_config": {"cuts": ["neck"], "exporter": "dynamo", "input_names": ["x"]}},
    {"verify_config": {"domain": {"x": [0, 1]}, "compare": {"a,b": "set"}, "strict": True}},
    {"calib_config": {"calib_file": "a.npz"}},
    {"partition_config": {"type": "a", "partition_cfg": [{"start": "b:input", "end": ["c"]}]}},
]
BAD = [
    {"onxx_config": {}},
    {"backend_config": {"type": "loopback", "gian": 1}},
    {"backend_config": {"type": "loopback", "gain": "much"}},
    {"backend_config": {"type": "loopback", "model_inputs": [{"shapes": {}}]}},
    {"onnx_config": {"input_shape": [1]}},
    {"onnx_config": {"opset_version": 0}},
    {"onnx_config": {"type": "onxx"}},
    {"onnx_config": {"export_params": False}},
    {"ir_config": {"input_nmes": []}},
    {"partition_config": {"cut": []}},
    {"export_config": {"cut": []}},
    {"verify_config": {"probes": "few"}},
]


@pytest.mark.parametrize("config", GOOD, ids=str)
def test_what_is_accepted(schema, loopback, config) -> None:
    jsonschema.validate(config, schema)
    known = {name: value for name, value in config.items() if name != "_base_"}
    eb.get_backend(loopback).build_param_from_config(known)


@pytest.mark.parametrize("config", BAD, ids=str)
def test_what_is_refused(schema, loopback, config) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config, schema)
    with pytest.raises(ConfigError):
        eb.get_backend(loopback).build_param_from_config(config)


def test_a_backend_that_is_not_installed_is_left_alone(schema) -> None:
    jsonschema.validate({"backend_config": {"type": "tvm", "anything": 1}}, schema)


def test_keys_are_described(schema) -> None:
    (loopback, _) = schema["properties"]["backend_config"]["anyOf"]
    assert loopback["properties"]["device"]["description"]
    assert schema["properties"]["onnx_config"]["properties"]["input_shape"][
        "description"
    ].startswith("Width and height")
