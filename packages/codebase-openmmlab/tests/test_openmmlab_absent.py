"""A library that cannot be used, and what needs no library: these tests run without mmengine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

import pytest

import enginebay as eb
from enginebay.authors.sources import Options
from enginebay.environment import install_command
from enginebay.errors import ModelSourceError
from enginebay.hooks import ModelRequest
from enginebay_openmmlab import Library, read_normalisation, wrap_size_errors

from .conftest import ZOO

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-mmzoo[mmzoo]")


def fault(call: Any, *args: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        call(*args)
    return str(caught.value), caught.value.hint


def test_a_missing_library_is_reported() -> None:
    message = "a model 'mmzoo:NAME' requires mmzoo, which is not installed"
    assert fault(ZOO.load) == fault(ZOO.read_config, "tiny") == (message, INSTALL)


def test_models_that_cannot_be_imported_are_reported(zoo: Library, tmp_path: Path) -> None:
    (tmp_path / "site/mmzoo/models.py").write_text("print(1)\nraise AssertionError('MMCV==3')")
    message = "mmzoo is installed but cannot be imported: AssertionError: MMCV==3"
    assert fault(zoo.load) == (message, INSTALL)


def test_multimodal_models_of_mmpretrain_are_not_imported(
    zoo: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mmpretrain decides by a constant, and with transformers 5 their import raises."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mmpretrain"]:
        monkeypatch.delitem(sys.modules, name)
    site = tmp_path / "site"
    (site / "mmpretrain" / "utils").mkdir(parents=True)
    for name in ("__init__", "utils/__init__"):
        (site / "mmpretrain" / f"{name}.py").write_text("")
    dependency = site / "mmpretrain" / "utils" / "dependency.py"
    dependency.write_text("WITH_MULTIMODAL = True\n")
    text = "from mmpretrain.utils.dependency import WITH_MULTIMODAL\nassert not WITH_MULTIMODAL"
    (site / "mmzoo" / "models.py").write_text(text)
    zoo.load()
    for name in ("", ".utils", ".utils.dependency"):
        sys.modules.pop(f"mmpretrain{name}")
    sys.modules.pop("mmzoo.models")
    dependency.write_text("raise ImportError('too old')")
    message, _ = fault(zoo.load)
    assert message == "mmzoo is installed but cannot be imported: ImportError: too old"


class TaggerOptions(Options, frozen=True, kw_only=True):
    task: Literal["Tagging"] | None = None


def test_published_weights_and_other_tasks_are_refused() -> None:
    request = ModelRequest(name="tiny", codebase_config={"pretrained": True})
    assert fault(ZOO.read_options, request, TaggerOptions) == (
        "mmzoo's published weights are not downloaded automatically",
        "download the checkpoint from the model zoo and use --weights FILE",
    )
    request = ModelRequest(name="tiny", codebase_config={"type": "mmzoo", "task": "tagging"})
    assert fault(ZOO.read_options, request, TaggerOptions) == (
        "codebase_config.task: 'tagging' is not a task of mmzoo; available: Tagging",
        "did you mean 'Tagging'?",
    )
    request = ModelRequest(name="tiny", codebase_config={"task": "Tagging", "checkpoint": "a.pth"})
    assert ZOO.read_options(request, TaggerOptions).weights == "a.pth"


def test_rewriters_are_those_of_a_package_whose_models_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "enginebay_mmzoo"
    folder.mkdir()
    for name in ("__init__", "tagger"):
        (folder / f"{name}.py").write_text("")
    text = "import enginebay as eb\nREWRITERS = eb.RewriterSet()\n"
    text += "REWRITERS.function('enginebay_mmzoo.tagger.tag')(lambda ctx: None)\n"
    (folder / "rewriters.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert list(ZOO.rewriters("tagger")) == []
    import enginebay_mmzoo.tagger  # type: ignore[import-not-found]  # noqa: F401  # written above

    (only,) = ZOO.rewriters("tagger")
    assert only.name == "enginebay_mmzoo.tagger.tag"
    for name in ("", ".tagger", ".rewriters"):
        monkeypatch.delitem(sys.modules, f"enginebay_mmzoo{name}")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"mean": [1, 2, 3], "std": [4, 5, 6], "bgr_to_rgb": True}, ("RGB", [1, 2, 3], [4, 5, 6])),
        ({"mean": [1, 2, 3], "to_rgb": True}, ("RGB", [1, 2, 3], [1])),
        ({"mean": None}, ("BGR", [0], [1])),
        (None, ("BGR", [0], [1])),
    ],
)
def test_the_normalisation_is_read_from_the_preprocessor(settings: Any, wanted: Any) -> None:
    found = read_normalisation({"model": {"data_preprocessor": settings}})
    assert found == dict(zip(("channels", "mean", "std"), wanted, strict=True), scale=1.0)
    assert read_normalisation({"model": {}})["channels"] == "BGR"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("Given 4\nchannels"),
            "'net' is not for images of 3x8x9: RuntimeError: Given 4",
        ),
        (ModelSourceError("mmcv's operator 'dcn' is missing"), "mmcv's operator 'dcn' is missing"),
    ],
)
def test_only_what_a_size_may_cause_is_told_of_the_size(error: Exception, message: str) -> None:
    def run() -> None:
        with wrap_size_errors("net", (3, 8, 9), "--input"):
            raise error

    assert fault(run)[0] == message
