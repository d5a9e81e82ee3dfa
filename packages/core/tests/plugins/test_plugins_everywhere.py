"""Plugins that are called for every backend: rewriter packs, model sources, wrappers."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

import pytest

from enginebay.errors import EnginebayError, PluginError
from enginebay.plugins import (
    PluginWarning,
    contributed,
    list_plugins,
    load_backend,
    load_plugins,
)
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "from enginebay.hooks import BackendInfo, hookimpl\n"
REWRITERS = "\n@hookimpl\ndef rewriters(request):\n    return __name__[:14]\n"


def pack(name: str, source: str):  # type: ignore[no-untyped-def]  # a context manager
    return temporary_backend(
        name, source, group="enginebay.plugins", distribution=f"{name}-dist", version="5"
    )


def test_plugin_answers_follow_the_backend_and_name_their_owner(good: Callable[..., str]) -> None:
    with (
        pack("packa", HEAD + REWRITERS),
        pack("packb", HEAD + REWRITERS.replace("__name__[:14]", "None")),
        temporary_backend("mine", good("mine", REWRITERS)),
        temporary_backend("other", good("other", REWRITERS)),
    ):
        load_backend("other")
        answers = load_backend("mine").call_all("rewriters", request=None)
    assert [(status.name, answer) for status, answer in answers] == [
        ("mine", "temporary_mine"),
        ("packa", "temporary_pack"),
    ]


def test_hook_wrapper_wraps_every_backend(good: Callable[..., str]) -> None:
    wrapper = (
        "\n@hookimpl(wrapper=True)\ndef {hook}(request):\n"
        "    answer = yield\n    return ['wrapped', *answer]\n"
    )
    source = HEAD + wrapper.format(hook="to_backend") + wrapper.format(hook="rewriters")
    with (
        pack("wrap", source),
        pack("more", HEAD + REWRITERS),
        temporary_backend("aa", good("aa", REWRITERS)),
        temporary_backend("bb", good("bb")),
    ):
        for name in ("aa", "bb"):
            first, second = load_backend(name).call("to_backend", request=None)
            assert first == "wrapped"
            assert f"_{name}_" in second
        answers = load_backend("aa").call_all("rewriters", request=None)
    assert [(status.name, answer[:12]) for status, answer in answers] == [
        ("aa", "wrapped"),
        ("aa", "temporary_aa"),
        ("more", "wrapped"),
        ("more", "temporary_mo"),
    ]


def test_tryfirst_plugin_answers_before_the_backend(good: Callable[..., str]) -> None:
    cache = "\n@hookimpl{first}\ndef to_backend(request):\n    return 'cached'\n"
    for first, wanted in (("(tryfirst=True)", True), ("", False)):
        with (
            pack("cache", HEAD + cache.format(first=first)),
            temporary_backend("mine", good("mine")),
        ):
            assert (load_backend("mine").call("to_backend", request=None) == "cached") is wanted


def test_plugin_cannot_replace_backend_info(good: Callable[..., str]) -> None:
    liar = (
        "\n@hookimpl(tryfirst=True)\ndef backend_info():\n"
        "    return BackendInfo(name='liar', irs=('onnx',))\n"
    )
    with pack("liar", HEAD + liar), temporary_backend("mine", good("mine")):
        assert load_backend("mine").info.name == "mine"


def test_plugins_answer_without_a_backend() -> None:
    source = HEAD + "\n@hookimpl\ndef model_sources():\n    return {'zoo': len}\n"
    with pack("zoo", source), temporary_backend("mine", "raise SystemExit"):
        team = load_plugins()
        assert load_plugins() is team
        answers = team.call_all("model_sources")
        assert [answer for s, answer in answers if s.name == "zoo"] == [{"zoo": len}]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise ValueError('no')", "importing 'MODULE' raised ValueError: no"),
        ("import sys\nsys.exit()", "importing 'MODULE' raised SystemExit(None)"),
        ("\n", "'MODULE' implements no hook"),
        (
            HEAD + REWRITERS.replace("def rewriters", "def rewriter"),
            "'MODULE' implements 'rewriter', which is not a hook",
        ),
        (
            HEAD + REWRITERS.replace("(request)", "(ir)"),
            (
                "'MODULE' implements 'rewriters' wrongly: Argument(s) {'ir'} are declared in the "
                "hookimpl but can not be found in the hookspec"
            ),
        ),
        (
            "no_such_package",
            "module 'no_such_package' is missing, although bad-dist 5 is installed",
        ),
    ],
)
def test_broken_plugin_is_skipped_with_a_single_warning(
    source: str, why: str, good: Callable[..., str]
) -> None:
    with (
        pack("bad", source),
        pack("fine", HEAD + REWRITERS),
        temporary_backend("mine", good("mine")),
        temporary_backend("other", good("other")),
    ):
        with pytest.warns(PluginWarning) as caught:
            plugin = load_backend("mine")
        load_backend("other")
        assert [s.name for s, _ in plugin.call_all("rewriters", request=None)] == ["fine"]
        (status,) = [s for s in list_plugins() if s.name == "bad"]
    (warning,) = caught
    message = re.sub(r"temporary_bad_\d+", "MODULE", str(warning.message))
    fix = re.sub(r"temporary_bad_\d+", "MODULE", str(status.fix))
    unusable = f"plugin 'bad' of bad-dist 5 cannot be used: {why}"
    assert message == f"{unusable}; the plugin is not used. Fix: {fix}"
    assert warning.filename == __file__
    assert status.state == "broken"


def test_broken_plugin_is_an_error_when_strict(
    monkeypatch: pytest.MonkeyPatch, good: Callable[..., str]
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    with pack("bad", "raise ValueError('no')"), temporary_backend("mine", good("mine")):
        for _ in range(2):
            with pytest.raises(PluginError, match=r"^plugin 'bad' of bad-dist 5 cannot be used: "):
                load_backend("mine")
        monkeypatch.delenv("ENGINEBAY_STRICT_PLUGINS")
        with pytest.warns(PluginWarning):
            assert load_backend("mine").info.name == "mine"


def test_plugin_warning_as_error_is_raised_once(good: Callable[..., str]) -> None:
    with (
        pack("bad", "raise ValueError('no')"),
        temporary_backend("mine", good("mine")),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        with pytest.raises(PluginWarning):
            load_backend("mine")
        assert load_backend("mine").info.name == "mine"


def test_a_module_in_both_groups_answers_once(good: Callable[..., str]) -> None:
    with temporary_backend("mine", good("mine", REWRITERS)) as folder:
        module = next(folder.glob("*.py")).stem
        with pack("mineagain", module), pack("andagain", module):
            answers = load_backend("mine").call_all("rewriters", request=None)
    assert [status.name for status, _ in answers] == ["mine"]


RAISES = HEAD + REWRITERS.replace("return", "raise ValueError").replace("__name__[:14]", "('no')")
RAISED = "rewriters() of 'bad' (bad-dist 5) raised ValueError: no"


def test_hook_that_raises_leaves_its_plugin_out(good: Callable[..., str]) -> None:
    with (
        temporary_backend("mine", good("mine", REWRITERS)),
        pack("bad", RAISES),
        pytest.warns(PluginWarning, match=re.escape(f"{RAISED}; it is left out. Fix: ")) as warned,
    ):
        answers = load_backend("mine").call_all("rewriters", skip_raising=True, request=None)
    assert [status.name for status, _ in answers] == ["mine"]
    assert str(warned[0].message).endswith(", or ENGINEBAY_DISABLE_PLUGINS=bad")


def test_strict_hook_that_raises_names_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    with pack("bad", RAISES), pytest.raises(PluginError) as caught:
        load_plugins().call_all("rewriters", skip_raising=True, request=None)
    assert str(caught.value).startswith(f"{RAISED}; this is an error because ENGINEBAY_STRICT")
    assert isinstance(caught.value.__cause__, ValueError)


def test_backends_own_hook_that_raises_is_an_error(good: Callable[..., str]) -> None:
    source = REWRITERS.replace("return", "raise ValueError").replace("__name__[:14]", "('no')")
    with temporary_backend("mine", good("mine", source)), pytest.raises(PluginError):
        load_backend("mine").call_all("rewriters", skip_raising=True, request=None)


def test_enginebay_errors_of_hooks_pass_unchanged() -> None:
    source = HEAD + "from enginebay.errors import RewriterError\n"
    source += "\n@hookimpl\ndef rewriters(request):\n    raise RewriterError('two of them')\n"
    with pack("bad", source), pytest.raises(EnginebayError, match=r"^two of them$"):
        load_plugins().call_all("rewriters", request=None)


def test_result_other_than_a_mapping_is_refused() -> None:
    source = "import enginebay as eb\n@eb.hookimpl\ndef metrics():\n    return ['map']\n"
    with (
        temporary_backend("maps", source, group="enginebay.plugins"),
        pytest.raises(PluginError) as caught,
    ):
        contributed("metrics")
    assert re.fullmatch(
        r"metrics\(\) of 'maps' \(.*\) returned \['map'\]: expected a mapping from names to "
        r"callables",
        str(caught.value),
    )


@pytest.mark.parametrize("found", ["{3: int}", "'x' * 10**6"])
def test_wrong_result_is_shortened_in_the_error(found: str) -> None:
    source = HEAD + f"@hookimpl\ndef metrics():\n    return {found}\n"
    with pack("lying", source), pytest.raises(PluginError) as caught:
        contributed("metrics")
    assert str(caught.value).endswith(": expected a mapping from names to callables")
    assert len(str(caught.value)) < 200


def test_hook_error_with_a_failing_str_is_reported() -> None:
    source = (
        "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\n\n"
        "@hookimpl\ndef metrics():\n    raise Mute\n"
    )
    message = r"raised Mute: <exception str\(\) failed>"
    with pack("mute", HEAD + source), pytest.raises(PluginError, match=message):
        contributed("metrics")
