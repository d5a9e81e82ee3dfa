"""The message to a worker: plain data that any machine decodes, and the digest of its files."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay_lab.sweeps.cell_job import CellJob, encode_message
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.sweep_rows import SweepRow

CELL = Cell(model="net.py:build", backend="ncnn")

texts = st.text(max_size=9)  # lone surrogates too, as in names of files that are not UTF-8
cells = st.builds(
    Cell,
    model=texts,
    backend=texts,
    precision=texts,
    params=st.dictionaries(texts, texts | st.integers(-(2**63), 2**63) | st.lists(texts)),
    inputs=st.lists(texts, max_size=2).map(tuple),
    duration=st.floats(0, 1e9),
    seed=st.integers(0, 2**62),
    folder=texts,
)


def has_surrogate(value: object) -> bool:
    try:
        msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return True
    return False


@given(cells, st.dictionaries(texts, st.dictionaries(texts, texts)))
def test_a_job_survives_the_message(cell: Cell, files: dict[str, dict[str, str]]) -> None:
    job = CellJob(cell=cell, files=files, data="items.npz", output="/out")
    found = msgspec.msgpack.decode(encode_message(job), type=CellJob)
    if not has_surrogate(job):
        assert found == job
    assert found.cell.duration == cell.duration


def test_a_text_that_is_not_utf_8_is_escaped_everywhere() -> None:
    row = msgspec.structs.replace(
        SweepRow.of(CELL, "failed"),
        reason="no file '\udce8.npz'",
        params={"\udce8": ["\udce9", {"deep": "\udcea"}], "number": 1},
        notes=("\udceb",),
    )
    found = msgspec.msgpack.decode(encode_message(row), type=SweepRow)
    assert found.reason == "no file '\\udce8.npz'"
    assert found.params == {"\\udce8": ["\\udce9", {"deep": "\\udcea"}], "number": 1}
    assert found.notes == ("\\udceb",)


def test_an_object_is_refused() -> None:
    cell = Cell(model="net.py:build", backend="ncnn", params={"a": object()})
    with pytest.raises(TypeError, match="Encoding objects of type object is unsupported"):
        encode_message(CellJob(cell=cell))


def digest(**fields: Any) -> str:
    return CellJob(cell=CELL, **fields).files_digest


def test_the_digest_depends_on_contents_and_not_on_places() -> None:
    files = {"net.py:build": {"/a/net.py": "1f"}, "items.npz": {"/a/items.npz": "2f"}}
    moved = {"items.npz": {"/b/items.npz": "2f"}, "net.py:build": {"/b/net.py": "1f"}}
    assert digest() == ""
    assert digest(files=files) == digest(files=moved)
    assert digest(files=files) != digest(files={**files, "items.npz": {"/a/items.npz": "3f"}})
    assert digest(files=files) != digest(files={"net.py:build": {"/a/net.py": "1f"}})


def test_the_digest_depends_on_the_config() -> None:
    assert digest(config={}) != digest()
    assert digest(config={"a": 1, "b": 2}) == digest(config={"b": 2, "a": 1})
    assert digest(config={"a": 1}) != digest(config={"a": 2})


def test_the_same_cell_has_the_same_key_on_all_machines() -> None:
    """Keys are in the rows of earlier releases: a changed key would run every cell again."""
    assert CELL.key == "9a8c75beff906fc1"
    assert Cell(model="nets/a.py:build", backend="ncnn", precision="fp16").key == "f2e1f609438416f2"


@given(cells)
def test_the_key_depends_on_every_field_but_the_folder(cell: Cell) -> None:
    if has_surrogate(cell):
        return
    replace = msgspec.structs.replace
    assert replace(cell, folder=f"{cell.folder}x").key == cell.key
    for name, value in (
        ("model", f"{cell.model}x"),
        ("precision", f"{cell.precision}x"),
        ("params", {**cell.params, "added": 1}),
        ("inputs", (*cell.inputs, "x=1")),
        ("duration", cell.duration + 1 if cell.duration < 1e8 else 0.0),
        ("seed", cell.seed + 1),
    ):
        assert replace(cell, **{name: value}).key != cell.key
