"""`{{fileDirname}}`, `{{_base_.x}}`, `_base_.x` and `{{$NAME:default}}`, in every format."""

from __future__ import annotations

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed")

TEXTS = {
    "a.py": "x = {}",
    "a.toml": "x = {}",
    "a.json": '{{"x": {}}}',
    "a.yaml": "x: {}",
}
BASE = ("b.py", "n = 3\nd = dict(e=dict(f=[1, 2]), t='text')\n")


def config(name: str, value: str, *, base: bool = False) -> tuple[str, str]:
    text = TEXTS[name].format(value)
    if base and name == "a.json":
        return name, text.replace('{"x"', '{"_base_": "b.py", "x"')
    return name, ('_base_: "b.py"\n' if name == "a.yaml" else '_base_ = "b.py"\n') * base + text


@pytest.mark.parametrize("name", TEXTS)
def test_variables_of_the_file(loaded, folder, name) -> None:
    text = '"{{fileDirname}}|{{ fileBasename }}|{{fileBasenameNoExtension}}|{{fileExtname}}"'
    suffix = name.removeprefix("a")
    assert loaded(config(name, text)) == {"x": f"{folder.as_posix()}|{name}|a|{suffix}"}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("{{_base_.n}}", 3),
        ("{{ _base_.d.e }}", {"f": [1, 2]}),
        ('"{{_base_.d.e.f}}"', [1, 2]),
        ('["{{_base_.n}}", "a {{_base_.d.t}}"]', [3, "a text"]),
    ],
)
def test_names_of_the_base(loaded, name, value, wanted) -> None:
    assert loaded(config(name, value, base=True), BASE)["x"] == wanted


def test_names_of_the_base_in_python(loaded) -> None:
    text = "_base_ = 'b.py'\nx = dict(y=_base_.d.e, n=_base_.n + 1)\nd = dict(t='own')"
    found = loaded(("a.py", text), BASE)
    assert found["x"] == {"y": {"f": [1, 2]}, "n": 4}
    assert found["d"] == {"e": {"f": [1, 2]}, "t": "own"}


@pytest.mark.parametrize("name", TEXTS)
def test_environment_variables_only_when_allowed(loaded, refused, name) -> None:
    inside, bare = '"{{$SIZE:80}}/{{ $OTHER : o }}"', "{{$SIZE:80}}"
    assert "asks for the environment variable 'SIZE', which is not allowed here" in refused(
        config(name, inside)
    )
    assert loaded(config(name, inside), environment={}) == {"x": "80/o"}
    assert loaded(config(name, inside), environment={"SIZE": "7", "OTHER": "p"}) == {"x": "7/p"}
    assert loaded(config(name, bare), environment={"SIZE": "7"}) == {"x": 7}
    assert loaded(config(name, bare), environment={"SIZE": "seven"}) == {"x": "seven"}
    assert loaded(config(name, "{{'$SIZE:80'}}"), environment={}) == {"x": 80}
    assert loaded(config(name, '"{{$SIZE:80}}"'), environment={}) == {"x": "80"}


@pytest.mark.parametrize("value", ["1', y='2", '"]\nimport os', "{{fileDirname}}", "9" * 5000])
@pytest.mark.parametrize("name", TEXTS)
def test_a_variable_is_a_value_whatever_it_holds(loaded, name, value) -> None:
    assert loaded(config(name, "{{$V:}}"), environment={"V": value}) == {"x": value}
    assert loaded(config(name, '"{{$V:}}"'), environment={"V": value}) == {"x": value}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_not_there(refused, name) -> None:
    assert "{{$V:}} has no default, and the environment variable 'V' is not set" in refused(
        config(name, '"{{$V:}}"'), environment={}
    )
    assert "there is no 'm' in '_base_'" in refused(config(name, "{{_base_.m}}", base=True), BASE)
    assert "there is no 'g' in '_base_.d.e'" in refused(
        config(name, "{{_base_.d.e.g}}", base=True), BASE
    )
    assert "is a list and stands inside a text" in refused(
        config(name, '"a{{_base_.d.e.f}}"', base=True), BASE
    )


def test_braces_that_are_no_template_stay(loaded) -> None:
    assert loaded(("a.json", '{"x": "{{ name }}", "y": "{{}}"}')) == {
        "x": "{{ name }}",
        "y": "{{}}",
    }
    assert loaded(("a.py", "i = 1\nx = f'{{{i}}}'"))["x"] == "{1}"


def test_a_template_in_a_key(loaded) -> None:
    assert loaded(("a.py", "x = {'{{fileBasename}}': 1}")) == {"x": {"a.py": 1}}
    assert loaded(("a.toml", "'{{fileBasename}}' = 1")) == {"a.toml": 1}


def test_places_after_a_template_are_right(refused) -> None:
    text = "x = '{{fileDirname}}'; y = z"
    assert refused(("a.py", text)).startswith(f"a.py:1:{text.index('z') + 1}: 'z' has no value")
