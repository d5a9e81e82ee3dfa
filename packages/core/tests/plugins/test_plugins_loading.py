"""Loading by name imports a backend once and alone; a wrong name is explained."""

from __future__ import annotations

import os
import re
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from enginebay.environment import install_command
from enginebay.errors import BackendNotFoundError, PluginError
from enginebay.hooks import BackendInfo
from enginebay.plugins import (
    LoadedPlugin,
    load_backend,
)
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_backend_answers_its_hooks(good: Callable[..., str]) -> None:
    with temporary_backend("mine", good("mine"), distribution="d", version="3"):
        plugin = load_backend("mine")
        assert isinstance(plugin, LoadedPlugin)
        assert plugin.info == BackendInfo(name="mine", irs=("onnx",))
        assert plugin.status.provider == "d 3"
        assert plugin.call("build_wrapper", request=None).startswith("wrapper of temporary_mine")
        assert plugin.call("check_env", request=None) is None


def test_backend_is_imported_once(tmp_path: Path, good: Callable[..., str]) -> None:
    counted = f"\nwith open({str(tmp_path / 'log')!r}, 'a') as log:\n    log.write('x')\n"
    with temporary_backend("mine", good("mine", counted)):
        assert load_backend("mine") is load_backend("mine")
    assert (tmp_path / "log").read_text() == "x"


def test_concurrent_threads_get_the_same_plugin(good: Callable[..., str]) -> None:
    slow = "import time\ntime.sleep(0.1)\n" + good("mine")
    with temporary_backend("mine", slow):
        gate = threading.Barrier(8)
        plugins: list[LoadedPlugin] = []

        def ask() -> None:
            gate.wait()
            plugins.append(load_backend("mine"))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(plugins) == 8
    assert len(set(map(id, plugins))) == 1


def test_loading_a_backend_imports_no_other_backend(good: Callable[..., str]) -> None:
    with (
        temporary_backend("mine", good("mine")),
        temporary_backend("other", "raise SystemExit"),
    ):
        load_backend("mine")
        assert not [name for name in sys.modules if name.startswith("temporary_other")]


def test_backend_never_answers_for_a_different_backend(good: Callable[..., str]) -> None:
    hidden = (
        good("bb")
        .replace("def build_wrapper", "def hidden")
        .replace(
            "@hookimpl\ndef hidden",
            "@hookimpl(specname='build_wrapper', tryfirst=True)\ndef hidden",
        )
    )
    with (
        temporary_backend("aa", good("aa")),
        temporary_backend("bb", hidden),
    ):
        first, second = load_backend("aa"), load_backend("bb")
        for _ in range(2):
            assert "_aa_" in first.call("to_backend", request=None)[0]
            assert "_aa_" in first.call("build_wrapper", request=None)
            assert "_bb_" in second.call("to_backend", request=None)[0]


def test_plugin_can_load_a_plugin_while_being_imported(good: Callable[..., str]) -> None:
    nested = "from enginebay.plugins import load_backend\nload_backend('inner')\n"
    with (
        temporary_backend("inner", good("inner")),
        temporary_backend("outer", nested + good("outer")),
    ):
        assert load_backend("outer").info.name == "outer"


def test_unknown_hook_marked_optional_is_accepted(good: Callable[..., str]) -> None:
    later = "\n@hookimpl(optionalhook=True)\ndef quantize(request):\n    return 1\n"
    with temporary_backend("mine", good("mine", later)):
        assert load_backend("mine").info.name == "mine"


def test_module_with_two_names_is_checked_for_each_name(good: Callable[..., str]) -> None:
    with temporary_backend("mine", good("mine")) as folder:
        module = next(folder.glob("*.py")).stem
        with temporary_backend("alias", module):
            assert load_backend("mine").info.name == "mine"
            with pytest.raises(PluginError, match="the entry point is named 'alias'"):
                load_backend("alias")


def test_unknown_backend_lists_the_installed_backends(good: Callable[..., str]) -> None:
    with (
        temporary_backend("mine", good("mine")),
        temporary_backend("gone", "no_such_package"),
        pytest.raises(BackendNotFoundError) as caught,
    ):
        load_backend("zzzzzz")
    assert re.fullmatch(
        r"no backend 'zzzzzz' is installed; installed: (.*, )?mine(, .*)?", str(caught.value)
    )
    assert "gone" not in str(caught.value)
    assert caught.value.hint == (
        "no known package provides it; to write one: enginebay new-backend zzzzzz"
    )
    for word, meant in (("ort", "onnxruntime"), ("OV", "openvino"), ("trt", "tensorrt")):
        with pytest.raises(BackendNotFoundError) as caught:
            load_backend(word)
        assert f"did you mean '{meant}'?" in str(caught.value.hint)
    assert caught.value.exit_code == 3


def test_unknown_backend_hints_at_the_nearest_installed_name(good: Callable[..., str]) -> None:
    with (
        temporary_backend("myengine", good("myengine")),
        pytest.raises(BackendNotFoundError) as caught,
    ):
        load_backend("MyEngin")
    assert caught.value.hint == "did you mean 'myengine'?"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tensorrt", install_command("enginebay-tensorrt")),
        (
            "onnxruntim",
            f"did you mean 'onnxruntime'? {install_command('enginebay-onnxruntime[cpu]')}",
        ),
        ("tensort", "did you mean 'tensorrt'? " + install_command("enginebay-tensorrt")),
    ],
)
def test_missing_known_backend_hints_at_its_package(
    name: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay.plugins.discovery.list_backends", list)  # whatever is installed
    with pytest.raises(BackendNotFoundError) as caught:
        load_backend(name)
    assert str(caught.value).startswith(f"no backend {name!r} is installed; installed: ")
    assert caught.value.hint == hint


def test_unknown_backend_is_refused_without_installed_backends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "")
    with pytest.raises(
        BackendNotFoundError, match=r"^no backend 'x' is installed; installed: none\nhint: [^\n]+$"
    ):
        load_backend("x")


def test_backend_from_two_distributions_is_refused(good: Callable[..., str]) -> None:
    with (
        temporary_backend("twin", "json", distribution="a-dist", version="1"),
        temporary_backend("twin", "string", distribution="b-dist", version="2"),
        temporary_backend("bystander", good("bystander")),
    ):
        assert load_backend("bystander").info.name == "bystander"
        with pytest.raises(PluginError) as caught:
            load_backend("twin")
    assert str(caught.value).endswith("it is provided by a-dist 1 (json) and by b-dist 2 (string)")
    assert caught.value.hint == (
        "name one: twin@a-dist or twin@b-dist, or pip uninstall a-dist, or pip uninstall b-dist"
    )


def test_one_of_two_distributions_is_chosen_by_its_name(
    monkeypatch: pytest.MonkeyPatch, good: Callable[..., str]
) -> None:
    monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "other")
    with (
        temporary_backend("twin", good("twin"), distribution="a-dist"),
        temporary_backend("twin", good("twin", "\n"), distribution="b-dist"),
    ):
        with pytest.raises(BackendNotFoundError, match=r"^no backend 'twin@c-dist' is installed"):
            load_backend("twin@c-dist")
        chosen = load_backend("twin@b-dist")
        assert chosen.status.distribution == "b-dist"
        assert chosen.info.name == "twin"
        # Processes that this one starts, and commands without the choice, use it too.
        assert os.environ["ENGINEBAY_DISABLE_BACKENDS"] == "other,twin@a-dist"
        assert load_backend("twin") is chosen
        with pytest.raises(PluginError, match=r"ENGINEBAY_DISABLE_BACKENDS lists it\n"):
            load_backend("twin@a-dist")


def test_the_distribution_of_a_backend_may_be_named_without_need(good: Callable[..., str]) -> None:
    with temporary_backend("mine", good("mine"), distribution="d"):
        assert load_backend("mine@d") is load_backend("mine")


def test_disabled_backend_is_refused_even_after_loading(
    monkeypatch: pytest.MonkeyPatch, good: Callable[..., str]
) -> None:
    with temporary_backend("mine", good("mine"), distribution="my-dist", version="1.2"):
        loaded = load_backend("mine")
        monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "other,mine")
        with pytest.raises(PluginError) as caught:
            load_backend("mine")
        assert str(caught.value) == (
            "backend 'mine' of my-dist 1.2 cannot be used: ENGINEBAY_DISABLE_BACKENDS lists it"
        )
        assert caught.value.hint == "take mine out of ENGINEBAY_DISABLE_BACKENDS"
        monkeypatch.delenv("ENGINEBAY_DISABLE_BACKENDS")
        assert load_backend("mine") is loaded


def test_unknown_name_of_the_package_raises_attribute_error() -> None:
    import enginebay.plugins

    with pytest.raises(AttributeError, match=r"module 'enginebay.plugins' has no attribute 'load'"):
        enginebay.plugins.load  # noqa: B018 -- the access is the test
    assert all(hasattr(enginebay.plugins, name) for name in enginebay.plugins.__all__)
