"""``load(…, within=…)``, and ranges in the manifest that were edited by hand."""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.cli import main
from enginebay.errors import ArtifactError, EnginebayError, InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

BEYOND = np.full((2, 3), 900, np.float32)
INSIDE = np.zeros((2, 3), np.float32)


@pytest.fixture(scope="module")
def artifact(loopback: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("within") / "net"
    eb.deploy(
        torch.nn.Linear(3, 2),
        torch.rand(2, 3),
        backend=loopback,
        work_dir=folder,
        dynamic="batch",
    )
    return folder


@pytest.mark.parametrize("isolated", [False, True])
def test_warn_names_what_lies_beyond_at_the_line_of_the_call(
    artifact: Path, isolated: bool
) -> None:
    with eb.load(artifact, within="warn", isolated=isolated) as wrapper:
        for call in (
            lambda: wrapper({"input": BEYOND}),
            lambda: wrapper(BEYOND),
            lambda: wrapper(torch.from_numpy(BEYOND)),
        ):
            with pytest.warns(eb.VerdictWarning) as caught:
                call()
            assert [warning.filename for warning in caught] == [__file__]
            text = str(caught[0].message)
            assert text.startswith(
                "the inputs lie beyond what was verified: 'input' has the value 900, verified: "
                "input in -"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            wrapper({"input": INSIDE})


def test_raise_refuses_before_the_engine_runs(artifact: Path) -> None:
    with eb.load(artifact, within="raise") as wrapper, wrapper.time_execution() as timing:
        wrapper(INSIDE)
        with pytest.raises(InputError, match="'batch' is 500, verified: batch 1") as caught:
            wrapper(np.zeros((500, 3), np.float32))
        assert caught.value.hint == "deploy again with --data or an example of this range"
    assert timing.count == 1


def test_a_watched_wrapper_still_checks_shapes_and_closes(artifact: Path) -> None:
    wrapper = eb.load(artifact, within="raise")
    with pytest.raises(InputError, match="size 4 in dimension 1"):
        wrapper(np.zeros((2, 4), np.float32))
    wrapper.close()
    with pytest.raises(UsageError, match="this wrapper is closed"):
        wrapper(INSIDE)


def test_within_requires_a_known_word_and_a_range(artifact: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="invalid argument within='always'"):
        eb.load(artifact, within="always")  # type: ignore[call-overload, arg-type]  # a wrong word
    file = eb.export(torch.nn.Linear(3, 2), torch.ones(2, 3), path=tmp_path / "net.onnx")
    bare = eb.convert(file, backend="loopback", work_dir=tmp_path / "bare")
    with pytest.raises(UsageError, match="records no range of inputs"):
        eb.load(bare, within="warn")


def test_run_has_the_flag(artifact: Path, tmp_path: Path, capsys: Any) -> None:
    np.savez(tmp_path / "beyond.npz", input=BEYOND)
    arguments = ["run", str(artifact), "--input", str(tmp_path / "beyond.npz")]
    assert main([*arguments, "--within", "raise"]) != 0
    assert "'input' has the value 900, verified: input in" in capsys.readouterr().err
    with pytest.warns(eb.VerdictWarning, match="beyond what was verified: 'input' has"):
        assert main([*arguments, "--within", "warn"]) == 0
    assert "OUTPUT" in capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().err == ""


@pytest.fixture
def edit(artifact: Path) -> Iterator[Callable[[Any], Path]]:
    path = artifact / "manifest.json"
    before = path.read_text("utf-8")

    def change(edit: Callable[[Any, Any], object]) -> Path:
        manifest = json.loads(before)
        edit(manifest["verification"]["basis"]["range"], manifest)
        path.write_text(json.dumps(manifest), encoding="utf-8")
        return artifact

    yield change
    path.write_text(before, encoding="utf-8")


RANGE = "verification.basis.range"


@pytest.mark.parametrize(
    ("by_hand", "message"),
    [
        (
            lambda r, _: r["inputs"]["input"].update(low="0"),
            f"Expected `int | float | null`, got `str` - at `$.{RANGE}.inputs[...].low`",
        ),
        (
            lambda r, _: r["inputs"]["input"].pop("high"),
            f"Object missing required field `high` - at `$.{RANGE}.inputs[...]`",
        ),
        (
            lambda r, _: r["inputs"]["input"].update(low=9, high=-9),
            f"expected low <= high, found 9 and -9 - at `$.{RANGE}.inputs[...]`",
        ),
        (
            lambda r, _: r["inputs"]["input"].update(low=None, high=1),
            f"expected low <= high, found None and 1 - at `$.{RANGE}.inputs[...]`",
        ),
        (
            lambda r, _: r["inputs"]["input"].update(rows=0),
            f"Expected `int` >= 1 - at `$.{RANGE}.inputs[...].rows`",
        ),
        (
            lambda r, _: r["inputs"]["input"].update(filled=[0.5, 4]),
            f"Expected `float` <= 1.0 - at `$.{RANGE}.inputs[...].filled[1]`",
        ),
        (
            lambda r, _: r["inputs"].update(image=r["inputs"]["input"]),
            f"{RANGE}.inputs.image: the model takes input",
        ),
        (
            lambda r, _: r["inputs"].clear(),
            f"{RANGE}.inputs: the range of input 'input' is missing",
        ),
        (
            lambda r, _: r["sizes"]["batch"].update(sizes=[9, 1]),
            f"expected ascending sizes, found 9, 1 - at `$.{RANGE}.sizes[...]`",
        ),
        (
            lambda r, _: r["sizes"]["batch"].update(axes=[["image", 0]]),
            f"{RANGE}.sizes.batch.axes: the model has no axis 0 of an input 'image'",
        ),
        (
            lambda _, manifest: manifest["sizes"]["input"].update({"0": [8, 1]}),
            "sizes.input.0: expected 0 <= low <= high of an axis, found 8 and 1",
        ),
        (
            lambda _, manifest: manifest["sizes"].update({"image": {"0": [1, 8]}}),
            "sizes.image.0: expected 0 <= low <= high of an axis, found 1 and 8",
        ),
    ],
)
def test_a_range_edited_by_hand_is_an_error_that_names_file_and_key(
    by_hand: Any, message: str, edit: Callable[[Any], Path]
) -> None:
    folder = edit(by_hand)
    with pytest.raises(ArtifactError) as caught:
        eb.load(folder)
    assert str(folder / "manifest.json") in str(caught.value)
    assert str(caught.value).endswith(message)


class Positions(torch.nn.Module):
    """A model with a longest sequence, as BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = torch.nn.Embedding(16, 4)
        self.words = torch.nn.Embedding(9, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places: torch.Tensor = self.positions(torch.arange(ids.shape[1]))
        found: torch.Tensor = (self.words(ids) + places).mean(1)
        return found


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
def test_an_engine_that_fails_beyond_the_verified_sizes_names_them(
    loopback: str, tmp_path: Path, isolated: bool
) -> None:
    folder = tmp_path / "net"
    example = torch.zeros(1, 6, dtype=torch.int64)
    eb.deploy(Positions(), example, backend=loopback, work_dir=folder, dynamic=["ids:1=length"])
    with eb.load(folder, isolated=isolated) as wrapper:
        wrapper({"ids": np.zeros((1, 16), np.int64)})
        with pytest.raises(EnginebayError) as caught:
            wrapper({"ids": np.zeros((1, 20), np.int64)})
    assert re.search(
        r"failed on ids int64\(1, 20\): .*; "
        r"beyond what was verified: 'length' is 20, verified: length 1\.\.16$",
        str(caught.value).partition("\nhint:")[0],
    )
