"""Helpers of core for model sources of plugins: options, image sizes and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from enginebay.errors import ModelSourceError
from enginebay.hooks import ModelRequest
from enginebay.sources import (
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    read_options,
    take_weights,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def request(shapes: Mapping[str, Any] | None = None, **section: Any) -> ModelRequest:
    return ModelRequest(name="net", codebase_config=section, input_shapes=shapes or {})


def test_codebase_section_is_parsed_into_options() -> None:
    options = read_options(request(type="zoo", task="Classification", arguments={"depth": 3}))
    assert (options.type, options.task, options.arguments) == (
        "zoo",
        "Classification",
        {"depth": 3},
    )
    assert (options.pretrained, options.checkpoint) == (False, None)


@pytest.mark.parametrize(
    ("section", "message", "hint"),
    [
        (
            {"checkpiont": "a.pth"},
            (
                "codebase_config: unknown key 'checkpiont'; available: type, task, "
                "arguments, pretrained, checkpoint"
            ),
            "did you mean 'checkpoint'?",
        ),
        (
            {"pretrained": "yes"},
            "codebase_config: Expected `bool`, got `str` - at `$.pretrained`",
            None,
        ),
        (
            {"pretrained": True, "checkpoint": "a.pth"},
            "codebase_config: 'pretrained' and 'checkpoint' cannot be combined",
            "leave one of them out",
        ),
    ],
)
def test_invalid_codebase_section_is_refused(
    section: dict[str, Any], message: str, hint: str | None
) -> None:
    with pytest.raises(ModelSourceError) as caught:
        read_options(request(**section))
    assert (str(caught.value), caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        ({"": (1, 3, 48, 64)}, (3, 48, 64)),
        ({"image": (2, 1, 8, 9)}, (1, 8, 9)),
        ({}, None),
        ({"x": (1, 16)}, None),
        ({"x": (1, 3, None, 64)}, None),
        ({"x": (1, 3, 8, 8), "y": (1, 3, 8, 8)}, None),
    ],
)
def test_image_size_is_read_only_from_a_single_image(shapes: dict[str, Any], size: Any) -> None:
    assert image_size(request(shapes)) == size


def net() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


@pytest.mark.parametrize("place", [None, "state_dict", "model"])
def test_weights_load_from_bare_and_wrapped_checkpoints(place: str | None, tmp_path: Path) -> None:
    trained, fresh = net(), net()
    state = trained.state_dict()
    torch.save({place: state, "epoch": 3} if place else state, tmp_path / "net.pth")
    load_weights(fresh, str(tmp_path / "net.pth"))
    assert torch.equal(fresh.weight, trained.weight)


def test_weights_of_a_different_model_are_refused() -> None:
    with pytest.raises(ModelSourceError, match=r"^'far/away' does not fit Linear: missing 2"):
        take_weights(net(), {"other": torch.ones(1)}, "far/away")


class Evil:
    def __reduce__(self) -> Any:
        return (open, ("run", "w"))


def test_weights_that_would_run_code_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": net().state_dict(), "log": Evil()}, "evil.pth")
    with pytest.raises(
        ModelSourceError, match=r"^'evil\.pth' cannot be read as weights: "
    ) as caught:
        load_weights(net(), "evil.pth")
    assert caught.value.hint == ("write the file by torch.save(model.state_dict(), FILE)")
    assert not (tmp_path / "run").exists()


def test_missing_file_or_state_dict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelSourceError, match=r"^no weights file 'a\.pth'"):
        load_weights(net(), "a.pth")
    torch.save([1], tmp_path / "list.pth")
    with pytest.raises(ModelSourceError, match="contains a list, expected a state_dict"):
        load_weights(net(), str(tmp_path / "list.pth"))


def test_fixed_seed_repeats_weights_and_restores_random_state() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    with fixed_seed():
        first = net()
    with fixed_seed():
        second = net()
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(before, torch.random.get_rng_state())


def test_measured_norms_normalise_and_return_to_evaluation_mode() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).eval()
    images = 5 + 3 * torch.randn(4, 3, 8, 8)
    measure_norms(network, images)
    outputs = network(images)
    assert torch.allclose(outputs.mean((0, 2, 3)), torch.zeros(4), atol=1e-5)
    assert torch.allclose(outputs.var((0, 2, 3)), torch.ones(4), atol=1e-3)
    assert not network[1].training
    assert network[1].momentum == 0.1
