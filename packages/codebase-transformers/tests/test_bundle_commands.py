"""``enginebay bundle`` and ``enginebay generate``, as users type them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from enginebay_testing import CommandConformance
from enginebay_testing.command_runs import Ran, call_command

from .conftest import WIDE, build_decoder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay_transformers import Bundle, BundleDeployment

    Run = Callable[..., Ran]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return partial(call_command, capfd)


@pytest.mark.parametrize("command", ["bundle", "generate"])
class TestLaws(CommandConformance):
    pass


def test_generate_prints_the_new_tokens_of_each_prompt(
    cli: Run, made: BundleDeployment, bundle: Bundle
) -> None:
    words = ("generate", made.path, "--ids", "5,6,7", "--ids", "9", "--tokens", 6)
    code, out, err = cli(*words)
    assert (code, err) == (0, "")
    ids, mask = [[5, 6, 7], [0, 0, 9]], [[1, 1, 1], [0, 0, 1]]
    expected = bundle.generate(ids, mask, 6)
    assert out.splitlines() == [",".join(map(str, row[3:])) for row in expected]
    document = cli(*words, "--json").document
    assert document["ids"] == expected.tolist()
    assert document["new"] == expected[:, 3:].tolist()
    masked = (*words[:2], "--ids", "3,9", "--mask", "0,1", "--tokens", 6)
    assert cli(*masked).out == out.splitlines()[1] + "\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "expected a prompt, and a mask for each or none; found 0 --ids and 0 --mask"),
        (("--ids", "1", "--mask", "1", "--mask", "1"), "found 1 --ids and 2 --mask"),
        (("--ids", ""), "expected ids batch × tokens, found shape (1, 0): a prompt is empty"),
        (("--ids", "1,x"), "'1,x': expected integers, such as 1,2,3"),
        (("--ids", "1.5"), "'1.5': expected integers, such as 1,2,3"),
        (("--ids", "77"), "row 0: id 77 is not in the decoder's table of 50 ids"),
        (("--ids=-3",), "row 0: id -3 is not in the decoder's table of 50 ids"),
        (("--ids", "1", "--ids", ""), "row 1: the mask is [0], expected 0 at padding"),
        (
            ("--ids", "1,2", "--mask", "1,0"),
            "row 0: the mask is [1 0], expected 0 at padding on the left, then 1",
        ),
        (("--ids", "1", "--tokens", "99"), "require 99 positions, and the bundle has 64"),
        (("--ids", "1", "--tokens", "0"), "max_new_tokens is 0, expected an integer of 1 or more"),
    ],
)
def test_wrong_prompt_is_one_line_and_exit_code_2(
    words: tuple[str, ...], error: str, cli: Run, made: BundleDeployment
) -> None:
    code, out, err = cli("generate", made.path, *words)
    assert (code, out) == (2, "")
    assert error in err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_folder_that_is_no_bundle_is_named(cli: Run, tmp_path: Path) -> None:
    code, _, err = cli("generate", tmp_path, "--ids", "1")
    assert code == 1
    assert "generation.json' cannot be read: No such file or directory" in err
    assert "hint: make the bundle again: enginebay bundle MODEL --backend NAME" in err


def test_bundle_from_a_folder_of_transformers(cli: Run, tmp_path: Path) -> None:
    pytest.importorskip("enginebay_models", reason="enginebay-models is not installed")
    build_decoder("llama", num_hidden_layers=1, **WIDE).save_pretrained(tmp_path / "net")
    words = ("bundle", "transformers:net", "--backend", "onnxruntime", "-o", "out")
    done = cli(*words, "--positions", 32, "--json")
    assert done.code == 0
    document = done.document
    assert document["kind"] == "bundle"
    assert document["verdict"] == "verified"
    assert [each["verdict"] for each in document["prompts"]] == ["equal"] * 16
    assert "the bundle has 32 of 64 positions: --positions" in document["notes"]
    assert document["artifact"] == str(tmp_path / "out" / "decoder")
    assert "enginebay bundle transformers:net" in document["manifest"]["command"]
    assert cli("inspect", "out/decoder").code == 0
    assert cli("verify", "out/decoder").code == 0
    code, _, err = cli(*words)
    assert code == 2
    assert "'out' exists: expected a new path" in err
    assert "hint: remove it, or choose another --work-dir" in err


def test_backend_and_model_are_checked_before_anything_is_built(cli: Run, tmp_path: Path) -> None:
    code, _, err = cli("bundle", "net.py:build")
    assert code == 2
    assert "--backend" in err
    code, _, err = cli("bundle", "nothing.py:build", "--backend", "onnxruntime")
    assert code == 2
    assert "no file 'nothing.py'" in err
    assert not [*tmp_path.iterdir()]
