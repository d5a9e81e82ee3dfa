"""The errors of broken plugins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay import __version__
from enginebay.environment import install_command
from enginebay.errors import PluginError
from enginebay.hooks import API_VERSION
from enginebay.plugins import (
    list_backends,
    load_backend,
)
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = "from enginebay.hooks import BackendInfo, hookimpl\n"
TO_BACKEND = """
@hookimpl
def to_backend(request):
    return [__name__]
"""
BUILD_WRAPPER = """
@hookimpl
def build_wrapper(request):
    return "wrapper of " + __name__
"""


@pytest.fixture
def fault(good: Callable[..., str]) -> Callable[[str], PluginError]:
    """Return the error of loading ``mine`` from a source, while a different backend works."""

    def ask(source: str) -> PluginError:
        with (
            temporary_backend("mine", source, distribution="my-dist", version="1.2"),
            temporary_backend("bystander", good("bystander")),
        ):
            with pytest.raises(PluginError) as caught:
                load_backend("mine")
            assert load_backend("bystander").call("to_backend", request=None)
            (status,) = [status for status in list_backends() if status.name == "mine"]
        assert (status.state, status.fix) == ("broken", caught.value.hint)
        assert str(caught.value).endswith(f"cannot be used: {status.reason}")
        return caught.value

    return ask


def reason(error: PluginError) -> str:
    prefix = "backend 'mine' of my-dist 1.2 cannot be used: "
    assert str(error).startswith(prefix)
    return re.sub(r"temporary_mine_\d+", "MODULE", str(error).removeprefix(prefix))


def test_missing_module_hints_at_a_reinstallation(fault: Callable[[str], PluginError]) -> None:
    error = fault("no_such_package.plugin")
    assert reason(error) == "module 'no_such_package' is missing, although my-dist 1.2 is installed"
    assert error.hint == "pip install --force-reinstall --no-deps my-dist"


def test_missing_submodule_is_the_fault_of_the_authors(fault: Callable[[str], PluginError]) -> None:
    error = fault("json.no_such_module")
    assert reason(error) == (
        "module 'json.no_such_module' is missing, although my-dist 1.2 is installed"
    )
    assert error.hint == "report it to the authors of my-dist, or correct json.no_such_module"


def test_missing_dependency_hints_at_its_installation(
    fault: Callable[[str], PluginError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_sdk.py").write_text("import no_such_sdk.runtime")
    monkeypatch.syspath_prepend(tmp_path)
    error = fault("needs_sdk")
    assert reason(error) == (
        "importing 'needs_sdk' raised ModuleNotFoundError: No module named 'no_such_sdk'"
    )
    assert error.hint == "pip install no_such_sdk, or the package that provides it"


def test_exception_at_import_is_shown_by_its_first_line(
    fault: Callable[[str], PluginError],
) -> None:
    error = fault("raise ValueError('first line\\nsecond line')")
    assert reason(error) == "importing 'MODULE' raised ValueError: first line"
    assert isinstance(error.__cause__, ValueError)


def test_exception_without_a_message_is_shown_by_its_type(
    fault: Callable[[str], PluginError],
) -> None:
    assert reason(fault("assert False")) == "importing 'MODULE' raised AssertionError"


@pytest.mark.parametrize("code", ["", "3", "'enough'"])
def test_sys_exit_at_import_is_a_plugin_error(
    code: str, fault: Callable[[str], PluginError]
) -> None:
    error = fault(f"import sys\nsys.exit({code})")
    assert reason(error) == f"importing 'MODULE' raised SystemExit({code or None})"
    assert isinstance(error.__cause__, SystemExit)


def test_base_exception_at_import_is_a_plugin_error(fault: Callable[[str], PluginError]) -> None:
    error = fault("class Odd(BaseException): ...\nraise Odd('no')")
    assert reason(error) == "importing 'MODULE' raised Odd: no"


def test_syntax_error_is_a_plugin_error(fault: Callable[[str], PluginError]) -> None:
    assert reason(fault("def f(:")).startswith("importing 'MODULE' raised SyntaxError: ")


def test_plugin_that_loads_itself_is_a_plugin_error(fault: Callable[[str], PluginError]) -> None:
    error = fault("from enginebay.plugins import load_backend\nload_backend('mine')")
    assert "importing 'MODULE' raised PluginError: " in reason(error)


def test_failed_module_is_not_imported_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = f"with open({str(log)!r}, 'a') as log: log.write('x')\nraise ValueError('no')"
    with temporary_backend("mine", source):
        causes = []
        for _ in range(3):
            with pytest.raises(PluginError, match="raised ValueError: no") as caught:
                load_backend("mine")
            causes.append(caught.value.__cause__)
    assert log.read_text() == "x"
    assert isinstance(causes[0], ValueError)
    assert causes == [causes[0]] * 3


def test_keyboard_interrupt_at_import_is_not_caught() -> None:
    with temporary_backend("mine", "raise KeyboardInterrupt"):
        with pytest.raises(KeyboardInterrupt):
            load_backend("mine")
        assert [s.state for s in list_backends() if s.name == "mine"] == ["installed"]


def test_output_of_a_plugin_goes_to_stderr(
    capsys: pytest.CaptureFixture[str], good: Callable[..., str]
) -> None:
    source = "print('at import')\n" + good("mine").replace(
        "    return Back", "    print('in info')\n    return Back"
    )
    with temporary_backend("mine", source):
        load_backend("mine")
        print("data")
    out, err = capsys.readouterr()
    assert out == "data\n"
    assert err == "at import\nin info\n"


def test_module_without_hooks_is_refused(fault: Callable[[str], PluginError]) -> None:
    error = fault("\n")
    assert reason(error) == "'MODULE' implements no hook"
    assert error.hint == "mark its functions with @enginebay.hookimpl"


def test_unmarked_hooks_are_named(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("@hookimpl\n", ""))
    assert reason(error) == (
        "'MODULE' implements no hook and has "
        "backend_info, build_wrapper, to_backend without @enginebay.hookimpl"
    )


def test_marker_of_a_different_project_is_refused(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    mark = "import pluggy\nhookimpl = pluggy.HookimplMarker('other')\n"
    assert "implements no hook and has " in reason(fault(good("mine").replace(HEAD, HEAD + mark)))


def test_misspelled_hook_hints_at_the_nearest_name(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("def to_backend", "def to_backnd"))
    assert reason(error) == "'MODULE' implements 'to_backnd', which is not a hook"
    assert error.hint == "rename the function to to_backend"


def test_misspelled_backend_info_hints_at_the_right_name(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("def backend_info", "def backend_infos"))
    assert error.hint == "rename the function to backend_info"


def test_unknown_hook_hints_at_all_hooks(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine", "\n@hookimpl\ndef zzz(): ...\n"))
    assert reason(error) == "'MODULE' implements 'zzz', which is not a hook"
    assert error.hint == (
        "the hooks are backend_info, bound_to, build_wrapper, built_for, check_env, "
        "codebase_checks, comparators, data_sources, metrics, model_sources, quantizable_nodes, "
        "rewriters, tasks, time_layers, to_backend, unsupported_operators"
    )


def test_wrong_arguments_hint_at_the_signature(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("to_backend(request)", "to_backend(model)"))
    assert reason(error) == (
        "'MODULE' implements 'to_backend' wrongly: Argument(s) {'model'} are declared in the "
        "hookimpl but can not be found in the hookspec"
    )
    assert error.hint == "write def to_backend(request)"


def test_wrong_arguments_of_a_renamed_hook_are_refused(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    extra = "\n@hookimpl(specname='check_env')\ndef look(tier): ...\n"
    error = fault(good("mine", extra))
    assert "implements 'check_env' wrongly: " in reason(error)


def test_hook_wrapper_without_yield_is_refused(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    extra = "\n@hookimpl(wrapper=True)\ndef check_env(request): ...\n"
    assert "implements 'check_env' wrongly: " in reason(fault(good("mine", extra)))


@pytest.mark.parametrize(
    ("hook", "source"), [("to_backend", TO_BACKEND), ("build_wrapper", BUILD_WRAPPER)]
)
def test_missing_required_hook_is_named(
    hook: str, source: str, good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace(source, ""))
    assert reason(error) == f"'MODULE' does not implement {hook}"


def test_missing_backend_info_is_named(fault: Callable[[str], PluginError]) -> None:
    error = fault(HEAD + TO_BACKEND + BUILD_WRAPPER)
    assert reason(error) == "'MODULE' does not implement backend_info"


def test_unmarked_required_hook_is_named(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("@hookimpl\ndef to_backend", "def to_backend"))
    assert reason(error) == "'MODULE' has to_backend without @enginebay.hookimpl"


def test_unmarked_optional_hook_is_named(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine") + "\ndef bound_to(request):\n    return {}\n")
    assert reason(error) == "'MODULE' has bound_to without @enginebay.hookimpl"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no')", "backend_info() raised ValueError: no"),
        ("raise SystemExit(2)", "backend_info() raised SystemExit(2)"),
        ("return None", "backend_info() must return a BackendInfo, but it returned NoneType"),
        (
            "return {'name': 'mine'}",
            "backend_info() must return a BackendInfo, but it returned dict",
        ),
        (
            "return BackendInfo(name='other', irs=('onnx',))",
            "the entry point is named 'mine', but its BackendInfo is named 'other'",
        ),
        (
            "return BackendInfo(name='mine', irs='onnx')",
            (
                "its irs must be a tuple with one or more of onnx, torchscript, exported_program, "
                "found 'onnx'"
            ),
        ),
        (
            "return BackendInfo(name='mine', irs=())",
            (
                "its irs must be a tuple with one or more of onnx, torchscript, exported_program, "
                "found ()"
            ),
        ),
        (
            "return BackendInfo(name='mine', irs=('onnx', 'uff'))",
            (
                "its irs must be a tuple with one or more of onnx, torchscript, exported_program, "
                "found ('onnx', 'uff')"
            ),
        ),
        (
            "return BackendInfo(name='mine', irs=('onnx',), opset='17')",
            "its opset must be a positive integer or None, found '17'",
        ),
        (
            "return BackendInfo(name='mine', irs=('onnx',), params=dict)",
            "its params must be a subclass of BackendParams, found <class 'dict'>",
        ),
        (
            "return BackendInfo(name='mine', irs=('onnx',), api_version='1')",
            "its api_version must be an integer or a tuple of them, found '1'",
        ),
    ],
)
def test_invalid_backend_info_is_refused(
    body: str, told: str, fault: Callable[[str], PluginError]
) -> None:
    source = HEAD + f"\n@hookimpl\ndef backend_info():\n    {body}\n" + TO_BACKEND + BUILD_WRAPPER
    assert reason(fault(source)) == told


def test_backend_info_with_arguments_is_refused(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("backend_info()", "backend_info(request)"))
    assert reason(error) == "backend_info() must not take arguments"


@pytest.mark.parametrize("other", [API_VERSION - 1, API_VERSION + 1])
@pytest.mark.parametrize("change", [("", ""), ("to_backend(request)", "convert(old)")])
def test_wrong_api_version_is_reported_before_its_consequences(
    other: int,
    change: tuple[str, str],
    good: Callable[..., str],
    fault: Callable[[str], PluginError],
) -> None:
    source = good("mine").replace("api_version=1", f"api_version={other}").replace(*change)
    error = fault(source)
    assert reason(error) == (
        f"the plugin requires API version {other}, but enginebay {__version__} has API version 1"
    )
    assert error.hint == install_command("my-dist" if other < API_VERSION else "enginebay", "-U")


@pytest.mark.parametrize(
    ("versions", "outdated"), [((-1, 0), "my-dist"), ((0, 2), "enginebay"), ((2, 3), "enginebay")]
)
def test_several_api_versions_without_this_one_are_refused(
    versions: tuple[int, ...],
    outdated: str,
    good: Callable[..., str],
    fault: Callable[[str], PluginError],
) -> None:
    error = fault(good("mine").replace("api_version=1", f"api_version={versions}"))
    assert reason(error) == (
        f"the plugin requires API version {versions[0]} or {versions[1]}, but enginebay "
        f"{__version__} has API version 1"
    )
    assert error.hint == install_command(outdated, "-U")


def test_no_api_version_is_refused(
    good: Callable[..., str], fault: Callable[[str], PluginError]
) -> None:
    error = fault(good("mine").replace("api_version=1", "api_version=()"))
    assert reason(error) == "its api_version must be an integer or a tuple of them, found ()"


def test_one_of_several_api_versions_is_enough(good: Callable[..., str]) -> None:
    source = good("mine").replace("api_version=1", "api_version=(1, 2)")
    with temporary_backend("mine", source):
        assert eb.get_backend("mine").info.api_version == (1, 2)
