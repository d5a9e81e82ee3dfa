"""Conformance tests of artifacts, which must be complete and portable."""

from __future__ import annotations

import json
import shutil
import statistics
from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_testing.conformance.kit import compare, expect

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay_testing.conformance.kit import Kit

#: Loads an artifact, runs it on the inputs of a file, and writes the outputs to another file.
_RUN = """\
import sys, numpy as np, enginebay as eb
_, name, folder, inputs, outputs = sys.argv
with eb.load(folder) as wrapper, np.load(inputs) as feed:
    np.savez(outputs, **wrapper(dict(feed)))
print(*sys.modules)
"""

#: Loads an engine's files without an artifact, so core does not check their digests.
_LOAD_BARE = """\
import sys, enginebay as eb
from pathlib import Path
from enginebay.hooks import WrapperRequest
_, name, folder, *files = sys.argv
backend = eb.get_backend(name)
files = tuple(map(Path, files))
request = WrapperRequest(directory=Path(folder), files=files, params=backend.Params())
try:
    backend.load(request).close()
except eb.EnginebayError as err:
    print("refused:", " ".join(str(err).split()))
else:
    print("loaded")
"""


#: Runs an artifact with each size of its open dimension twice, and prints what the calls did.
_CALL_SIZES = """\
import json, sys, time, numpy as np, enginebay as eb
from pathlib import Path
_, name, largest, folder, *others = sys.argv
processes, first, second = [], [], []
def hear(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system", "os.exec"):
        processes.append(f"{event} {arguments[:1]}")
def list_files():
    return {str(path): path.stat().st_mtime_ns for each in (folder, *others)
            for path in Path(each).rglob("*") if path.is_file()}
with eb.load(folder) as wrapper:
    def call(size):
        feed = {each.name: np.ones((size, *each.dims[1:]), each.dtype) for each in wrapper.inputs}
        start = time.perf_counter()
        wrapper(feed)
        return time.perf_counter() - start
    call(2)  # the size of the example
    before = list_files()
    sys.addaudithook(hear)
    for size in {*range(1, int(largest) + 1)} - {2}:
        first.append(call(size))
        second.append(call(size))
    files = [path for path, changed in list_files().items() if before.get(path) != changed]
    print(json.dumps(dict(processes=processes[:3], files=files[:3], first=first, second=second)))
"""


class ArtifactLaws:
    """Conformance tests: an artifact describes itself and works in any folder."""

    def test_a_moved_artifact_runs_in_another_process(self, kit: Kit, tmp_path: Path) -> None:
        """A moved artifact, loaded by another process, returns the same outputs as PyTorch."""
        moved = shutil.copytree(kit.artifact("fixed").path, tmp_path / "moved")
        _check_in_child(kit, moved, tmp_path)

    def test_its_files_name_no_folder_of_the_build(self, kit: Kit, tmp_path: Path) -> None:
        """No file of an artifact has a path of the conversion; the IR and the folder may go."""
        ir = kit.ir("fixed").path
        build = tmp_path / "build"
        copied = shutil.copytree(ir.parent, build / "ir") / ir.name
        artifact = eb.convert(copied, backend=kit.name, work_dir=build / "artifact")
        for name in artifact.manifest.model_files:
            content = (artifact.path / name).read_bytes()
            for encoding in ("utf-8", "utf-16-le"):
                assert str(build).encode(encoding) not in content, (
                    f"{name}: expected a file that works on other machines, found the path {build}"
                )
        moved = artifact.path.rename(tmp_path / "moved")
        shutil.rmtree(build)
        _check_in_child(kit, moved, tmp_path)

    def test_a_new_size_is_not_compiled_at_the_call(self, kit: Kit, tmp_path: Path) -> None:
        """The first call with another size of an open dimension starts no compiler.

        It starts no process, writes no file, and takes less than ten times as long as the second
        one, in the median of all sizes; differences below 0.1 s do not count.
        """
        from enginebay_testing.conformance.models import LARGEST

        kit.require_dynamic_shapes()
        artifact = kit.artifact("pair").path
        folders = {"TMPDIR": tmp_path / "temporary", "HOME": tmp_path / "home"}
        for folder in folders.values():
            folder.mkdir()
        env = {name: str(folder) for name, folder in folders.items()}
        watched = [artifact, *folders.values()]
        printed = kit.python(_CALL_SIZES, LARGEST, *watched, env=env)
        found = json.loads(printed.splitlines()[-1])  # the engine may print lines too
        for kind in ("processes", "files"):
            assert not found[kind], (
                f"expected calls that start no process and write no file, found the {kind} "
                f"{', '.join(found[kind])}"
            )
        first, second = (statistics.median(found[kind]) for kind in ("first", "second"))
        assert first < max(10 * second, second + 0.1), (
            f"expected the first call with a size to take about {second:.4f} s as the second one, "
            f"found {first:.4f} s"
        )

    def test_running_an_artifact_imports_no_torch(self, kit: Kit, tmp_path: Path) -> None:
        """Loading and running an artifact on NumPy arrays imports no torch."""
        if "torch" in kit.engine_modules:
            kit.skip("torch is the backend's runtime")
        imported, _ = _run_in_child(kit, kit.artifact("fixed").path, tmp_path)
        assert "torch" not in imported, "expected no import of torch, found it imported"

    def test_any_path_will_do(self, kit: Kit, tmp_path: Path) -> None:
        """The path of an artifact may contain spaces, letters of any script, and quotes."""
        folder = tmp_path / "with spaces" / "模型 é 'quoted'"
        kit.deploy("fixed", folder)
        with eb.load(folder) as wrapper:
            kit.check("fixed", wrapper, kit.example("fixed").arrays())

    def test_conversion_and_loading_work_without_an_artifact(
        self, kit: Kit, tmp_path: Path
    ) -> None:
        """``build_wrapper`` loads files that ``to_backend`` has written outside an artifact."""
        files = kit.backend.to_backend(kit.ir("fixed"), work_dir=str(tmp_path))
        missing = [str(file) for file in files if not file.is_file()]
        expect("files that to_backend returned and that are not there", missing, [])
        example = kit.example("fixed")
        with kit.backend.build_wrapper(work_dir=str(tmp_path)) as wrapper:
            assert wrapper.inputs, "the request has no inputs: read them from the engine"
            outputs = wrapper.output_to_list(wrapper(example.arrays()))
            expected = list(example.run(example.arrays()).values())
            precision = wrapper.receipt.precision
        names = [str(number) for number in range(len(expected))]
        compare(
            dict(zip(names, expected, strict=True)),
            dict(zip(names, outputs, strict=True)),
            precision=precision,
        )

    def test_files_that_are_no_model_are_an_error(self, kit: Kit, tmp_path: Path) -> None:
        """Loading files that are not a model raises an error, and does not crash the engine."""
        files = kit.artifact("fixed").manifest.model_files
        for number, content in enumerate((b"", b"not a model\n", bytes(range(256)) * 4)):
            folder = tmp_path / str(number)
            for file in files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            printed = kit.python(
                _LOAD_BARE, folder, *files
            ).splitlines()  # the engine may print lines too
            refused = any(line.startswith("refused: ") for line in printed)
            assert refused, f"{content[:16]!r} was {printed[-1]}"


def _check_in_child(kit: Kit, artifact: Path, tmp_path: Path) -> None:
    _, outputs = _run_in_child(kit, artifact, tmp_path)
    example = kit.example("fixed")
    precision = kit.wrapper("fixed").receipt.precision
    compare(example.run(example.arrays()), outputs, precision=precision)


def _run_in_child(
    kit: Kit, artifact: Path, tmp_path: Path
) -> tuple[set[str], dict[str, NumpyArray]]:
    """Run the model ``fixed`` in a child process; return the imported modules and the outputs."""
    import numpy as np

    inputs, outputs = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    feed: dict[str, Any] = {**kit.example("fixed").arrays()}
    np.savez(inputs, **feed)
    imported = set(kit.python(_RUN, artifact, inputs, outputs).split())
    with np.load(outputs, allow_pickle=False) as file:
        return imported, dict(file)
