"""Configs and models of a library with mmengine's registries, and the operators of mmcv."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from enginebay.errors import ModelSourceError
from enginebay_openmmlab import read_normalisation

from .test_openmmlab_absent import fault

if TYPE_CHECKING:
    from enginebay_openmmlab import Library

#: mmengine leaves the copies of configs that it makes to the garbage collector, open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

TINY = "tiny_8xb32_pets"
WANTED = "expected a tagger of mmzoo: model = dict(type='Tagger', parts=…)"


def test_a_model_is_built_from_the_name_of_a_config(zoo: Library) -> None:
    config = zoo.read_config(TINY)
    model: Any = zoo.build(config, TINY)
    assert not model.training
    assert model(torch.ones(1, 3, 2, 2)).shape == (1, 3, 2, 2)
    assert model.data_preprocessor == {"mean": [1.0, 2.0, 3.0], "to_rgb": True}
    normal = read_normalisation(config)
    assert (normal["channels"], normal["mean"]) == ("RGB", [1.0, 2.0, 3.0])


def test_class_names_are_those_of_the_data_set_if_their_number_fits(
    zoo: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    config = zoo.read_config(TINY)
    assert zoo.read_class_names(config, 2) == ["cat", "dog"]
    assert "mmzoo.datasets" in sys.modules
    assert "skipped" not in "".join(capsys.readouterr())
    assert zoo.read_class_names(config, 3) == []
    config.test_dataloader.dataset.metainfo = {"classes": ["a", "b", "c"]}
    assert zoo.read_class_names(config, 3) == ["a", "b", "c"]
    config.test_dataloader.dataset = {"type": "Unknown"}
    assert zoo.read_class_names(config, 2) == []
    config.test_dataloader = None
    assert zoo.read_class_names(config, 2) == []


def test_a_config_of_your_own_inherits_and_takes_arguments(zoo: Library) -> None:
    Path("mine.py").write_text("model = dict(type='Tagger', parts=[])")
    Path("more.py").write_text("_base_ = 'mine.py'")
    part = {"type": "SyncBatchNorm", "num_features": 5}
    config = zoo.read_config("more.py", {"parts": [part]})
    model: Any = zoo.build(config, "more.py")
    assert model.parts[0].num_features == 5
    assert (
        zoo.read_config(TINY, {"parts": {"0": {"num_features": 7}}}).model.parts[0]["num_features"]
        == 7
    )


def test_unknown_names_and_files_are_refused(zoo: Library, tmp_path: Path) -> None:
    assert fault(zoo.read_config, "tiny") == (
        "mmzoo 1.0.0 has no model 'tiny'",
        f"similar names: {TINY}",
    )
    folder = tmp_path / "site/mmzoo/.mim/configs"
    message, hint = fault(zoo.read_config, "§§")
    assert hint == f"the names are those of the files in {folder}"
    assert "has no model" in fault(zoo.read_config, "parts")[0]  # of _base_
    assert fault(zoo.read_config, "none.py") == ("no file 'none.py'", None)
    Path("bad.py").write_text("model = 1 / 0")
    message, _ = fault(zoo.read_config, "bad.py")
    assert message == "the config of 'bad.py' cannot be loaded: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = dict(type='Other')", "'bad.py' is of type 'Other', not a tagger"),
        ("model = dict(type='Guesser')", "'bad.py' is of type 'Guesser', not a tagger"),
        ("model = dict(type='NeedsMore')", "'bad.py' is of type 'NeedsMore', not a tagger"),
        ("model = dict(type='mmx.Net')", "'bad.py' is of type 'mmx.Net', not a tagger"),
        ("model = dict()", "'bad.py' is of type 'None', not a tagger"),
        ("model = 3", "'bad.py' contains no model"),
        ("other = dict()", "'bad.py' contains no model"),
    ],
)
def test_configs_of_other_models_are_refused(zoo: Library, text: str, message: str) -> None:
    Path("bad.py").write_text(text)
    assert fault(zoo.read_config, "bad.py", {"parts": []}) == (message, WANTED)


def test_arguments_and_parts_that_do_not_fit_are_refused(zoo: Library) -> None:
    message, hint = fault(zoo.read_config, TINY, {"parts": {"channels": 3}})
    assert message.startswith(f"codebase_config.arguments do not fit the model of '{TINY}': ")
    assert hint == "an item of a list has its number as key: arguments=dict(head={'1': …})"
    message, _ = fault(zoo.build, zoo.read_config(TINY, {"part": 3}), TINY)
    assert message.startswith(f"'{TINY}' cannot be built: TypeError: ")
    assert "'part'" in message
    message, _ = fault(zoo.build, zoo.read_config(TINY, {"parts": [{"type": "Gone"}]}), TINY)
    assert message.startswith(f"'{TINY}' cannot be built: KeyError: ")


def test_operators_that_this_mmcv_lacks_are_replaced_or_named(zoo: Library) -> None:
    zoo.load()
    from mmcv import ops

    if type(sys.modules["mmcv._ext"]).__name__ != "_WithoutOperators":
        pytest.skip("this mmcv has compiled operators")
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3], [8, 8, 9, 9]])
    _, kept = ops.nms(boxes, torch.tensor([0.5, 0.9, 0.4]), 0.5)
    assert kept.tolist() == [1, 2]
    features = torch.arange(16.0).reshape(1, 1, 4, 4)
    pytest.importorskip("torchvision", reason="RoIAlign needs torchvision, which is not installed")
    region = torch.tensor([[0.0, 0, 0, 4, 4]])
    assert ops.RoIAlign(2, aligned=True)(features, region).flatten().tolist() == [
        2.5,
        4.5,
        10.5,
        12.5,
    ]
    with pytest.raises(ModelSourceError, match="mmcv's operator 'psamask_forward'"):
        ops.PSAMask("collect", (3, 3))(torch.ones(1, 9, 2, 2))
