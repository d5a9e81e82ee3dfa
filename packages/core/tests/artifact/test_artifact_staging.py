from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from enginebay.artifact import open_artifact, staging
from enginebay.artifact.directory_exchange import exchange_by_renames
from enginebay.errors import ArtifactError, ArtifactExistsError

ELSEWHERE = "choose another --work-dir"


def refused(work_dir: Path | str, *, overwrite: bool = False) -> ArtifactExistsError:
    with pytest.raises(ArtifactExistsError) as caught, staging(work_dir, overwrite=overwrite):
        pytest.fail("the work must not begin")
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_published_artifact_is_complete(tmp_path, publish):
    artifact = publish(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert sorted(path.name for path in artifact.path.rglob("*")) == [
        "manifest.json",
        "model.bin",
        "parts",
        "weights.data",
    ]
    assert open_artifact(tmp_path / "model") == artifact


def test_the_staging_folder_is_next_to_its_target(tmp_path, manifest):
    with staging(tmp_path / "model") as stage:
        assert stage.dir.parent == tmp_path
        assert stage.target == tmp_path / "model"
        assert list(stage.dir.iterdir()) == []
        assert not stage.target.exists()
        stage.publish(manifest())
        assert not stage.dir.exists()


def test_an_unpublished_staging_folder_is_removed(tmp_path):
    with staging(tmp_path / "model") as stage:
        (stage.dir / "model.bin").touch()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_removes_the_staging_folder(tmp_path, error):
    def work() -> None:
        with staging(tmp_path / "not" / "yet" / "model") as stage:
            (stage.dir / "model.bin").touch()
            raise error

    with pytest.raises(error):
        work()
    assert list(tmp_path.iterdir()) == []


def test_missing_parents_are_made(tmp_path, publish):
    publish(tmp_path / "not" / "yet" / "model")
    assert open_artifact(tmp_path / "not" / "yet" / "model").backend == "loopback"


def test_created_parents_with_other_files_are_not_removed(tmp_path):
    with staging(tmp_path / "not" / "yet" / "model"):
        (tmp_path / "not" / "mine").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "not"]


def test_an_error_of_the_with_block_is_not_wrapped(tmp_path):
    with pytest.raises(FileNotFoundError), staging(tmp_path / "model"):
        Path("/nowhere/at/all").read_bytes()


def test_an_empty_directory_is_taken(tmp_path, publish):
    (tmp_path / "model").mkdir()
    assert open_artifact(publish(tmp_path / "model").path)
    (tmp_path / "other").mkdir()
    assert open_artifact(publish(tmp_path / "other", overwrite=True).path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other"]


def test_the_umask_decides_on_the_mode(tmp_path, publish):
    before = os.umask(0o027)
    try:
        artifact = publish(tmp_path / "model")
    finally:
        os.umask(before)
    assert artifact.path.stat().st_mode & 0o777 == 0o750
    assert (artifact.path / "manifest.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "a b'c\"$*[0]", ".hidden", "-rf"])
def test_unusual_artifact_names_are_accepted(tmp_path, publish, name):
    publish(tmp_path / name)
    publish(tmp_path / name, b"again", overwrite=True)
    assert (tmp_path / name / "model.bin").read_bytes() == b"again"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_relative_paths_and_trailing_slashes_are_resolved(tmp_path, publish, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert publish("model/").path == tmp_path / "model"
    assert publish("other/../third").path == tmp_path / "third"


# Targets that may be replaced


def test_an_existing_artifact_is_not_overwritten(tmp_path, publish, snapshot):
    publish(tmp_path / "model")
    before = snapshot(tmp_path)
    error = refused(tmp_path / "model")
    assert str(error) == f'"{tmp_path}/model" exists and contains an artifact'
    assert error.hint == f"--overwrite, or {ELSEWHERE}"
    assert snapshot(tmp_path) == before


def test_an_artifact_is_overwritten_when_asked_for(tmp_path, publish):
    publish(tmp_path / "model")
    new = publish(tmp_path / "model", b"new", overwrite=True)
    assert open_artifact(tmp_path / "model") == new
    assert (tmp_path / "model" / "model.bin").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_damaged_artifact_is_overwritten(tmp_path, publish):
    publish(tmp_path / "model")
    (tmp_path / "model" / "model.bin").write_bytes(b"")
    (tmp_path / "model" / "parts" / "weights.data").unlink()
    assert open_artifact(publish(tmp_path / "model", overwrite=True).path)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"\xff", b'{"name": "My web app", "icons": []}']
)
def test_a_folder_that_is_not_an_artifact_is_never_touched(tmp_path, snapshot, overwrite, content):
    home = tmp_path / "home"
    (home / "photos").mkdir(parents=True)
    (home / "photos" / "beach.jpg").write_bytes(b"...")
    if content is not None:
        (home / "manifest.json").write_bytes(content)
    before = snapshot(tmp_path)
    error = refused(home, overwrite=overwrite)
    assert str(error) == (
        f'"{home}" exists and is not an artifact: expected an empty directory or a new path'
    )
    assert error.hint == ELSEWHERE
    assert snapshot(tmp_path) == before


def test_an_artifact_with_other_files_is_never_touched(tmp_path, publish, snapshot):
    publish(tmp_path / "model")
    (tmp_path / "model" / "parts" / "thesis.tex").write_text("years of work")
    before = snapshot(tmp_path)
    error = refused(tmp_path / "model", overwrite=True)
    assert str(error) == (
        f'"{tmp_path}/model" also contains "parts/thesis.tex", which is not part of the artifact'
    )
    assert error.hint == f"move this file away, or {ELSEWHERE}"
    assert snapshot(tmp_path) == before


def test_an_artifact_with_a_linked_folder_is_never_touched(tmp_path, publish):
    publish(tmp_path / "model")
    (tmp_path / "model" / "data").symlink_to(tmp_path)
    assert 'also contains "data"' in str(refused(tmp_path / "model", overwrite=True))


def test_an_artifact_with_a_damaged_manifest_is_never_touched(tmp_path, snapshot):
    where = tmp_path / "model" / "manifest.json"
    where.parent.mkdir()
    where.write_text('{"format": 9, "enginebay_version": "9", "files": "elsewhere"}')
    before = snapshot(tmp_path)
    error = refused(tmp_path / "model", overwrite=True)
    assert str(error) == (
        f'"{where}" is damaged: Expected `array`, got `str` - at `$.files`; this artifact cannot '
        "be replaced"
    )
    assert error.hint == ELSEWHERE
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_never_touched(tmp_path, overwrite):
    (tmp_path / "model").write_text("mine")
    error = refused(tmp_path / "model", overwrite=overwrite)
    assert str(error) == f'"{tmp_path}/model" is a file: expected a directory'
    assert error.hint == ELSEWHERE
    assert (tmp_path / "model").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("leads_to", ["real", "nowhere"])
def test_a_link_is_never_touched(tmp_path, publish, overwrite, leads_to):
    publish(tmp_path / "real")
    (tmp_path / "latest").symlink_to(leads_to)
    error = refused(tmp_path / "latest", overwrite=overwrite)
    assert str(error) == (
        f'"{tmp_path}/latest" is a symbolic link: expected a directory, or a new path'
    )
    assert error.hint == f'name the target of the link: --work-dir "{tmp_path}/{leads_to}"'
    assert (tmp_path / "latest").readlink() == Path(leads_to)


@pytest.mark.parametrize("name", ["new", "parts", "parts/new"])
def test_an_artifact_is_not_written_inside_another(tmp_path, publish, snapshot, name):
    folder = publish(tmp_path / "model").path
    before = snapshot(tmp_path)
    error = refused(folder / name, overwrite=True)
    assert str(error) == (
        f'"{folder / name}" is inside the artifact "{folder}", which is replaced as a whole'
    )
    assert error.hint == ELSEWHERE
    assert snapshot(tmp_path) == before


def test_a_parent_may_be_a_link(tmp_path, publish):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert publish(tmp_path / "link" / "model").path == tmp_path / "real" / "model"


@pytest.mark.parametrize("name", [".", "", "../here", "../../out/here"])
def test_the_current_directory_cannot_be_replaced(tmp_path, monkeypatch, name):
    here = tmp_path / "out" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    error = refused(name)
    assert str(error) == (
        f'"{here}" is the current directory and cannot be replaced: expected another directory'
    )
    assert error.hint == f'--work-dir "{here}/model"'


def test_a_folder_above_the_current_one_cannot_be_replaced(tmp_path, publish, monkeypatch):
    monkeypatch.chdir(publish(tmp_path / "model").path / "parts")
    text = str(refused("..", overwrite=True))
    assert text.startswith(f'"{tmp_path}/model" contains the current directory and cannot be')


def test_the_root_cannot_be_replaced():
    assert str(refused("/", overwrite=True)).startswith('"/" contains the current directory')


# Publishing


def test_an_artifact_published_in_the_meantime_is_not_overwritten(tmp_path, publish, manifest):
    with staging(tmp_path / "model") as stage:
        other = publish(tmp_path / "model", b"faster")
        with pytest.raises(ArtifactExistsError) as caught:
            stage.publish(manifest())
    assert str(caught.value) == f'"{tmp_path}/model" exists and contains an artifact'
    assert open_artifact(tmp_path / "model") == other
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_files_added_during_an_overwrite_are_not_deleted(tmp_path, publish, manifest):
    publish(tmp_path / "model")
    with staging(tmp_path / "model", overwrite=True) as stage:
        (tmp_path / "model" / "notes.txt").write_text("mine")
        with pytest.raises(ArtifactExistsError, match=r'also contains "notes.txt"'):
            stage.publish(manifest())
    assert (tmp_path / "model" / "notes.txt").read_text() == "mine"
    assert open_artifact(tmp_path / "model").files == (Path("model.bin"),)


def test_two_stages_of_one_target_use_different_folders(tmp_path, manifest):
    with staging(tmp_path / "model") as first, staging(tmp_path / "model") as second:
        assert first.dir != second.dir
        assert first.dir.is_dir()
        (first.dir / "a").touch()
        first.publish(manifest("a"))
        with pytest.raises(ArtifactExistsError):
            second.publish(manifest())
    assert open_artifact(tmp_path / "model").files == (Path("a"),)


def publish_failing(tmp_path: Path, prepare, *announced: str, manifest) -> str:
    with staging(tmp_path / "model") as stage:
        prepare(stage.dir)
        with pytest.raises(ArtifactError) as caught:
            stage.publish(manifest(*announced))
    assert list(tmp_path.iterdir()) == []
    return str(caught.value)


def test_an_artifact_without_a_listed_file_is_not_published(tmp_path, manifest):
    text = publish_failing(tmp_path, lambda folder: None, "model.engine", manifest=manifest)
    assert text == 'the backend listed the file "model.engine", but did not write this file'


def test_a_manifest_written_by_the_backend_is_refused(tmp_path, manifest):
    text = publish_failing(
        tmp_path, lambda folder: (folder / "manifest.json").touch(), manifest=manifest
    )
    assert text == 'the backend wrote "manifest.json", which is a reserved name'


@pytest.mark.parametrize("leads_to", ["/etc/hostname", "model.bin", "nowhere", "."])
def test_a_link_cannot_be_published(tmp_path, manifest, leads_to):
    text = publish_failing(
        tmp_path, lambda folder: (folder / "link").symlink_to(leads_to), manifest=manifest
    )
    assert text == 'invalid "link" in the artifact: expected a file, found a symbolic link'


def test_a_pipe_cannot_be_published(tmp_path, manifest):
    text = publish_failing(tmp_path, lambda folder: os.mkfifo(folder / "pipe"), manifest=manifest)
    assert text == 'invalid "pipe" in the artifact: expected a file, found a special file'


@pytest.mark.parametrize("name", [b"caf\xe9.bin", b"a\\b", b"C:model"])
def test_a_name_that_is_not_portable_cannot_be_published(tmp_path, manifest, name):
    def prepare(folder: Path) -> None:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).touch()

    text = publish_failing(tmp_path, prepare, manifest=manifest)
    shown = repr(os.fsdecode(name))
    assert text == f"invalid file name {shown} in the artifact: expected a plain relative path"


def test_an_artifact_is_published_once(tmp_path, manifest):
    with staging(tmp_path / "model") as stage:
        (stage.dir / "model.bin").touch()
        stage.publish(manifest("model.bin"))
        with pytest.raises(ArtifactError, match="cannot be written: No such file or directory"):
            stage.publish(manifest("model.bin"))
    assert open_artifact(tmp_path / "model")


def test_large_files_are_not_read_into_memory(tmp_path, manifest):
    program = (
        "import resource, sys\n"
        "from enginebay.artifact import Manifest, PluginRecord, open_artifact, staging\n"
        "made = Manifest(backend='b', plugin=PluginRecord('p', '1'), engine_version='1',"
        " model_files=('big',))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with staging(sys.argv[1]) as stage:\n"
        "    with open(stage.dir / 'big', 'wb') as file:\n"
        "        file.truncate(256 << 20)\n"
        "    stage.publish(made)\n"
        "open_artifact(sys.argv[1])\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 16  # MiB, for a file of 256


# Exchanges on systems without an atomic exchange


def test_an_exchange_by_renames_swaps_both_folders(tmp_path, publish):
    publish(tmp_path / "old", b"old")
    publish(tmp_path / "new", b"new")
    exchange_by_renames(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "model.bin").read_bytes() == b"new"
    assert (tmp_path / "new" / "model.bin").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_a_failed_exchange_by_renames_is_undone(tmp_path, publish, snapshot):
    publish(tmp_path / "old", b"old")
    before = snapshot(tmp_path / "old")
    with pytest.raises(FileNotFoundError):
        exchange_by_renames(tmp_path / "new", tmp_path / "old")
    assert snapshot(tmp_path / "old") == before
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_the_staging_folder_is_removed_despite_a_late_writer(tmp_path: Path) -> None:
    ended = threading.Event()

    def write(folder: Path) -> None:
        number = 0
        while not ended.is_set():
            number += 1
            with suppress(OSError):
                (folder / str(number)).write_bytes(b"late")

    with pytest.raises(KeyboardInterrupt), staging(tmp_path / "out") as stage:  # noqa: PT012  # the end of the block is tested
        writer = threading.Thread(target=write, args=(stage.dir,))
        writer.start()
        threading.Timer(0.05, ended.set).start()
        raise KeyboardInterrupt
    writer.join()
    assert list(tmp_path.iterdir()) == []


def test_the_staging_folder_is_removed_despite_an_interrupt(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), staging(tmp_path / "out") as stage:  # noqa: PT012  # the end of the block is tested
        for number in range(3000):
            (stage.dir / str(number)).touch()
        threading.Timer(0.002, _thread.interrupt_main).start()
    assert list(tmp_path.iterdir()) == []
