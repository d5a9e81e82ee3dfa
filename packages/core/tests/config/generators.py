"""Generated config files for the fuzz tests."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "onnx_config", "_base_", "dict", "range", "__builtins__", "é"])
TEXTS = st.sampled_from(
    [
        *("", "x", "a.py", "b.toml", "../a.py", "/etc/passwd", "{{fileDirname}}", "{{_base_.a}}"),
        *("é", "{{$HOME:1}}", "\\ud800", "\\x00", "{a}", "%d", "{{", "\\N{BULLET}", "\\'"),
    ]
)
NUMBERS = st.one_of(
    st.integers(-3, 70).map(str),
    st.sampled_from(["10**9", "1e999", "0x" + "f" * 400, "1_0", "0.5", "1j", "9" * 5000, "-0.0"]),
)
ATOMS = st.one_of(
    NUMBERS,
    NAMES,
    TEXTS.map(lambda text: f"'{text}'"),
    TEXTS.map(lambda text: f"f'{text}'"),
    st.sampled_from(
        ["None", "True", "...", "b''", "_base_.a.b", "{{_base_.a}}", "{{ '$HOME:3' }}", "{{$A:1}}"]
    ),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(
        ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "|", "@", "and", "<"]
    )
    many = st.lists(inner, max_size=3).map(", ".join)
    return st.one_of(
        many.map(lambda items: f"[{items}]"),
        many.map(lambda items: f"({items},)" if items else "()"),
        many.map(lambda items: f"{{{items}}}"),
        st.tuples(inner, inner).map(lambda pair: f"{{{pair[0]}: {pair[1]}}}"),
        st.tuples(inner, operators, inner).map(lambda three: "({} {} {})".format(*three)),
        inner.map(lambda one: f"-{one}"),
        inner.map(lambda one: f"not {one}"),
        inner.map(lambda one: f"f'{{{one}}}'".replace("''", '""')),
        st.tuples(NAMES, inner).map(lambda pair: f"dict({pair[0]}={pair[1]}, **{pair[1]})"),
        st.tuples(NAMES, many).map(lambda pair: f"{pair[0]}({pair[1]})"),
        st.tuples(inner, NAMES, inner).map(lambda t: f"[{t[0]} for {t[1]} in {t[2]}]"),
        st.tuples(inner, inner, NAMES, inner).map("{{{0[0]}: {0[1]} for {0[2]} in {0[3]}}}".format),
        st.tuples(inner, st.sampled_from(["__class__", "a", "append"])).map(".".join),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]}[{pair[1]}]"),
        inner.map(lambda one: f"(lambda: {one})()"),
        inner.map(lambda one: f"list(range({one}))"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    )


EXPRESSIONS = st.recursive(ATOMS, _grown, max_leaves=8)
STATEMENTS = st.one_of(
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.tuples(NAMES, TEXTS).map(lambda pair: f"{pair[0]} = ['{pair[1]}']"),
    EXPRESSIONS,
    NAMES.map(lambda name: f"import {name}"),
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: f"{pair[0]} += {pair[1]}"),
    NAMES.map(lambda name: f"def {name}(): pass"),
    EXPRESSIONS.map(lambda one: f"for a in {one}: b = a"),
    EXPRESSIONS.map(lambda one: f"del {one}"),
)
PYTHON = st.lists(STATEMENTS, max_size=5).map("\n".join)

VALUES = st.recursive(
    st.one_of(
        st.integers(-5, 5).map(str),
        st.sampled_from(
            ["true", "null", "1e999", "NaN", "1979-05-27", "0x" + "f" * 400, "nan", "''"]
        ),
        TEXTS.map(lambda text: f'"{text}"'),
        st.sampled_from(["{{_base_.a}}", '{{"$HOME:3"}}', "9" * 5000]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"
        ),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{key}" = {value}' for key, value in pairs) + "}"
        ),
    ),
    max_leaves=8,
)
JSON = st.one_of(VALUES, st.tuples(VALUES, VALUES).map('{{"_base_": {0[0]}, "a": {0[1]}}}'.format))
KEYS = st.one_of(
    NAMES, TEXTS.map(lambda text: f'"{text}"'), st.lists(NAMES, min_size=2).map(".".join)
)
LINES = st.one_of(
    st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    KEYS.map(lambda key: f"[{key}]"),
    KEYS.map(lambda key: f"[[{key}]]"),
    st.sampled_from(["# comment", '"""', "'''", "[", "=", ".", "a.b = {c = 1}"]),
)
TOML = st.lists(LINES, max_size=6).map("\n".join)

TAGS = st.sampled_from(
    ["int", "float", "bool", "timestamp", "map", "seq", "set", "omap", "pairs", "binary", "null"]
)
YAML = st.one_of(
    JSON,
    st.lists(
        st.one_of(
            st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]}: {pair[1]}"),
            st.tuples(NAMES, TAGS, VALUES).map("{0[0]}: !!{0[1]} {0[2]}".format),
            st.tuples(NAMES, NAMES, VALUES).map("{0[0]}: &{0[1]} {0[2]}".format),
            st.tuples(NAMES, NAMES).map("{0[0]}: [*{0[1]}]".format),
            st.tuples(VALUES, VALUES).map("? {0[0]}\n: {0[1]}".format),
            st.sampled_from(["<<: {a: 1}", "  - a", "a: |", "a: 2020-13-45", "a: 1:2", "--- b"]),
        ),
        max_size=6,
    ).map("\n".join),
)

#: A few characters changed somewhere, for any format.
NOISE = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(0, 5),
        st.one_of(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
            st.sampled_from(
                ["{{", "}}", "(" * 60, "[" * 60, "-" * 300, '"""', "\\", "\0", "\r", "\t"]
            ),
            st.sampled_from(["{" * 300, "a." * 300, "\x0c", "\u2028", "𓀀", "𓀀0𓀀𓀀", ". " * 60]),
        ),
    ),
    max_size=3,
)


def spoiled(text: str, noise: list[tuple[int, int, str]]) -> str:
    """Replace pieces of a text."""
    for start, length, piece in noise:
        text = text[:start] + piece + text[start + length :]
    return text
