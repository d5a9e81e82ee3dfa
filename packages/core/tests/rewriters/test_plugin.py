"""The plugin of Enginebay's own rewriters: how it is listed and loaded, and a broken one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb
import enginebay_rewriters
from enginebay.cli import main
from enginebay.environment import install_command
from enginebay.errors import PluginError
from enginebay.plugins import PluginWarning, forget_plugins, list_plugins, load_plugins
from enginebay_rewriters.builtin import builtin_rewriters
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

REINSTALL = install_command("enginebay", "--force-reinstall --no-deps")
ALL = "enginebay.plugins"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget_plugins()
    yield
    forget_plugins()


def installed(source: str, group: str = ALL) -> AbstractContextManager[Path]:
    """Install another distribution ``enginebay`` in the place of the real one."""
    return temporary_backend(
        "rewriters", source, group=group, distribution="enginebay", version=eb.__version__
    )


def export(tmp_path: Path) -> eb.IRModel:
    return eb.export(torch.nn.ReLU(), torch.ones(1, 2), path=tmp_path / "relu.onnx")


def test_it_is_declared_by_cores_distribution_and_has_cores_version() -> None:
    (entry,) = (each for each in entry_points(group=ALL) if each.name == "rewriters")
    assert entry.value == "enginebay_rewriters.plugin"
    assert entry.dist is not None
    assert entry.dist.name == "enginebay"
    assert enginebay_rewriters.__version__ == eb.__version__


def test_its_set_is_listed_and_selected_as_any_plugins(loopback: str) -> None:
    sets = [group for group in eb.get_backend(loopback).rewriters() if group.fallback]
    (own,) = sets
    assert len(own) == len(builtin_rewriters())
    assert {each.distribution for each in own} == {"enginebay"}
    assert {each.rank for each in own} == {0}
    with eb.rewrite(backend=None) as rewriting:
        torch.all(torch.ones(2))
    assert rewriting.report.fired == {"torch.all": 1}
    with eb.rewrite(backend=None, builtin=False) as rewriting:
        torch.all(torch.ones(2))
    assert rewriting.report.fired == {}


@pytest.mark.process
def test_loading_it_needs_no_torch_and_no_trial_in_a_child_process() -> None:
    code = (
        "import sys\nfrom enginebay.isolation import programs\n"
        "from enginebay.plugins import load_plugins, trial\n"
        "trial._read_results = trial._try_import = None\n"
        "import enginebay.plugins.discovery as d\nlisted = d.list_plugins\n"
        "d.list_plugins = lambda: [p for p in listed() if p.is_core]\n"
        "team = load_plugins()\nteam.check_core_plugins()\n"
        "assert len(team.members) == 1, team.members\n"
        "loaded = {'torch', 'onnx', 'enginebay_rewriters.builtin'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: The loopback backend under another name.
UNUSABLE = r"plugin 'rewriters' of enginebay \S+ cannot be used: "


@pytest.mark.parametrize(
    ("source", "group", "message"),
    [
        ("raise ValueError('no')", ALL, rf"{UNUSABLE}importing '\w+' raised ValueError: no"),
        (
            "no_such_package",
            ALL,
            (
                rf"{UNUSABLE}module 'no_such_package' is missing, although enginebay \S+ is "
                "installed"
            ),
        ),
        (
            "",
            "enginebay.nothing",
            (
                "Enginebay's own rewriters are not installed: the distribution enginebay lists no "
                "plugin"
            ),
        ),
    ],
    ids=["does not import", "is missing", "is not declared"],
)
def test_broken_library_is_an_error_of_export_alone(
    source: str, group: str, message: str, loopback: str, tmp_path: Path
) -> None:
    model, x = torch.nn.ReLU(), torch.ones(1, 2)
    artifact = eb.deploy(model, x, backend=loopback, work_dir=tmp_path / "before").artifact
    with installed(source, group):
        attempts: list[Callable[[], Any]] = [
            lambda: export(tmp_path),
            lambda: eb.deploy(model, x, backend=loopback, work_dir=tmp_path / "after"),
            lambda: eb.rewrite(backend=None),
        ]
        for attempt in attempts:
            with pytest.raises(PluginError) as caught:
                attempt()
            assert re.fullmatch(message, str(caught.value))
            assert caught.value.hint == REINSTALL
        assert not (tmp_path / "after").exists()
        # Warnings are errors in tests: none of these warns of the library.
        with eb.load(artifact) as wrapper:
            assert wrapper({"input": x})[wrapper.output_names[0]].tolist() == [[1, 1]]
        assert eb.verify(artifact, reference=model).verdict == "verified"
        assert loopback in {status.name for status in eb.list_backends()}
        with eb.rewrite(backend=None, builtin=False):
            pass


def test_library_of_another_version_is_an_error_of_export(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("enginebay_rewriters.plugin.__version__", "0.0.9")
    with pytest.raises(PluginError) as caught:
        export(tmp_path)
    assert str(caught.value) == (
        "the rewriters of enginebay are of version 0.0.9, but enginebay is of version "
        f"{eb.__version__}"
    )
    assert caught.value.hint == REINSTALL


def test_library_whose_rewriters_cannot_be_imported_is_an_error_of_export(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "enginebay_rewriters.builtin", None)
    with pytest.raises(PluginError) as caught:
        export(tmp_path)
    assert str(caught.value).startswith(
        f"rewriters() of 'rewriters' (enginebay {eb.__version__}) raised ModuleNotFoundError: "
    )
    assert caught.value.hint == REINSTALL


def test_disabled_plugin_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBAY_DISABLE_PLUGINS", "rewriters")
    (status,) = (each for each in list_plugins() if each.name == "rewriters")
    assert status.state == "disabled"
    assert status.reason == "ENGINEBAY_DISABLE_PLUGINS lists it"
    assert status.fix == "take rewriters out of ENGINEBAY_DISABLE_PLUGINS"
    assert "rewriters" not in {each.name for each in load_plugins().members.values()}
    with eb.rewrite(backend=None) as rewriting:
        torch.all(torch.ones(2))
    assert rewriting.report.fired == {}


def test_unknown_name_among_the_disabled_plugins_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINEBAY_DISABLE_PLUGINS", "rewritters")
    names = ", ".join(status.name for status in list_plugins())
    message = (
        "ENGINEBAY_DISABLE_PLUGINS lists 'rewritters', but no plugin has this name; "
        f"installed: {names}"
    )
    with pytest.warns(PluginWarning, match=f"^{message}$"):
        load_plugins()
    assert main(["backends"]) == 0
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_library_without_its_module_is_listed_as_broken() -> None:
    with installed("enginebay_rewriters.gone"):
        (status,) = (each for each in list_plugins() if each.name == "rewriters")
    assert (status.state, status.fix) == ("broken", REINSTALL)
    assert status.reason == (
        f"module 'enginebay_rewriters.gone' is missing, although enginebay {eb.__version__} is "
        "installed"
    )


def test_loaded_library_that_does_not_import_is_listed_as_broken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with installed("raise ValueError('no')"):
        assert main(["backends", "--load", "--json"]) == 0
    (row,) = (
        each
        for each in json.loads(capsys.readouterr().out)["plugins"]
        if each["name"] == "rewriters"
    )
    assert (row["state"], row["fix"]) == ("broken", REINSTALL)


def test_broken_library_is_an_error_at_once_when_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    with (
        installed("raise ValueError('no')"),
        pytest.raises(
            PluginError, match="this is an error because ENGINEBAY_STRICT_PLUGINS is set"
        ),
    ):
        load_plugins()
