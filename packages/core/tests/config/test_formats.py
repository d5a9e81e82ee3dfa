"""TOML, JSON and YAML: the same values, and errors with their place."""

from __future__ import annotations

import sys

import pytest

from enginebay.config import load, read
from enginebay.errors import MissingDependencyError

SAME = {
    "a.toml": """
        [backend_config]
        type = "ncnn"
        threads = 2
        [[backend_config.model_inputs]]
        input_shapes = {input = {min_shape = [1, 3], opt_shape = [2, 3]}}
        [onnx_config]
        input_names = ["input"]
        "dynamic_axes".input = {0 = 'batch'}
    """,
    "a.json": """
        {"backend_config": {"type": "ncnn", "threads": 2, "model_inputs": [
            {"input_shapes": {"input": {"min_shape": [1, 3], "opt_shape": [2, 3]}}}]},
         "onnx_config": {"input_names": ["input"], "dynamic_axes": {"input": {"0": "batch"}}}}
    """,
    "a.yaml": """
        backend_config:
          type: ncnn
          threads: 2
          model_inputs:
          - input_shapes: {input: {min_shape: [1, 3], opt_shape: [2, 3]}}
        onnx_config:
          input_names: [input]
          dynamic_axes: {input: {"0": batch}}
    """,
    "a.py": """
        backend_config = dict(type="ncnn", threads=2, model_inputs=[
            dict(input_shapes=dict(input=dict(min_shape=[1, 3], opt_shape=[2, 3])))])
        onnx_config = dict(input_names=["input"], dynamic_axes=dict(input={"0": "batch"}))
    """,
}


@pytest.fixture(autouse=True)
def _with_yaml() -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")


@pytest.mark.parametrize("name", SAME)
def test_each_format_gives_the_same(loaded, name) -> None:
    assert loaded((name, SAME[name])) == loaded(("b.py", SAME["a.py"]))


INPUT = ("backend_config", "model_inputs", 0, "input_shapes", "input")


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize(
    "path",
    [
        ("backend_config",),
        ("backend_config", "threads"),
        INPUT,
        (*INPUT, "opt_shape"),
        ("onnx_config", "dynamic_axes"),
        ("onnx_config", "dynamic_axes", "input", "0"),
    ],
)
def test_every_key_has_its_place(write, name, path) -> None:
    file = write(name, SAME[name])
    place = read(file).find(path)
    assert place.file == name
    line = file.read_text().splitlines()[place.line - 1]
    assert line[place.column - 1 :].lstrip("\"'").startswith(path[-1])


def test_a_place_that_is_known_by_heart(write) -> None:
    file = write("a.toml", "[a]\nb = 1\n[[a.c]]\nd = 1\n[[a.c]]\nd = {e = 1, f.g = [{h = 1}]}")
    table = read(file)
    assert str(table.find(("a", "b"))) == "a.toml:2:1"
    assert str(table.find(("a", "c", 0, "d"))) == "a.toml:4:1"
    assert str(table.find(("a", "c", 1, "d", "f", "g", 0, "h"))) == "a.toml:6:21"
    assert str(table.find(("a", "c", 1, "nothing"))) == "a.toml:3:5"
    assert table.find(("nothing",)) is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"a": 1,\n "a": 2}', "a.json:2:2: the key 'a' comes twice"),
        ("a.json", '{"a": [}', "a.json:1:8: this is not JSON: Expecting value"),
        ("a.json", "[1]", "a.json:1:1: a config holds keys and values, found list"),
        ("a.json", '{"a": NaN}', "a.json:1:7: NaN is not JSON"),
        ("a.json", '{"a": ' + "[" * 99999, "a.json:1:1: this JSON cannot be read: maximum rec"),
        ("a.json", '{"a": ' + "[" * 99 + "]" * 99 + "}", "a.json:1:2: values are nested more"),
        ("a.json", '{"a": 1' + "0" * 5000 + "}", "a.json:1:1: this JSON cannot be read: Exceeds"),
        ("a.json", '{"\\ud800": 1}', "a.json:1:2: a text holds half of a surrogate pair"),
        ("a.toml", "a = 1\na = 2", "a.toml:2:1: this is not TOML: Cannot overwrite a value"),
        ("a.toml", "a = [1,", "a.toml:1:1: this is not TOML: Invalid value"),
        ("a.toml", "a = 1\nb = 1979-05-27", "a.toml:2:1: a config cannot hold a date"),
        ("a.toml", "a = " + "[" * 3000, "a.toml:1:56: values are nested more than 50 deep"),
        ("a.toml", ".".join("a" * 50_000) + "=1", "a.toml:1:101: a key has more than 50 parts"),
        ("a.toml", "[" + ".".join("a" * 50_000) + "]", "a.toml:1:102: a key has more than 50"),
        ("a.toml", "a = 0x" + "f" * 5000, "a.toml:1:1: an integer has more than 1024 bits"),
        ("a.yaml", "a: 1\na: 2", "a.yaml:2:1: the key 'a' comes twice"),
        ("a.yaml", "a: [1", "a.yaml:2:1: this is not YAML: did not find expected ',' or ']'"),
        ("a.yaml", "a: &x [*x]", "a.yaml:1:4: this is not YAML: found unconstructable recursive"),
        ("a.yaml", "b: {<<: {a: 1}}", "a.yaml:1:5: a config cannot use a merge key '<<'"),
        ("a.yaml", "a:\n  b: 2020-01-01", "a.yaml:2:3: a config cannot hold a date"),
        ("a.yaml", "? [a]\n: 1", "a.yaml:1:3: a list cannot be a key"),
        ("a.yaml", "a: !!python/name:os.system x", "a.yaml:1:4: this is not YAML: could not det"),
        ("a.yaml", "[" * 99_999, "a.yaml:1:49: values are nested more than 50 deep"),
        ("a.txt", "a = 1", "'a.txt' is not a config: wanted a file with .py, .toml, .json, .yaml"),
    ],
)
def test_what_is_wrong_has_its_place(refused, name, text, message) -> None:
    assert refused((name, text)).startswith(message)


def test_aliases_that_grow_are_refused(refused) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 8)}]" for i in range(7)]
    assert "more than 200000 values" in refused(("a.yaml", "\n".join(lines)))


def test_yaml_without_a_parser_says_what_to_install(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingDependencyError, match="is YAML, and no parser of it") as raised:
        load(write("a.yaml", "a: 1"))
    assert raised.value.hint == "pip install pyyaml, or write the config as .toml, .json or .py"


def test_files_that_cannot_be_read(folder, refused) -> None:
    from enginebay.errors import ConfigError

    (folder / "folder.py").mkdir()
    (folder / "bytes.py").write_bytes(b"x = '\xff'")
    for name, message in {
        "none.py": "the config 'none.py' does not exist",
        "folder.py": "the config 'folder.py' is not a file",
        "bytes.py": "bytes.py: byte 5 is not UTF-8",
    }.items():
        with pytest.raises(ConfigError, match=message):
            load(name)


def test_a_byte_order_mark_and_any_line_ends_are_read(folder) -> None:
    (folder / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    assert load("a.py") == {"x": 1, "y": 2}
