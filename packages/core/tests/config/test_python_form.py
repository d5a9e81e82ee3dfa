"""The `.py` form: supported syntax has the same meaning as in Python, and nothing is executed."""

from __future__ import annotations

import sys

import pytest

TAKEN = """
1 ; -1 ; +1.5 ; ~3 ; 1 << 30 ; 7 // 2 ; 7 % 4 ; 2 ** 10 ; 1 / 4 ; 6 & 3 ; 6 ^ 3 ; 6 | 2 ; 2 ** -1
8 >> 1 ; "text" ; "a" "b" ; "a" + "b" ; "ab" * 2 ; 2 * [0] ; (1,) + (2,) ; r"\\d" ; 'é' ; not 1
None ; True ; [] ; [1, [2.5, "x"]] ; (1,) ; () ; {} ; {"a": 1, 2: "b", None: 3} ; 0x1F ; 1e-7
1_000 ; dict() ; dict(a=1, b=dict(c=[1])) ; dict({"a": 1}, b=2) ; dict(**{"a": 1})
{**{"a": 1}, "a": 2} ; list(range(3)) ; tuple(range(1, 7, 2)) ; list((1, 2)) ; list()
[i for i in range(3)] ; {i: i * i for i in range(3)}
[k for k in {"a": 1}] ; [f"p.{i}" for i in range(3)] ; f"{1}{'a'!r}{2.5:.1f}{7:03d}" ; f"{{x}}"
f"{'é'!a:>8}" ; [[i for i in range(j)] for j in range(3)] ; list(range(3, 0, -1)) ; -True
"""
EXPRESSIONS = [one.strip() for line in TAKEN.splitlines() for one in line.split(" ; ") if one]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_means_what_it_means_in_python(loaded, expression) -> None:
    found = loaded(("a.py", f"x = {expression}"))["x"]
    wanted = eval(expression, {})  # the same text, given to Python itself
    assert found == wanted
    assert type(found) is type(wanted)


def test_names_refer_to_earlier_lines(loaded) -> None:
    text = '''
        """A docstring."""
        size = other = 3
        __private = 1
        shape = [1, size, other * 2]  # a comment
        size = 4
        x = dict(shape=shape, size=size, hidden=__private)
    '''
    assert loaded(("a.py", text)) == {
        "size": 4,
        "other": 3,
        "shape": [1, 3, 6],
        "x": {"shape": [1, 3, 6], "size": 4, "hidden": 1},
    }


def test_a_loop_hides_a_name_only_inside(loaded) -> None:
    assert loaded(("a.py", "i = 9\nx = [i for i in range(2)]\ny = i"))["y"] == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nimport os", "a.py:2:1: a config cannot use 'import os'"),
        ("from os import path", "a.py:1:1: a config cannot use 'from os import path'"),
        ("x = __import__('os')", "a.py:1:5: a config cannot use '__import__('os')'"),
        ("x = [1,\n  open('f')]", "a.py:2:3: a config cannot use 'open('f')'"),
        ("x = ''.join(['a'])", "a.py:1:5: a config cannot use '''.join(['a'])'"),
        ("x = ().__class__", "a.py:1:5: a config cannot use '().__class__': only"),
        ("def f(): pass", "a.py:1:1: a config cannot use 'def f(): pass'"),
        ("class A: pass", "a.py:1:1: a config cannot use 'class A: pass'"),
        ("x = lambda: 1", "a.py:1:5: a config cannot use 'lambda: 1'"),
        ("x = [1][0]", "a.py:1:5: a config cannot use '[1][0]'"),
        ("x = {1, 2}", "a.py:1:5: a config cannot use '{1, 2}'"),
        ("x = 1 < 2", "a.py:1:5: a config cannot use '1 < 2'"),
        ("x = 1 and 2", "a.py:1:5: a config cannot use '1 and 2'"),
        ("x = 1 if 2 else 3", "a.py:1:5: a config cannot use '1 if 2 else 3'"),
        ("x = (y := 1)", "a.py:1:6: a config cannot use 'y := 1'"),
        ("x = [*[1]]", "a.py:1:6: a config cannot use '*[1]'"),
        ("x = b'1'", "a.py:1:5: a config cannot use 'b'1''"),
        ("x = 1j", "a.py:1:5: a config cannot use '1j'"),
        ("x: int = 1", "a.py:1:1: a config cannot use 'x: int = 1'"),
        ("x = 1\nx += 1", "a.py:2:1: a config cannot use 'x += 1'"),
        (
            "x, y = 1, 2",
            "a.py:1:1: a config cannot use 'x, y': values can only be assigned to names",
        ),
        (
            "x = {}\nx['a'] = 1",
            "a.py:2:1: a config cannot use 'x['a']': values can only be assigned to names",
        ),
        ("for i in []: pass", "a.py:1:1: a config cannot use 'for i in []: pass'"),
        ("with a: pass", "a.py:1:1: a config cannot use 'with a: pass'"),
        ("del x", "a.py:1:1: a config cannot use 'del x'"),
        ("print('x')", "a.py:1:1: a config cannot use 'print('x')'"),
        (
            "x = [i for i in range(9) if i]",
            "a.py:1:5: a config cannot use '[i for i in range(9) if i]'",
        ),
        (
            "x = [i for a in b for i in a]",
            "a.py:1:5: a config cannot use '[i for a in b for i in a]'",
        ),
        ("x = (i for i in [])", "a.py:1:5: a config cannot use '(i for i in [])'"),
        ("x = y", "a.py:1:5: 'y' is not defined here"),
        ("x = dict", "a.py:1:5: 'dict' is not defined here"),
        ("dict = 1", "a.py:1:1: a config cannot use 'dict': 'dict' is the name of a function"),
        ("x = dict([('a', 1)])", "a.py:1:10: expected a dict to unpack, found list"),
        ("x = range(1.5)", "a.py:1:5: a config cannot use 'range(1.5)': range() takes"),
        ("x = range(1, 2, 0)", "a.py:1:5: 'range(1, 2, 0)': range() arg 3 must not be zero"),
        ("x = list(3)", "a.py:1:5: a config cannot use 'list(3)': list() takes one"),
        ("x = {[]: 1}", "a.py:1:6: a list cannot be a key"),
        ("x = 'a' + 1", "a.py:1:5: ''a' + 1': expected numbers, found str and int"),
        ("x = '%d' % 1", "a.py:1:5: ''%d' % 1': expected numbers, found str and int"),
        ("x = -'a'", "a.py:1:5: '-'a'': expected a number, found str"),
        ("x = ~1.5", "a.py:1:5: '~1.5': bad operand type for unary ~: 'float'"),
        ("x = 1 @ 2", "a.py:1:5: '1 @ 2': unsupported operand type(s) for @: 'int' and 'int'"),
        ("x = 1 / 0", "a.py:1:5: '1 / 0': division by zero"),
        ("x = 1 << -1", "a.py:1:5: '1 << -1': negative shift count"),
        ("x = 2.0 ** 5000", "a.py:1:5: '2.0 ** 5000': Numerical result out of range"),
        ("x = (-1) ** 0.5", "a.py:1:5: '(-1) ** 0.5': the result is a complex number"),
        (
            "x = f'{[1]}'",
            "a.py:1:5: 'f'{[1]}'': expected texts and numbers in an f-string, found list",
        ),
        (
            "x = f'{1:q}'",
            "a.py:1:5: 'f'{1:q}'': unsupported format 'q': expected a format such as 03d",
        ),
        ("x = f'{1.5:d}'", "a.py:1:5: 'f'{1.5:d}'': Unknown format code 'd' for object of type"),
        ("é = 1; x = 'ä' + ö", "a.py:1:18: 'ö' is not defined here"),
        ("x = (1,\n", "a.py:1:5: invalid Python: '(' was never closed"),
        ("x = '\0'", "a.py:1:1: invalid Python: source code string cannot contain null bytes"),
        ("x = '\\ud800'", "a.py:1:5: a text contains half of a surrogate pair"),
    ],
)
def test_unsupported_syntax_is_refused_with_its_location(refused, text, message) -> None:
    assert refused(("a.py", text)).startswith(message)


def test_a_similar_name_is_suggested(refused, loaded) -> None:
    from enginebay.errors import ConfigError

    with pytest.raises(ConfigError) as raised:
        loaded(("a.py", "image_size = 3\nx = imagesize"))
    assert raised.value.hint == "did you mean 'image_size'?"


def test_nothing_is_executed(refused, folder) -> None:
    for text in (
        "x = open('made', 'w')",
        "x = [i for i in [].append(open('made', 'w'))]",
        'x = f\'{open("made", "w")}\'',
        "x = {open('made', 'w'): 1 for i in [1]}",
        "x = dict(a=__builtins__['open']('made', 'w'))",
        "_base_ = open('made', 'w').name",
    ):
        refused(("a.py", text))
        assert sorted(path.name for path in folder.iterdir()) == ["a.py"]
    assert "__builtins__" not in sys.modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 9 ** 9 ** 9", "'9 ** 9 ** 9': the result has more than 1024 bits"),
        ("x = 1 << 100000000", "'1 << 100000000': the result has more than 1024 bits"),
        ("x = 3 * (1 << 1023)", "'3 * (1 << 1023)': the result has more than 1024 bits"),
        ("x = 0x" + "f" * 1000, "an integer has more than 1024 bits"),
        ("x = " + "9" * 5000, "invalid Python: Exceeds the limit"),
        ("x = range(10_000_000)", "the config has more than 200000 values"),
        ("x = range(10 ** 30)", "more than 200000 values"),
        ("x = [0] * 10_000_000", "the config has more than 200000 values"),
        ("x = 'a' * 10_000_000", "the config has more than 200000 values"),
        ("x = f'{1:999999999}'", "unsupported format '999999999'"),
        ("a = [0] * 1000\nx = [a] * 1000", "the config has more than 200000 values"),
        (
            "a = 'x' * 100_000\n" + "b = [a, a, a, a]\n" * 11,
            "the config has more than 4194304 characters",
        ),
        ("x = " + "[" * 90 + "]" * 90, "values are nested more than 50 levels deep"),
        ("x = " + "[" * 150 + "]" * 150, "expressions are nested more than 100 levels deep"),
        ("x = " + "-" * 100_000 + "1", "nested too deep for Python's parser"),
        ("x = " + " + ".join(["1"] * 30_000), "nested too deep for Python's parser"),
        ("x = '" + "a" * 300_000 + "'", "'a.py' is not a config: it has more than 262144 bytes"),
        ("x = [[i for i in range(999)] for j in range(999)]", "more than 200000 values"),
    ],
)
def test_work_is_bounded(refused, text, message) -> None:
    assert message in refused(("a.py", text))


def test_doubling_forty_times_is_refused(refused) -> None:
    text = "a0 = [1, 1]\n" + "".join(f"a{i + 1} = [a{i}, a{i}]\n" for i in range(40))
    assert "more than 200000 values" in refused(("a.py", text))
