"""TOML, JSON and YAML: the same values, and errors with the key path."""

from __future__ import annotations

import sys

import pytest

from enginebay.config import read_config, read_table
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
def test_every_key_has_its_location(write, name, path) -> None:
    file = write(name, SAME[name])
    place = read_table(file).find(path)
    assert place.file == name
    if name != "a.py":
        assert str(place) == f"{name}: {'.'.join(map(str, path))}"
        return
    line = file.read_text().splitlines()[place.line - 1]
    assert line[place.column - 1 :].lstrip("\"'").startswith(path[-1])


def test_locations_in_nested_toml(write) -> None:
    file = write("a.toml", "[a]\nb = 1\n[[a.c]]\nd = 1\n[[a.c]]\nd = {e = 1, f.g = [{'h i' = 1}]}")
    table = read_table(file)
    assert str(table.find(("a", "b"))) == "a.toml: a.b"
    assert str(table.find(("a", "c", 0, "d"))) == "a.toml: a.c.0.d"
    path = ("a", "c", 1, "d", "f", "g", 0, "h i")
    assert str(table.find(path)) == "a.toml: a.c.1.d.f.g.0.'h i'"
    assert str(table.find(("a", "c", 1, "nothing"))) == "a.toml: a.c.1"
    assert str(table.find(("a", "c", 2, "nothing"))) == "a.toml: a.c"
    assert table.find(("nothing",)) is None


def test_an_inherited_key_has_its_location_in_the_base(write) -> None:
    write("base.json", '{"a": {"b": 1, "c": 2}}')
    table = read_table(write("a.py", "_base_ = 'base.json'\na = dict(c=3)"))
    assert str(table.find(("a", "b"))) == "base.json: a.b"
    assert str(table.find(("a", "c"))) == "a.py:2:10"


DEEP = "a" + ".0" * 50


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.json",
            '{"a": 1,\n "a": 2}',
            "a.json: invalid JSON: duplicate key 'a'",
        ),
        (
            "a.json",
            '{"a": [}',
            "a.json: invalid JSON: Expecting value: line 1 column 8",
        ),
        ("a.json", "[1]", "a.json: expected keys and values, found list"),
        ("a.json", '{"a": NaN}', "a.json: invalid JSON: NaN is not JSON"),
        ("a.json", '{"a": ' + "[" * 99999, "a.json: values are nested more than 50 levels deep"),
        ("a.json", '{"a": ' + "[" * 99 + "]" * 99 + "}", f"a.json: {DEEP}: values are nested more"),
        ("a.json", '{"a": 1' + "0" * 5000 + "}", "a.json: invalid JSON: Exceeds"),
        ("a.json", '{"\\ud800": 1}', "a.json: a text contains half of a surrogate pair"),
        (
            "a.json",
            '{"a": {"b": "\\ud800"}}',
            "a.json: a.b: a text contains half of a surrogate pair",
        ),
        ("a.toml", "a = 1\na = 2", "a.toml: invalid TOML: Cannot overwrite a value"),
        (
            "a.toml",
            "a = [1,\n=",
            "a.toml: invalid TOML: Invalid value (at line 2, column 1)",
        ),
        ("a.toml", "a = 1\nb = 1979-05-27", "a.toml: b: a config cannot contain a date"),
        ("a.toml", "a = " + "[" * 3000, "a.toml: values are nested more than 50 levels deep"),
        (
            "a.toml",
            ".".join("a" * 50_000) + "=1",
            "a.toml: invalid TOML: a dotted key has more than 50 parts",
        ),
        (
            "a.toml",
            "[" + " . ".join(["a", "'b'", '"c"'] * 9_000) + "]",
            "a.toml: invalid TOML: a dotted key has more than 50 parts",
        ),
        ("a.toml", "a = 0x" + "f" * 5000, "a.toml: a: an integer has more than 1024 bits"),
        (
            "a.yaml",
            "a: 1\na: 2",
            "a.yaml: invalid YAML: duplicate key 'a' (at line 2, column 1)",
        ),
        (
            "a.yaml",
            "a: [1",
            "a.yaml: invalid YAML: expected ',' or ']', but got '<stream end>' (at li",
        ),
        ("a.yaml", "a: &x [*x]", f"a.yaml: {DEEP}: values are nested more than 50 levels deep"),
        (
            "a.yaml",
            "b: {<<: {a: 1}}",
            "a.yaml: invalid YAML: a config cannot use a merge key '<<', only _base_ (",
        ),
        ("a.yaml", "a:\n  b: 2020-01-01", "a.yaml: a.b: a config cannot contain a date"),
        (
            "a.yaml",
            "? [a]\n: 1",
            "a.yaml: invalid YAML: found unhashable key (at line 1",
        ),
        (
            "a.yaml",
            "a: !!python/name:os.system x",
            "a.yaml: invalid YAML: could not det",
        ),
        ("a.yaml", "[" * 99_999, "a.yaml: values are nested more than 50 levels deep"),
        (
            "a.yaml",
            "a: !!int ''",
            "a.yaml: invalid YAML: '' is not of type int (at line",
        ),
        (
            "a.yaml",
            "a: !!float ''",
            "a.yaml: invalid YAML: '' is not of type float (at",
        ),
        ("a.yaml", "a: !!bool foo", "a.yaml: invalid YAML: 'foo' is not of type bool"),
        (
            "a.yaml",
            "a: !!timestamp foo",
            "a.yaml: invalid YAML: 'foo' is not of type ti",
        ),
        (
            "a.yaml",
            "a: 2020-13-45",
            "a.yaml: invalid YAML: '2020-13-45' is not of type ti",
        ),
        (
            "a.yaml",
            "a: !!map [a]",
            "a.yaml: invalid YAML: expected a mapping node, but",
        ),
        ("a.yaml", "a: !!set {b}", "a.yaml: a: a config cannot contain a set"),
        ("a.yaml", "a: 1" + "0" * 5000, "a.yaml: invalid YAML: '1000"),
        ("a.yaml", 'a: "\\ud800"', "a.yaml: a: a text contains half of a surrogate pair"),
        ("a.yaml", "a: \0", "a.yaml: invalid YAML: unacceptable character #x0000"),
        (
            "a.txt",
            "a = 1",
            "'a.txt' is not a config: expected a file with .py, .toml, .json, .yaml",
        ),
    ],
)
def test_errors_have_their_location(refused, name, text, message) -> None:
    found = refused((name, text))
    assert found.startswith(message)
    assert "\n" not in found


def test_aliases_that_grow_are_refused(refused) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 8)}]" for i in range(7)]
    assert "more than 200000 values" in refused(("a.yaml", "\n".join(lines)))


def test_keys_that_hold_aliases_that_grow_are_refused(refused) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 8)}]" for i in range(20)]
    assert "found unhashable key" in refused(("a.yaml", "\n".join([*lines, "? *a20\n: 1"])))


def test_yaml_without_a_parser_says_what_to_install(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "enginebay.config.yaml_loader", raising=False)
    with pytest.raises(MissingDependencyError, match="requires a parser of YAML") as raised:
        read_config(write("a.yaml", "a: 1"))
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
            read_config(name)


def test_a_byte_order_mark_and_any_line_ends_are_read(folder) -> None:
    (folder / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    assert read_config("a.py") == {"x": 1, "y": 2}
