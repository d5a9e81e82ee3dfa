"""Errors about a codebase's library, and the codebase's own keys of ``codebase_config``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import pytest

from enginebay.authors.sources import Options, no_model_error, read_options, wrap_import_errors
from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, ModelSourceError
from enginebay.hooks import ModelRequest

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-zoo[zoo]")


def fault(distribution: str = "") -> tuple[str, str | None]:
    with (
        pytest.raises(MissingDependencyError) as caught,
        wrap_import_errors("zoo", "enginebay-zoo[zoo]", distribution),
    ):
        import_module("zoo")
    sys.modules.pop("zoo", None)
    return str(caught.value), caught.value.hint


def test_a_missing_library_has_the_command_that_installs_it() -> None:
    assert fault() == ("a model 'zoo:NAME' requires zoo, which is not installed", INSTALL)


def test_a_missing_requirement_of_the_library_is_another_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zoo.py").write_text("import zoo_base")
    monkeypatch.syspath_prepend(tmp_path)
    cause = "ModuleNotFoundError: No module named 'zoo_base'"
    assert fault() == (f"zoo is installed but cannot be imported: {cause}", INSTALL)


@pytest.mark.parametrize(
    ("installed", "versions", "remove"),
    [
        (["zoo"], " (zoo 0.30.0)", "pip uninstall zoo, then "),
        (
            ["zoo", "new-zoo"],
            " (new-zoo 0.30.0, zoo 0.30.0)",
            "pip uninstall new-zoo zoo, then ",
        ),
        (["new-zoo"], " (new-zoo 0.30.0)", ""),
        ([], "", ""),
    ],
)
def test_another_fork_or_version_that_cannot_be_imported_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: list[str],
    versions: str,
    remove: str,
) -> None:
    (tmp_path / "zoo.py").write_text("raise AssertionError('BASE==2.3.6 is used, but …\\n2')")
    for name in installed:
        folder = tmp_path / f"{name.replace('-', '_')}-0.30.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.30.0\n")
        (folder / "top_level.txt").write_text("zoo\n")
    monkeypatch.syspath_prepend(tmp_path)
    cause = "AssertionError: BASE==2.3.6 is used, but …"
    message = f"zoo is installed{versions} but cannot be imported: {cause}"
    assert fault("new-zoo") == (message, f"{remove}{INSTALL}")
    _, hint = fault()  # without the distribution, none is another one
    assert hint == INSTALL


def test_a_torchvision_for_another_torch_is_the_cause_that_the_hint_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zoo.py").write_text("raise RuntimeError('operator torchvision::nms is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    assert fault()[1] == f"{INSTALL}, with matching builds of torch and torchvision"


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("resnet18", "resnet18_8xb16_cifar10, resnet18_8xb32_in1k"),
        ("ResNet18_8xb32", "resnet18_8xb32_in1k"),
        ("resnt18_8xb32_in1k", "resnet18_8xb32_in1k, resnet18_8xb16_cifar10"),
        ("§§", None),
    ],
)
def test_an_unknown_model_shows_similar_names(name: str, similar: str | None) -> None:
    error = no_model_error("zoo", name, ["resnet18_8xb16_cifar10", "resnet18_8xb32_in1k", "vit"])
    assert str(error) == f"zoo has no model '{name}'"
    assert error.hint == (similar and f"similar names: {similar}")


class ZooOptions(Options, frozen=True, kw_only=True):
    task: Literal["Tagging", "Counting"] | None = None
    with_scores: bool = True


def read(**section: Any) -> ZooOptions:
    return read_options(ModelRequest(name="net", codebase_config=section), ZooOptions)


def test_a_codebase_adds_its_own_keys() -> None:
    options = read(type="zoo", task="Counting", with_scores=False, checkpoint="a.pth")
    assert (options.task, options.with_scores, options.weights) == ("Counting", False, "a.pth")
    assert (read().task, read(task=None).with_scores) == (None, True)


@pytest.mark.parametrize(
    ("section", "message", "hint"),
    [
        (
            {"type": "zoo", "task": "tagging"},
            "codebase_config.task: 'tagging' is not a task of zoo; available: Tagging, Counting",
            "did you mean 'Tagging'?",
        ),
        (
            {"task": ["Poses"]},
            (
                "codebase_config.task: '['Poses']' is not a task of this codebase; available: "
                "Tagging, Counting"
            ),
            "set task='Tagging', or remove task",
        ),
        (
            {"with_score": True},
            (
                "codebase_config: unknown key 'with_score'; available: type, task, arguments, "
                "pretrained, checkpoint, with_scores"
            ),
            "did you mean 'with_scores'?",
        ),
        (
            {"with_scores": "no"},
            "codebase_config: Expected `bool`, got `str` - at `$.with_scores`",
            None,
        ),
    ],
)
def test_wrong_keys_and_values_of_a_codebase_are_refused(
    section: dict[str, Any], message: str, hint: str | None
) -> None:
    with pytest.raises(ModelSourceError) as caught:
        read(**section)
    assert (str(caught.value), caught.value.hint) == (message, hint)
