"""Text: CTC and attention, a file of texts, the share of wrong characters."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay_vision.metrics.registry import build_metric
from enginebay_vision.truth.annotated import Target

if TYPE_CHECKING:
    from pathlib import Path


def task(characters: str = "abc", **fields: Any) -> vision.TextRecognition:
    return vision.TextRecognition(
        image=vision.ImageInput(), classes=tuple(characters), output="y", **fields
    )


def read(reader: vision.TextRecognition, *entries: int) -> vision.Text:
    """Read outputs in which these entries have the highest scores, one after the other."""
    values = np.full((1, len(entries), len(reader.classes) + 1), -9.0, np.float32)
    values[0, np.arange(len(entries)), entries] = 9
    (found,) = reader.postprocess({"y": values})
    (other,) = reader.postprocess({"y": values.transpose(1, 0, 2)})
    assert other == found
    return found


@settings(max_examples=50, deadline=None)
@given(entries=st.lists(st.integers(0, 3), min_size=1, max_size=12), special=st.integers(0, 3))
def test_ctc_drops_blanks_and_repetitions(entries: list[int], special: int) -> None:
    names = list("abc")
    names.insert(special, "")
    wanted = "".join(names[index] for index, _ in groupby(entries))
    assert read(task(special=special), *entries).text == wanted


def test_attention_stops_at_the_end_entry() -> None:
    reader = task(decoding="attention", special=-1)
    assert read(reader, 0, 0, 2, 3, 1, 1).text == "aac"
    assert read(reader, 1, 1).text == "bb"
    assert read(reader, 3) == vision.Text("", 0.0)


def test_the_score_is_the_mean_over_the_characters() -> None:
    odds = np.array([[[0.1, 0.8, 0.1], [0.9, 0.1, 0], [0, 0.4, 0.6]]])
    (found,) = task("ab", activation="none").postprocess({"y": odds})
    assert (found.text, found.score) == ("ab", pytest.approx(0.7))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"characters": ""}, "'classes' is empty; expected the characters of the texts"),
        (
            {"special": 4},
            "'special' is 4; expected an index from 0 to 3, or -1 for the last index",
        ),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        task(**fields)
    assert str(caught.value) == message


def test_outputs_that_do_not_fit_the_task_are_refused() -> None:
    image = (eb.TensorSpec("x", "float32", (1, 3, "h", "w")),)
    assert task().fit(image, [eb.TensorSpec("y", "float32", (1, 9, 4))]).output == "y"
    for dims in ((1, 9, 5), (1, 4)):
        with pytest.raises(eb.EnginebayError) as caught:
            task().fit(image, [eb.TensorSpec("y", "float32", dims)])
        assert str(caught.value).startswith(
            "the task has 3 characters and one special entry, but the output is y float32[1, "
        )
    with pytest.raises(
        eb.EnginebayError, match=r"the shape \(9, 3\) for one image; expected Tx4: "
    ):
        task().postprocess({"y": np.zeros((1, 9, 3))})


def error_rate(*pairs: tuple[str, str]) -> float:
    metric = build_metric("cer")
    for found, true in pairs:
        reader = task("abcd")
        entries = [entry for letter in found for entry in ("abcd".index(letter) + 1, 0)] or [0]
        metric.update(np.eye(5)[entries][None], Target(reader, (1, 1), true))
    return metric.compute()


def test_cer_is_the_share_of_wrong_characters() -> None:
    assert error_rate(("abc", "abc")) == 0
    assert error_rate(("abd", "abc"), ("", "d")) == pytest.approx(2 / 4)
    assert error_rate(("bcda", "abcd")) == pytest.approx(2 / 4)
    assert error_rate(("abcd", "a")) == 3


@settings(max_examples=50, deadline=None)
@given(st.text("abcd", max_size=6), st.text("abcd", min_size=1, max_size=6))
def test_edit_distances_match_their_definition(found: str, true: str) -> None:
    def edits(first: str, second: str) -> int:
        if not first or not second:
            return len(first) + len(second)
        changed = edits(first[1:], second[1:]) + (first[0] != second[0])
        return min(changed, edits(first[1:], second) + 1, edits(first, second[1:]) + 1)

    assert error_rate((found, true)) == pytest.approx(edits(found, true) / len(true))


def listed(path: Path, text: str) -> Path:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 4)).save(path / name)
    (path / "labels.txt").write_bytes(text.encode())
    return path


def test_texts_are_read_from_a_label_file(tmp_path: Path) -> None:
    listed(tmp_path, "\ufeffa.png\tcab ba\n\nb.png b\u00e4r\r\n")
    data = eb.DataSet(tmp_path).for_task(task())
    assert [item.target.truth for item in data] == ["cab ba", "b\u00e4r"]
    (tmp_path / "labels.txt").unlink()
    assert [item.target for item in eb.DataSet(tmp_path).for_task(task())] == [None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a.png\n",
            "line 1 of '{0}/labels.txt' is 'a.png'; expected an image's path, a tab and the text",
        ),
        (
            "a.png\tab\nc.png\tab",
            "line 2 of '{0}/labels.txt' names the image 'c.png', which is not in '{0}'",
        ),
    ],
)
def test_invalid_label_lines_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(listed(tmp_path, text)).for_task(task())
    assert str(caught.value) == message.format(tmp_path)


def test_ambiguous_and_undecodable_label_files_are_refused(tmp_path: Path) -> None:
    listed(tmp_path, "a.png\tab")
    (tmp_path / "more.txt").touch()
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(tmp_path).for_task(task())
    assert (
        str(caught.value)
        == f"'{tmp_path}' contains 2 .txt files; expected a single annotation file"
    )
    assert caught.value.hint == "remove all but one of labels.txt, more.txt"
    (tmp_path / "more.txt").unlink()
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(eb.EnginebayError, match=r"labels\.txt' cannot be read as UTF-8: "):
        eb.DataSet(tmp_path).for_task(task())


def test_the_text_is_drawn(tmp_path: Path) -> None:
    task().draw(Image.new("RGB", (90, 90)), [vision.Text("abc", 0.9)], tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as drawn:
        assert np.asarray(drawn).max() > 100
