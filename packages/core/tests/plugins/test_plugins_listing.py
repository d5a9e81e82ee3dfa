"""Listing reads metadata only, and has a row for each plugin, even a broken plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import enginebay
from enginebay.errors import PluginError
from enginebay.plugins import BackendStatus, list_backends, list_plugins
from enginebay.plugins.discovery import disabled_by
from enginebay.plugins.entry_points import entry_points
from enginebay_testing import temporary_backend

LOUD = "raise RuntimeError('imported while listing')"


def install(
    folder: Path, distribution: str, entry_points: str, *, metadata: str | None = ""
) -> None:
    """Write a distribution's metadata as pip would; ``metadata=None`` leaves METADATA out."""
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(entry_points)
    if metadata is not None:
        (info / "METADATA").write_text(
            metadata or f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )


def rows(name: str) -> list[BackendStatus]:
    return [status for status in list_backends() if status.name == name]


def test_row_names_the_provider_of_a_backend() -> None:
    with temporary_backend("mine", LOUD, distribution="my-dist", version="1.2") as folder:
        (status,) = rows("mine")
        module = next(folder.glob("*.py")).stem
    assert status.provider == "my-dist 1.2"
    assert status == BackendStatus("mine", "my-dist", "1.2", module, "installed", None, None)
    assert rows("mine") == []


def test_rows_are_sorted_by_name() -> None:
    with (
        temporary_backend("zz", LOUD),
        temporary_backend("aa", LOUD),
        temporary_backend("mm", LOUD),
    ):
        names = [status.name for status in list_backends()]
    assert names == sorted(names)
    assert {"aa", "mm", "zz"} <= set(names)


@pytest.mark.process
def test_listing_imports_no_plugins_and_no_dependencies(tmp_path: Path) -> None:
    heavy = ["pluggy", "msgspec", "numpy", "torch", "onnx", "email.message", "rich", "loud_one"]
    (tmp_path / "loud_one").mkdir()
    for name in ("__init__", "plugin"):
        (tmp_path / "loud_one" / f"{name}.py").write_text(LOUD)
    install(tmp_path, "loud", "[enginebay.backends]\nloud = loud_one.plugin\n")
    script = (
        "import sys; from enginebay.plugins import list_backends\n"
        "assert [s.state for s in list_backends() if s.name == 'loud'] == ['installed']\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    child = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.stdout, child.stderr) == ("[]\n", "")


def test_missing_module_is_a_broken_row() -> None:
    with temporary_backend("gone", "no_such_package.plugin", distribution="gone-dist"):
        (status,) = rows("gone")
    assert status.state == "broken"
    assert status.reason == "module 'no_such_package' is missing, although gone-dist 0 is installed"
    assert status.fix == "pip install --force-reinstall --no-deps gone-dist"


def test_missing_submodule_is_a_broken_row_although_no_package_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = ("half.plugin", "half.inner.plugin", "half.inner.gone.plugin", "half.gone")
    for folder in (tmp_path / "half", tmp_path / "half" / "inner"):
        folder.mkdir()
        (folder / "__init__.py").write_text(LOUD)
        (folder / "plugin.py").write_text(LOUD)
    lines = "\n".join(f"half{number} = {module}" for number, module in enumerate(modules))
    install(tmp_path, "half-dist", f"[enginebay.backends]\n{lines}\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = [rows(f"half{number}")[0].reason for number in range(len(modules))]
    missing = "module '{}' is missing, although half-dist 1.0 is installed".format
    assert found == [None, None, missing("half.inner.gone"), missing("half.gone")]


def test_another_folder_of_a_package_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that extends its path finds modules in other folders of its name."""
    for name in ("a", "b"):
        (tmp_path / name / "split").mkdir(parents=True)
        (tmp_path / name / "split" / "__init__.py").write_text(LOUD)
        monkeypatch.syspath_prepend(tmp_path / name)
    (tmp_path / "a" / "split" / "plugin.py").write_text(LOUD)
    install(tmp_path / "a", "split-dist", "[enginebay.backends]\nsplit = split.plugin\n")
    assert [status.state for status in rows("split")] == ["installed"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("bad = not a module!", "bad = not a module!"),
        ("bad =", "bad = "),
        ("bad", "bad = "),
        ("bad = ..json", "bad = ..json"),
        ("bad = json:loads", "bad = json:loads"),
    ],
)
def test_malformed_entry_point_is_a_broken_row(
    line: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "bad-dist", f"[enginebay.backends]\n{line}\nfine = json\n")
    monkeypatch.syspath_prepend(tmp_path)
    (status,) = rows("bad")
    assert status.state == "broken"
    assert status.reason == f"its entry point '{shown}' does not name a module"
    assert status.fix == "write NAME = package.module into its entry points and install it again"
    assert [status.state for status in rows("fine")] == ["installed"]


def test_extras_in_an_entry_point_are_not_part_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "extra-dist", "[enginebay.backends]\nextra = json.tool [cpu, gpu]\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [(status.module, status.state) for status in rows("extra")] == [
        ("json.tool", "installed")
    ]


@pytest.mark.parametrize(
    ("entry_points", "metadata"),
    [
        ("[console_scripts]\nthis line has no equals sign\n", ""),
        ("[enginebay.backends]\nstranger = json\n", None),
        ("[enginebay.backends]\nstranger = json\n", "Metadata-Version: 2.1\n"),
        ("# [enginebay.backends]\nstranger = json\n", ""),
        ("", ""),
    ],
    ids=["malformed line", "no METADATA", "no name", "commented section", "empty"],
)
def test_malformed_distribution_does_not_hide_other_backends(
    entry_points: str, metadata: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "stranger", entry_points, metadata=metadata)
    monkeypatch.syspath_prepend(tmp_path)
    with temporary_backend("mine", LOUD):
        assert [status.state for status in rows("mine")] == ["installed"]
        assert rows("stranger") == []


def test_undecodable_entry_points_do_not_hide_other_backends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "stranger", "")
    (tmp_path / "stranger-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[\x00")
    monkeypatch.syspath_prepend(tmp_path)
    with temporary_backend("mine", LOUD):
        assert [status.state for status in rows("mine")] == ["installed"]


def test_import_hook_that_raises_does_not_break_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hook:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name == "no_such_package":
                raise ValueError(name)

    monkeypatch.setattr(sys, "meta_path", [Hook, *sys.meta_path])
    with temporary_backend("hooked", "no_such_package"):
        assert [status.state for status in rows("hooked")] == ["installed"]


def test_same_module_from_two_distributions_is_not_a_duplicate() -> None:
    with (
        temporary_backend("twin", "json", distribution="a"),
        temporary_backend("twin", "json", distribution="b"),
    ):
        assert [status.state for status in rows("twin")] == ["installed"]


def test_first_distribution_on_the_path_hides_later_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "back", "my.dist", "[enginebay.backends]\nmine = json\n")
    install(tmp_path / "front", "My-Dist", "[enginebay.backends]\nmine = string\n")
    monkeypatch.syspath_prepend(tmp_path / "back")
    monkeypatch.syspath_prepend(tmp_path / "front")
    assert [(status.module, status.state) for status in rows("mine")] == [("string", "installed")]


def test_name_from_two_distributions_makes_two_duplicate_rows() -> None:
    with (
        temporary_backend("twin", "json", distribution="b-dist", version="2"),
        temporary_backend("twin", "string", distribution="a-dist", version="1"),
        temporary_backend("bystander", LOUD),
    ):
        twins = rows("twin")
        assert [status.state for status in rows("bystander")] == ["installed"]
    assert {(status.distribution, status.state) for status in twins} == {
        ("a-dist", "duplicate"),
        ("b-dist", "duplicate"),
    }
    assert {status.reason for status in twins} == {
        "it is provided by a-dist 1 (string) and by b-dist 2 (json)"
    }
    assert {status.fix for status in twins} == {
        "name one: twin@a-dist or twin@b-dist, or pip uninstall a-dist, or pip uninstall b-dist"
    }


@pytest.mark.parametrize(
    ("allowed", "disabled", "left"),
    [
        (None, None, {"aa", "bb"}),
        ("aa", None, {"aa"}),
        (" bb , aa ,", None, {"aa", "bb"}),
        ("", None, set()),
        (",", None, set()),
        (None, "aa", {"bb"}),
        (None, "", {"aa", "bb"}),
        ("aa", "aa", set()),
        ("nobody", "nobody else", set()),
        ("aa@temporary-aa", None, {"aa"}),
        ("aa@nobody", None, set()),
        (None, "aa@temporary-aa", {"bb"}),
        (None, "aa@nobody", {"aa", "bb"}),
    ],
)
def test_environment_variables_enable_and_disable_backends(
    allowed: str | None, disabled: str | None, left: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if allowed is not None:
        monkeypatch.setenv("ENGINEBAY_BACKENDS", allowed)
    if disabled is not None:
        monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", disabled)
    with temporary_backend("aa", LOUD), temporary_backend("bb", LOUD):
        states = {s.name: s.state for s in list_backends() if s.name in ("aa", "bb")}
    assert {name for name, state in states.items() if state == "installed"} == left
    assert set(states.values()) <= {"installed", "disabled"}


def test_disabled_row_names_its_variable_and_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with temporary_backend("mine", LOUD):
        monkeypatch.setenv("ENGINEBAY_BACKENDS", "aa, bb")
        (status,) = rows("mine")
        assert status.reason == "ENGINEBAY_BACKENDS does not list it"
        assert status.fix == "ENGINEBAY_BACKENDS=aa,bb,mine"
        monkeypatch.delenv("ENGINEBAY_BACKENDS")
        monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "mine")
        (status,) = rows("mine")
        assert status.reason == "ENGINEBAY_DISABLE_BACKENDS lists it"
        assert status.fix == "take mine out of ENGINEBAY_DISABLE_BACKENDS"
        monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "mine@temporary-mine")
        (status,) = rows("mine")
        assert status.fix == "take mine@temporary-mine out of ENGINEBAY_DISABLE_BACKENDS"


def test_disabling_one_of_two_distributions_leaves_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "twin@b-dist")
    with (
        temporary_backend("twin", "json", distribution="b-dist"),
        temporary_backend("twin", "string", distribution="a-dist"),
    ):
        assert [(status.distribution, status.state) for status in rows("twin")] == [
            ("b-dist", "disabled"),
            ("a-dist", "installed"),
        ]


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


@given(st.lists(NAMES), NAMES)
def test_following_the_fix_enables_the_backend(allowed: list[str], name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ENGINEBAY_DISABLE_BACKENDS", raising=False)
        patch.setenv("ENGINEBAY_BACKENDS", ",".join(allowed))
        status = BackendStatus(name, "dist", "1", "module")
        fault = disabled_by(status)
        assert (fault is None) == (name in allowed)
        if fault:
            patch.setenv(*fault.fix.split("="))
            assert disabled_by(status) is None


def test_strict_listing_raises_at_a_broken_or_duplicate_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", "1")
    list_backends()
    with temporary_backend("gone", "no_such_package"):
        with pytest.raises(
            PluginError, match=r"^backend 'gone' of temporary-gone 0 cannot be used: "
        ):
            list_backends()
        monkeypatch.setenv("ENGINEBAY_DISABLE_BACKENDS", "gone")
        assert [status.state for status in rows("gone")] == ["disabled"]
    with (
        temporary_backend("twin", "json", distribution="a"),
        temporary_backend("twin", "string", distribution="b"),
        pytest.raises(PluginError, match=r"it is provided by a 0 \(json\) and by b 0"),
    ):
        list_backends()


@pytest.mark.parametrize("value", ["", "0"])
def test_empty_or_zero_variable_turns_strictness_off(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_STRICT_PLUGINS", value)
    with temporary_backend("gone", "no_such_package"):
        assert [status.state for status in rows("gone")] == ["broken"]


def test_plugins_are_listed_separately_despite_the_backend_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "")
    with temporary_backend("pack", LOUD, group="enginebay.plugins", distribution="pack-dist"):
        (status,) = [status for status in list_plugins() if status.name == "pack"]
        assert (status.distribution, status.state) == ("pack-dist", "installed")
        assert rows("pack") == []


def test_core_never_uses_the_discovery_of_pluggy() -> None:
    # Pluggy stops at the first broken plugin, and silently drops the second of two equal names.
    source = Path(sys.modules["enginebay"].__path__[0])
    assert not [path for path in source.rglob("*.py") if "load_setuptools" in path.read_text()]


def test_only_one_data_file_names_the_known_distributions() -> None:
    core = Path(enginebay.__file__).parent
    files = [*core.rglob("*.py"), *core.rglob("*.toml")]
    naming = [path for path in files if "tensorrt" in path.read_text().lower()]
    assert naming == [core / "known.toml"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an old distribution, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = tmp_path / "site"
    install(site, "kept", "[enginebay.commands]\nkept = json\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    os.utime(site, (1e9, 1e9))
    return site


def names() -> list[str]:
    return [entry.name for entry in entry_points()]


def test_listing_is_cached_until_a_distribution_is_installed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names() == ["kept"]
    with monkeypatch.context() as patch:
        patch.setattr("enginebay.plugins.entry_points.scan", list)
        assert names() == ["kept"]
    install(cache, "more", "[enginebay.commands]\nmore = json\n")
    assert sorted(names()) == ["kept", "more"]
    with monkeypatch.context() as patch:  # a folder that changed a moment ago is not cached
        patch.setattr("enginebay.plugins.entry_points.scan", list)
        assert names() == []


def test_edited_entry_points_are_read_again(cache: Path) -> None:
    assert names() == ["kept"]
    file = cache / "kept-1.0.dist-info" / "entry_points.txt"
    file.write_text("[enginebay.commands]\nother = json\n")
    assert names() == ["other"]


@pytest.mark.parametrize("damage", ["", "nonsense", "1\n\n\n\n\n", "\0", "cut"])
def test_damaged_cache_is_ignored(cache: Path, damage: str) -> None:
    assert names() == ["kept"]
    (file,) = (cache.parent / "cache" / "enginebay").glob("entry-points-*")
    file.write_text(file.read_text()[:-9] if damage == "cut" else damage)
    assert names() == ["kept"]


def test_unwritable_cache_does_not_change_the_listing(cache: Path) -> None:
    (cache.parent / "cache").write_text("a file where a folder belongs")
    assert names() == names() == ["kept"]


def test_path_with_tab_and_newline_is_not_cached(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = cache.with_name("a\tb\nc")
    cache.rename(odd)
    os.utime(odd, (1e9, 1e9))
    monkeypatch.setattr(sys, "path", [str(odd)])
    assert names() == names() == ["kept"]
    assert not (odd.parent / "cache" / "enginebay").exists()


def test_missing_home_folder_disables_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unresolved ``~`` must not become a folder in the current folder."""
    monkeypatch.chdir(cache)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    os.utime(cache, (1e9, 1e9))
    assert names() == names() == ["kept"]
    assert [path.name for path in cache.iterdir()] == ["kept-1.0.dist-info"]
