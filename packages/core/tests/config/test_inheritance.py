"""`_base_`: inheriting from other files, and overriding them."""

from __future__ import annotations

import os
import time

import pytest

from enginebay.config import read_config


def test_dicts_are_merged_and_everything_else_is_replaced(loaded) -> None:
    base = "x = dict(a=1, b=dict(c=[1, 2], d=2), e=(1,))\ny = 3"
    mine = "_base_ = 'b.py'\nx = dict(b=dict(c=[3]), e=None, f=dict(g=1))\nz = 4"
    assert loaded(("a.py", mine), ("b.py", base)) == {
        "x": {"a": 1, "b": {"c": [3], "d": 2}, "e": None, "f": {"g": 1}},
        "y": 3,
        "z": 4,
    }


def test_bases_are_a_path_or_a_list_relative_to_the_file(loaded) -> None:
    found = loaded(
        ("one/two/a.py", "_base_ = ['../b.toml', './c.json']\nx = dict(m=3)"),
        ("one/b.toml", "_base_ = ['../d.py']\n[x]\nm = 1\nn = 1"),
        ("one/two/c.json", '{"_base_": "../../e.py", "y": 2}'),
        ("d.py", "x = dict(o=1)"),
        ("e.py", "z = 1"),
    )
    assert found == {"x": {"o": 1, "m": 3, "n": 1}, "z": 1, "y": 2}


def test_delete_replaces_the_dict_of_the_base(loaded) -> None:
    base = ("b.py", "x = dict(a=1, b=dict(c=1, d=2))")
    assert loaded(("a.py", "_base_ = 'b.py'\nx = dict(_delete_=True, e=1)"), base) == {
        "x": {"e": 1}
    }
    assert loaded(("a.py", "_base_ = 'b.py'\nx = dict(b=dict(_delete_=True, e=1))"), base) == {
        "x": {"a": 1, "b": {"e": 1}}
    }
    assert loaded(("a.py", "_base_ = 'b.py'\nx = dict(_delete_=False, e=1)"), base) == {
        "x": {"a": 1, "b": {"c": 1, "d": 2}, "e": 1}
    }
    assert loaded(("a.py", "x = dict(_delete_=True, y=[dict(_delete_=True, z=1)])")) == {
        "x": {"y": [{"z": 1}]}
    }


def test_a_dict_over_something_else_is_refused_and_delete_allows_it(refused, loaded) -> None:
    base = ("b.py", "x = dict(a=[1])")
    assert refused(("a.py", "_base_ = 'b.py'\nx = dict(a=dict(b=1))"), base) == (
        "a.py:2:10: 'a' is a dict here and a list in the base: they cannot be merged"
    )
    assert loaded(("a.py", "_base_ = 'b.py'\nx = dict(a=dict(_delete_=True, b=1))"), base) == {
        "x": {"a": {"b": 1}}
    }


def test_integer_keys_stay_and_are_met_by_formats_that_have_none(loaded) -> None:
    base = ("b.py", "axes = dict(input={0: 'batch', 2: 'height'})")
    assert loaded(base) == {"axes": {"input": {0: "batch", 2: "height"}}}
    assert loaded(("a.py", "_base_ = 'b.py'\naxes = dict(input={2: 'h', 3: 'w'})"), base) == {
        "axes": {"input": {0: "batch", 2: "h", 3: "w"}}
    }
    assert loaded(("a.toml", "_base_ = 'b.py'\n[axes.input]\n2 = 'h'\n3 = 'w'"), base) == {
        "axes": {"input": {0: "batch", 2: "h", "3": "w"}}
    }


def test_a_base_that_is_inherited_twice_is_read_once(loaded) -> None:
    assert loaded(
        ("a.py", "_base_ = ['b.py', 'c.py']"),
        ("b.py", "_base_ = 'd.py'\ny = 1"),
        ("c.py", "_base_ = 'd.py'\nz = 1"),
        ("d.py", "x = 1"),
    ) == {"x": 1, "y": 1, "z": 1}


def test_a_ladder_of_diamonds_takes_no_time(write) -> None:
    for step in range(18):
        write(f"l{step}.py", f"_base_ = 'm{step + 1}.py'")
        write(f"r{step}.py", f"_base_ = 'm{step + 1}.py'")
        write(f"m{step}.py", f"_base_ = ['l{step}.py', 'r{step}.py']")
    write("m18.py", "x = 1")
    started = time.process_time()
    # 18 levels are 36 files in a row: more than are allowed, 2**18 ways to the last one.
    from enginebay.errors import ConfigError

    with pytest.raises(ConfigError, match="more than 20 files inherit from each other"):
        read_config("m0.py")
    assert read_config("m10.py") == {"x": 1}
    assert time.process_time() - started < 5


def test_conflicting_bases_are_refused(refused) -> None:
    assert refused(
        ("a.py", "_base_ = ['b.py', 'c.py']"), ("b.py", "x = 1"), ("c.py", "y = 2\nx = 2")
    ) == ("c.py:2:1: two bases have different values for 'x': the other value is at b.py:1:1")


def test_circular_bases_are_refused(refused) -> None:
    assert refused(("a.py", "_base_ = './a.py'")) == (
        "a.py:1:10: the config inherits from itself: a.py → a.py"
    )
    assert (
        refused(
            ("a.py", "_base_ = 'b.toml'"),
            ("b.toml", "_base_ = ['sub/c.json']"),
            ("sub/c.json", '{"_base_": "../a.py"}'),
        )
        == "sub/c.json: _base_: the config inherits from itself: a.py → b.toml → sub/c.json → a.py"
    )


def test_a_long_line_of_bases_is_refused(write, refused) -> None:
    for step in range(30):
        write(f"s{step}.py", f"_base_ = 's{step + 1}.py'")
    assert "more than 20 files inherit from each other" in refused(("a.py", "_base_ = 's0.py'"))


def test_too_many_bases_are_refused(write, refused) -> None:
    for step in range(120):
        write(f"s{step}.py", f"x{step} = 1")
    names = [f"s{step}.py" for step in range(120)]
    assert "the config has more than 100 files" in refused(("a.py", f"_base_ = {names}"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("3", "'_base_' is 3: expected a path or a list of paths"),
        ("[1]", "'_base_' is [1]: expected a path or a list of paths"),
        ("'none.py'", "the config 'none.py' does not exist"),
        ("'mmpretrain::a.py'", "'mmpretrain::a.py' in '_base_' is not a path"),
        ("''", "'' in '_base_' is not a path"),
        ("'/etc/passwd'", "'/etc/passwd' is not a config: expected a file with .py"),
        ("'pipe.py'", "the config 'pipe.py' is not a file"),
        ("base", "'base' is not defined here"),
    ],
)
def test_invalid_values_of_base(refused, folder, value, message) -> None:
    os.mkfifo(folder / "pipe.py")
    assert refused(("a.py", f"base = 'x'\n_base_ = {value}")).partition(": ")[2].startswith(message)


def test_base_is_given_once(refused, write) -> None:
    write("b.py", "")
    assert refused(("a.py", "_base_ = 'b.py'\n_base_ = []")) == (
        "a.py:2:1: '_base_' is assigned a second time"
    )
