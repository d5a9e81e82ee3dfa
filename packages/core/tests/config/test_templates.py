"""`{{fileDirname}}`, `{{_base_.x}}`, `_base_.x` and `{{$NAME:default}}`, only in `.py` configs."""

from __future__ import annotations

import pytest

BASE = ("b.py", "n = 3\nd = dict(e=dict(f=[1, 2]), t='text')\n")


def config(value: str, *, base: bool = False) -> tuple[str, str]:
    return "a.py", '_base_ = "b.py"\n' * base + f"x = {value}"


@pytest.mark.parametrize("prefix", ["", "f"])
def test_variables_of_the_file(loaded, folder, prefix) -> None:
    text = '"{{fileDirname}}|{{ fileBasename }}|{{fileBasenameNoExtension}}|{{fileExtname}}"'
    assert loaded(config(prefix + text)) == {"x": f"{folder.as_posix()}|a.py|a|.py"}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("{{_base_.n}}", 3),
        ("{{ _base_.d.e }}", {"f": [1, 2]}),
        ('"{{_base_.d.e.f}}"', [1, 2]),
        ('["{{_base_.n}}", "a {{_base_.d.t}}"]', [3, "a text"]),
        ('f"{1 + 1} {{_base_.d.t}}"', "2 text"),
    ],
)
def test_names_of_the_base(loaded, value, wanted) -> None:
    assert loaded(config(value, base=True), BASE)["x"] == wanted


def test_names_of_the_base_in_python(loaded) -> None:
    text = "_base_ = 'b.py'\nx = dict(y=_base_.d.e, n=_base_.n + 1)\nd = dict(t='own')"
    found = loaded(("a.py", text), BASE)
    assert found["x"] == {"y": {"f": [1, 2]}, "n": 4}
    assert found["d"] == {"e": {"f": [1, 2]}, "t": "own"}


def test_environment_variables_only_when_allowed(loaded, refused) -> None:
    inside, bare = '"{{$SIZE:80}}/{{ $OTHER : o }}"', "{{'$SIZE:80'}}"
    assert "reads the environment variable 'SIZE', which is not allowed here" in refused(
        config(inside)
    )
    assert loaded(config(inside), environment={}) == {"x": "80/o"}
    assert loaded(config(inside), environment={"SIZE": "7", "OTHER": "p"}) == {"x": "7/p"}
    assert loaded(config(bare), environment={"SIZE": "7"}) == {"x": 7}
    assert loaded(config(bare), environment={"SIZE": "seven"}) == {"x": "seven"}
    assert loaded(config(bare), environment={}) == {"x": 80}
    assert loaded(config('"{{$SIZE:80}}"'), environment={}) == {"x": "80"}


@pytest.mark.parametrize("value", ["1', y='2", '"]\nimport os', "{{fileDirname}}", "9" * 5000])
def test_a_variable_is_a_value_whatever_it_holds(loaded, value) -> None:
    assert loaded(config("{{'$V:'}}"), environment={"V": value}) == {"x": value}
    assert loaded(config('"{{$V:}}"'), environment={"V": value}) == {"x": value}


def test_undefined_names_in_templates(refused) -> None:
    assert "{{$V:}} has no default, and the environment variable 'V' is not set" in refused(
        config('"{{$V:}}"'), environment={}
    )
    assert "'_base_' has no key 'm'" in refused(config("{{_base_.m}}", base=True), BASE)
    assert "'_base_.d.e' has no key 'g'" in refused(config("{{_base_.d.e.g}}", base=True), BASE)
    assert "inside a text, found a list" in refused(config('"a{{_base_.d.e.f}}"', base=True), BASE)


def test_braces_that_are_no_template_stay(loaded) -> None:
    assert loaded(("a.json", '{"x": "{{ name }}", "y": "{{}}"}')) == {
        "x": "{{ name }}",
        "y": "{{}}",
    }
    assert loaded(("a.py", "i = 1\nx = f'{{{i}}}'"))["x"] == "{1}"


def test_a_template_in_a_key(loaded) -> None:
    assert loaded(("a.py", "x = {'{{fileBasename}}': 1}")) == {"x": {"a.py": 1}}


def test_locations_after_a_template_are_correct(refused) -> None:
    text = "x = '{{fileDirname}}'; y = z"
    assert refused(("a.py", text)).startswith(
        f"a.py:1:{text.index('z') + 1}: 'z' is not defined here"
    )


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.toml", "a.b = ['{{_base_.n}}']", "a.toml: a.b.0"),
        ("a.json", '{"a": "in {{ _base_.n }}"}', "a.json: a"),
        ("a.yaml", "a: '{{_base_.n}}'", "a.yaml: a"),
    ],
)
def test_a_template_in_another_format_is_refused(refused, name, text, place) -> None:
    if name == "a.yaml":
        pytest.importorskip("yaml", reason="PyYAML is not installed")
    template = text[text.index("{{") : text.index("}}") + 2]
    assert refused((name, text)) == f"{place}: only .py configs can use the template {template}"


def test_a_template_outside_quotes_in_another_format_is_refused(loaded) -> None:
    from enginebay.errors import ConfigError

    with pytest.raises(ConfigError, match=r"^a.json: invalid JSON") as raised:
        loaded(("a.json", '{"a": {{_base_.n}}}'))
    assert raised.value.hint == "only .py configs can use templates"
