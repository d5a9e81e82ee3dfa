"""The help of each flag comes from the docstring of its class."""

from __future__ import annotations

import argparse

import pytest

from enginebay.errors import ParamsError
from enginebay.params import BackendParams, Declared


class Base(Declared):
    a: int = 1
    b: int = 2
    c: int = 3

    @property
    def total(self) -> int:
        """The sum."""
        return self.a + self.b + self.c


INHERITED = ["work_dir", "file_name", "device", "input_shapes", "min_shapes", "max_shapes"]


class Params(BackendParams):
    a: int = 1
    b: int = 2


def flags(docstring: str | None, base: type[Declared] = Base) -> dict[str, str]:
    """Return the help of each flag of a class with this docstring, in the parser's order."""
    owner = type(base)("Owner", (base,), {"__doc__": docstring, "__module__": __name__})
    parser = argparse.ArgumentParser(add_help=False)
    owner.add_arguments(parser)
    return {action.dest: action.help for action in parser._actions}


A, B, C = " (default: 1)", " (default: 2)", " (default: 3)"


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Title.\n\nArgs:\n    a (int): One.\n", {"a": "One." + A}),
        ("Title.\n\n    Attributes:\n        a: One.\n    ", {"a": "One." + A}),
        ("Title.\n\nArguments:\n    a: One.", {"a": "One." + A}),
        ("T.\n\nArgs:\n    c: Three.\n    a: One.", {"c": "Three." + C, "a": "One." + A}),
        ("T.\n\nArgs:\n    a: One\n        two\n\n            three.", {"a": "One two three." + A}),
        ("T.\n\nArgs:\n    a:\n        One.", {"a": "One." + A}),
        ("T.\n\nArgs:\n    a: One\n    on the same column.", {"a": "One on the same column." + A}),
        ("T.\n\nArgs:\n    a (dict[str, int], optional): One.", {"a": "One." + A}),
        ("T.\n\nArgs:\n    a (Callable[[int], str]) : One.", {"a": "One." + A}),
        (
            "T.\n\nArgs:\n    a: See\n        https://x.y/z: it tells.",
            {"a": "See https://x.y/z: it tells." + A},
        ),
        ("T.\n\nArgs:\n    a: One of: b: c.", {"a": "One of: b: c." + A}),
        ("T.\n\nArgs:\n    a: ``One`` is `so`.", {"a": "One is `so`." + A}),
        ("T.\n\nArgs:\n\ta: One\n\t\ttwo.", {"a": "One two." + A}),
        ("T.\n\nArgs:\n  a: One\n     odd.\n  b: Two.", {"a": "One odd." + A, "b": "Two." + B}),
        ("T.\n\nArgs:\n    a: One.\n\nExample:\n    b: not a field.", {"a": "One." + A}),
        ("T.\n\nArgs:\n    a: One.\nNote that:\n    b: no field.", {"a": "One." + A}),
        (
            "T.\n\nArgs:\n    a: One.\n\nAttributes:\n    b: Two.",
            {"a": "One." + A, "b": "Two." + B},
        ),
        ("T.\n\nArgs:\n    a: 50% of it.", {"a": "50%% of it." + A}),
        ("T.\n\nArgs:\n    a:", {"a": A.strip()}),
        ("T.\n\nAttributes:\n    a: One.\n    total: A property is no flag.", {"a": "One." + A}),
    ],
)
def test_help_of_flags_comes_from_the_docstring(docstring, expected):
    help_by_flag = flags(docstring)
    assert help_by_flag == expected
    assert list(help_by_flag) == list(expected)


@pytest.mark.parametrize("docstring", [None, "", "Only a title.", "T.\n\nReturns:\n    a: no."])
def test_undocumented_classes_have_the_flags_of_their_base(docstring):
    assert list(flags(docstring, Params)) == INHERITED


def test_documented_fields_follow_the_flags_of_the_base():
    class Middle(Params):
        """M.

        Args:
            b: Two.
            device: Where.
        """

    assert list(flags(None, Middle)) == [*INHERITED, "b"]
    assert flags(None, Middle)["device"] == "Where. (default: cpu)"
    assert flags(None, Middle)["min_shapes"] == flags(None, Params)["min_shapes"]
    found = flags("T.\n\nArgs:\n    a: One.\n    b: Other.", Middle)
    assert list(found) == [*INHERITED, "b", "a"]
    assert (found["b"], found["device"]) == ("Other." + B, "Where. (default: cpu)")


def test_a_section_with_the_work_dir_is_complete():
    class Complete(Params):
        """C.

        Args:
            b: Two.
            work_dir: Folder.
        """

    assert list(flags(None, Complete)) == ["b", "work_dir"]
    assert list(flags("T.\n\nArgs:\n    a: One.", Complete)) == ["b", "work_dir", "a"]
    assert list(flags("T.\n\nArgs:\n    work_dir: Here.", Complete)) == ["work_dir"]


def test_percent_signs_reach_the_user(capsys):
    class Half(Base):
        """H.

        Args:
            a: 50% of %(prog)s.
        """

    parser = argparse.ArgumentParser("tool")
    Half.add_arguments(parser)
    parser.print_help()
    assert "50% of %(prog)s. (default: 1)" in capsys.readouterr().out


def test_a_documented_name_without_a_field_is_refused():
    with pytest.raises(ParamsError) as refusal:
        flags("T.\n\nArgs:\n    dvice: Where.", Params)
    assert str(refusal.value) == (
        "Owner documents 'dvice', which is not one of its fields: "
        "work_dir, file_name, device, input_shapes, min_shapes, max_shapes, a, b"
    )
    assert refusal.value.hint == "did you mean 'device'?"
