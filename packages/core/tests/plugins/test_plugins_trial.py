"""A plugin is first loaded in a child process, where its crash is harmless."""

from __future__ import annotations

import os
import re
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enginebay.errors import PluginError
from enginebay.plugins import (
    PluginWarning,
    forget_failures,
    forget_plugins,
    list_backends,
    load_backend,
    load_plugins,
    trial,
)
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEGFAULT = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
HANG = "import threading\nthreading.Event().wait()"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@contextmanager
def new_plugin(name: str, source: str, **options: str) -> Iterator[Path]:
    """Install a plugin that was never loaded before."""
    with temporary_backend(name, source, **options) as folder:
        forget_everything()
        yield folder


def forget_everything() -> None:
    Path(os.environ["XDG_CACHE_HOME"], "enginebay", "plugins.json").unlink()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, soon: int) -> int:
    """Shorten the time limit of the first load."""
    monkeypatch.setattr(trial, "TIME_LIMIT", soon)
    return soon


@pytest.fixture
def imports(tmp_path: Path) -> Callable[[], int]:
    """Return a function that counts the imports of a plugin with the code of ``logging``."""
    log = tmp_path / "imports"
    return lambda: len(log.read_text()) if log.exists() else 0


def logging(tmp_path: Path) -> str:
    return f"with open({str(tmp_path / 'imports')!r}, 'a') as log: log.write('x')\n"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("source", "ending"),
    [
        (SEGFAULT, "ended with SIGSEGV before it returned"),
        ("import os\nos._exit(0)", "ended with exit code 0 before it returned"),
        (HANG, "ran past its time limit of {limit} s"),
    ],
)
def test_plugin_that_ends_its_process_is_a_plugin_error(
    source: str, ending: str, impatient: int
) -> None:
    with new_plugin("mine", source, distribution="my-dist", version="1.2"):
        with pytest.raises(PluginError) as caught:
            load_backend("mine")
        (status,) = [status for status in list_backends() if status.name == "mine"]
    message = re.sub(r"temporary_mine_\d+", "MODULE", str(caught.value))
    start = "backend 'mine' of my-dist 1.2 cannot be used: importing 'MODULE' "
    assert message == start + ending.format(limit=impatient)
    assert re.fullmatch(
        r"report it to the authors of my-dist, or correct temporary_mine_\d+; "
        "'enginebay backends --load' imports the plugin again",
        caught.value.hint or "",
    )
    assert status.state == "broken"


def test_crashing_plugin_is_skipped_and_backends_still_load(good: Callable[..., str]) -> None:
    with (
        new_plugin("mine", good("mine")),
        new_plugin("pack", SEGFAULT, group="enginebay.plugins"),
    ):
        with pytest.warns(
            PluginWarning, match="ended with SIGSEGV .*; the plugin is not used"
        ) as caught:
            loaded = load_backend("mine")
        assert len(caught) == 1
        assert loaded.info.name == "mine"
        members = [module.__name__ for module in load_plugins().members]
        assert not [name for name in members if name.startswith("temporary_pack")]


def test_only_new_and_edited_plugins_are_tried_in_a_child(
    good: Callable[..., str], tmp_path: Path, imports: Callable[[], int]
) -> None:
    with new_plugin("mine", logging(tmp_path) + good("mine")) as folder:
        load_backend("mine")
        assert imports() == 2, "in the child and here"
        forget_plugins()
        load_backend("mine")
        assert imports() == 2
        (module,) = folder.glob("*.py")
        module.write_text(f"# edited\n{module.read_text()}")
        forget_plugins()
        load_backend("mine")
        assert imports() == 3, "in the child; here the module is in memory"


def test_crash_is_cached_until_failures_are_forgotten(
    tmp_path: Path, imports: Callable[[], int]
) -> None:
    with new_plugin("mine", logging(tmp_path) + SEGFAULT):
        for forget, wanted in ((False, 1), (False, 1), (True, 2)):
            if forget:
                forget_failures()
            forget_plugins()
            with pytest.raises(PluginError, match="ended with SIGSEGV"):
                load_backend("mine")
            assert imports() == wanted


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b'{"a": 1}'])
def test_damaged_cache_is_replaced(content: bytes, good: Callable[..., str], cache: Path) -> None:
    file = cache / "enginebay" / "plugins.json"
    with new_plugin("mine", good("mine")):
        file.write_bytes(content)
        load_backend("mine")
    assert b"temporary-mine" in file.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == ["plugins.json"]


def test_backend_loads_without_a_cache_folder(good: Callable[..., str], cache: Path) -> None:
    cache.write_text("a file")
    with temporary_backend("mine", good("mine")):
        assert load_backend("mine").info.name == "mine"


def test_plugins_that_load_each_other_fail_before_the_time_limit(good: Callable[..., str]) -> None:
    other = "from enginebay.plugins import load_backend\nload_backend({!r})\n"
    with (
        new_plugin("one", other.format("two") + good("one")),
        new_plugin("two", other.format("one") + good("two")),
    ):
        start = time.monotonic()
        with pytest.raises(PluginError, match=r"importing .* raised "):
            load_backend("one")
        assert time.monotonic() - start < trial.TIME_LIMIT


def test_lists_are_complete_despite_crashing_plugins(
    good: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loud = "import os\nos.write(1, b'loud')\n"
    with (
        new_plugin("mine", loud + good("mine")),
        new_plugin("odd", "class Odd(BaseException): ...\nraise Odd('no')"),
        new_plugin("sick", SEGFAULT),
        new_plugin("pack", loud + SEGFAULT, group="enginebay.plugins"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        monkeypatch.setenv("ENGINEBAY_BACKENDS", "mine,odd,sick")
        listed = run_command("backends", "--load", "--json")
        checked = run_command("check-env", "--json")
    states = {status["name"]: status["state"] for status in listed.document["backends"]}
    wanted = {"mine": "installed", "odd": "broken", "sick": "broken"}
    assert {name: states[name] for name in wanted} == wanted
    plugins = {status["name"]: status["state"] for status in listed.document["plugins"]}
    assert plugins["pack"] == "broken"
    assert (listed.code, checked.code) == (0, 0)
    reasons = {result["name"]: result["reason"] for result in checked.document["backends"]}
    assert "raised Odd: no" in reasons["odd"]
    assert "ended with SIGSEGV" in reasons["sick"]
    assert "loud" in listed.err
