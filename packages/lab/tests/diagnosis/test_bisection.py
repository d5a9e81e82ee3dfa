"""What a bisection says, prints and stores."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import enginebay_lab as lab
from enginebay_lab.diagnosis.bisection import Place, call_title, format_figure


def bisection(**given: Any) -> lab.Bisection:
    fields = {"found": True, "reference": "PyTorch", "accumulated": 0.125, "alone": 0.25, **given}
    return lab.Bisection(**fields)


#: The two figures, and the sentence about both.
BOTH = "{} when the engine runs the model from its inputs, and by {} when it runs only this part"
FIRST = "{} when the engine runs the model from its inputs; this part could not be measured alone"


@pytest.mark.parametrize(
    ("given", "where", "errors", "cause"),
    [
        (
            {"module": "body.l", "step": "engine"},
            "'body.l'",
            BOTH.format(0.12, 0.25),
            "; the exported graph is right there, but the engine is wrong",
        ),
        (
            {"node": "conv", "operator": "Conv", "step": "export"},
            "the model's own code, node 'conv' (Conv)",
            BOTH.format(0.12, 0.25),
            "; the exported graph is wrong there, because of the exporter",
        ),
        (
            {"module": "a", "step": "export", "rewriters": ("f", "g")},
            "'a'",
            BOTH.format(0.12, 0.25),
            "; the exported graph is wrong there, because of a rewriter (f, g) or the exporter",
        ),
        (
            {"module": "a", "node": "c", "operator": "Add", "together": ("a", "b", "c")},
            "'a', node 'c' (Add) together with a, b",
            BOTH.format(0.12, 0.25),
            "",
        ),
        ({"module": "a", "alone": None, "step": "unknown"}, "'a'", FIRST.format(0.12), ""),
        (
            {"module": "a", "accumulated": None, "alone": None},
            "'a'",
            FIRST.format("an unknown amount"),
            "",
        ),
        (
            {"module": "a", "accumulated": float("nan"), "alone": 1e-9, "step": "unknown"},
            "'a'",
            BOTH.format("nan", "1e-09"),
            "",
        ),
    ],
)
def test_the_sentence_says_where_how_much_and_why(
    given: dict[str, Any], where: str, errors: str, cause: str
) -> None:
    found = bisection(**given).sentence("loopback")
    assert found == f"loopback differs from PyTorch at {where}: off by {errors}{cause}"


def test_a_difference_without_a_number_is_its_reason() -> None:
    found = bisection(module="a", reference="the engine of 'other'")
    assert found.sentence("loopback", "its shape differs: expected (2,), found (1,)") == (
        "loopback differs from the engine of 'other' at 'a': its shape differs: expected (2,), "
        "found (1,)"
    )


@pytest.mark.parametrize(
    ("module", "call", "title"),
    [
        ("body.l", 0, "body.l"),
        ("body.l", 1, "body.l (call 2)"),
        ("", 0, "(the model)"),
        ("", 2, "(the model) (call 3)"),
    ],
)
def test_titles_of_calls(module: str, call: int, title: str) -> None:
    assert call_title(module, call) == Place(module=module, call=call).title == title


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.12345, "0.12"), (1e-9, "1e-09"), (1234, "1.2e+03")],
)
def test_figures_of_tables(value: float | None, text: str) -> None:
    assert format_figure(value) == text


def test_a_bisection_prints_its_fields() -> None:
    found = bisection(
        module="body.l",
        node="conv",
        operator="Conv",
        tensor="t",
        rtol=0.0001234,
        atol=1e-5,
        sample="item 3",
        engines=4,
        reason="Why.",
    )
    assert str(found).splitlines() == [
        "Why.",
        "module   body.l",
        "node     conv (Conv)",
        "tensor   t",
        "allowed  rtol 0.000123, atol 1e-05",
        "sample   item 3",
        "engines  4 built",
    ]
    assert repr(found) == "<Bisection: Why.>"


def test_nothing_found_prints_no_module() -> None:
    found = lab.Bisection(found=False, reason="Nothing.", sample="example", engines=1)
    assert str(found).splitlines() == ["Nothing.", "sample   example", "engines  1 built"]


VERDICTS = [
    (Place(module="0", accumulated=0.0), ["0", "0", "-"]),
    (
        Place(module="1", accumulated=0.5, alone=0.5, wrong=True, wrong_alone=True),
        ["1", "0.5", "0.5", "wrong", "alone"],
    ),
    (
        Place(module="2", accumulated=0.5, alone=0.0, wrong=True, wrong_alone=False),
        ["2", "0.5", "0", "right", "alone"],
    ),
    (
        Place(module="3", call=1, accumulated=0.5, wrong=True),
        ["3", "(call", "2)", "0.5", "-", "wrong"],
    ),
    (Place(module="4", wrong=True), ["4", "-", "-", "wrong"]),  # a crash has no figure
    (Place(module="5", accumulated=0.0, alone=0.0, wrong_alone=False), ["5", "0", "0"]),
]


def test_each_place_has_a_row_with_its_verdict() -> None:
    places = tuple(place for place, _ in VERDICTS)
    lines = str(bisection(module="1", reason="Why.", places=places)).splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("MODULE"))
    assert lines[header].split() == ["MODULE", "THROUGH", "ALONE"]
    assert [line.split() for line in lines[header + 1 :]] == [cells for _, cells in VERDICTS]


def rows_around(culprit: int, wrong: int, module: str = "") -> list[str]:
    places = tuple(
        Place(module=f"m{number}", accumulated=1.0, wrong=number >= wrong) for number in range(30)
    )
    found = bisection(module=module or f"m{culprit}", reason="Why.", places=places)
    lines = str(found).splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("MODULE"))
    return [line.split()[0] for line in lines[header + 1 :]]


def test_only_the_rows_near_the_culprit_are_printed() -> None:
    assert rows_around(15, 12) == [f"m{number}" for number in range(11, 20)]
    assert rows_around(0, 0) == ["m0", "m1", "m2", "m3", "m4"]
    assert rows_around(29, 29) == [f"m{number}" for number in range(25, 30)]


def test_without_a_row_of_the_culprit_the_first_wrong_rows_are_printed() -> None:
    assert rows_around(0, 12, "elsewhere") == [f"m{number}" for number in range(8, 17)]
    assert rows_around(0, 99, "elsewhere") == [f"m{number}" for number in range(5)]


def test_a_bisection_is_a_document_that_can_be_read_back() -> None:
    found = bisection(module="a", together=("x", "y"), places=tuple(place for place, _ in VERDICTS))
    document = json.loads(json.dumps(found.to_dict()))
    assert (document["kind"], document["schema"], document["together"]) == (
        *("bisection", 1),
        ["x", "y"],
    )
    document.pop("schema")
    assert msgspec.convert(document, lab.Bisection) == found
