"""Conformance tests of artifacts, which must be complete and portable."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_testing.conformance.kit import compare

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


class ArtifactLaws:
    """Conformance tests: an artifact describes itself and works in any folder."""

    def test_a_moved_artifact_runs_in_another_process(self, kit: Kit, tmp_path: Path) -> None:
        """A moved artifact, loaded by another process, returns the same outputs as PyTorch."""
        moved = shutil.copytree(kit.artifact("fixed").path, tmp_path / "moved")
        _, outputs = _run_in_child(kit, moved, tmp_path)
        example = kit.example("fixed")
        precision = kit.wrapper("fixed").receipt.precision
        compare(example.run(example.arrays()), outputs, precision=precision)

    def test_running_an_artifact_imports_no_torch(self, kit: Kit, tmp_path: Path) -> None:
        """Loading and running an artifact on NumPy arrays imports no torch."""
        if "torch" in kit.engine_modules:
            kit.skip("torch is the backend's runtime")
        imported, _ = _run_in_child(kit, kit.artifact("fixed").path, tmp_path)
        assert "torch" not in imported

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
        assert all(file.is_file() for file in files)
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
