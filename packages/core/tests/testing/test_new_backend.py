"""The package of ``new-backend``: files, names, errors. ``nox -s scaffold`` runs its tests."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from packaging.requirements import Requirement

import enginebay as eb
from enginebay.cli import main
from enginebay.environment import install_command
from enginebay.errors import ArtifactError, ArtifactExistsError, UsageError
from enginebay.plugins import discovery
from enginebay_testing import temporary_backend
from enginebay_testing.new_backend import write_package

FLOAT = onnx.TensorProto.FLOAT


def code_lines(text: str) -> int:
    """Count the lines that are not blank, comments or docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in documented
        for number, line in lines
    )


def test_the_package_is_whole_and_short(tmp_path: Path) -> None:
    files = write_package("fast-engine_2", tmp_path)
    folder = tmp_path / "enginebay-fast-engine_2"
    names = [path.relative_to(folder).as_posix() for path in files]
    package = "src/enginebay_fast_engine_2"
    assert names == [
        *("pyproject.toml", ".github/workflows/release.yml", ".github/workflows/test.yml"),
        "README.md",
        *(f"{package}/{name}.py" for name in ("__init__", "convert", "environment", "params")),
        *(f"{package}/{name}" for name in ("plugin.py", "py.typed", "rewriters.py", "wrapper.py")),
        "tests/test_conformance.py",
    ]
    texts = [path.read_text(encoding="utf-8") for path in files]
    assert not [text for text in texts if "myengine" in text.lower()]
    own = [path.read_text(encoding="utf-8") for path in files if path.suffix == ".py"]
    assert sum(map(code_lines, own)) < 120
    project = texts[0]
    assert 'name = "enginebay-fast-engine_2"' in project
    assert 'fast-engine_2 = "enginebay_fast_engine_2.plugin"' in project
    assert any("class FastEngine2Wrapper(eb.Wrapper):" in text for text in texts)


@pytest.mark.parametrize("compiler", [False, True])
def test_the_readme_has_the_ten_tests_for_each_step(compiler: bool, tmp_path: Path) -> None:
    write_package("mine", tmp_path, compiler=compiler)
    readme = (tmp_path / "enginebay-mine" / "README.md").read_text(encoding="utf-8")
    # pytest knows --quick only beside --backend.
    assert "\npytest --backend mine --quick  " in readme
    assert "Run the ten tests after each step, and `pytest` at the end." in " ".join(readme.split())


def test_the_workflows_test_the_oldest_core_and_release_without_a_token(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    project, release, workflow = (
        path.read_text(encoding="utf-8") for path in write_package("mine", tmp_path)[:3]
    )
    (job,) = yaml.safe_load(release)["jobs"].values()
    assert job["permissions"] == {"id-token": "write"}
    assert job["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    job = yaml.safe_load(workflow)["jobs"]["test"]
    oldest, newest, main = map(Requirement, job["strategy"]["matrix"]["core"])
    allowed = Requirement(tomllib.loads(project)["project"]["dependencies"][0]).specifier
    assert str(allowed) == "<1,>=0.1"
    assert (str(oldest.specifier), str(newest.specifier)) == ("==0.1", "<1")
    assert str(main.url).endswith("enginebay#subdirectory=packages/core")


def test_the_workflow_publishes_the_results_with_the_newest_core(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load(write_package("mine", tmp_path)[2].read_text(encoding="utf-8"))
    test, publish = workflow["jobs"].values()
    assert publish["permissions"] == {"contents": "write"}
    assert test["strategy"]["matrix"]["core"][1].startswith("enginebay<1")
    download, push = publish["steps"]
    assert download["with"] == {"name": "conformance-1"}
    # The job downloads the report into its folder, which is no repository.
    report, remote = tmp_path / "report", tmp_path / "remote"
    report.mkdir()
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    address = "https://x-access-token:$TOKEN@github.com/$GITHUB_REPOSITORY"
    script = push["run"].replace(address, remote.as_uri())
    assert script != push["run"]
    for number in (1, 2):  # the second one replaces the first
        shutil.rmtree(report)
        report.mkdir()
        (report / "mine-badge.json").write_text(str(number))
        env = {**os.environ, "GITHUB_SHA": f"abc{number}", "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["bash", "-e", "-c", script], cwd=report, env=env, check=True)
    show = ["git", "--git-dir", str(remote), "show", "conformance:mine-badge.json"]
    assert subprocess.check_output(show, text=True) == "2"


def test_a_compiler_has_an_importer_a_compiler_and_a_runtime(tmp_path: Path) -> None:
    files = write_package("fast-engine_2", tmp_path, compiler=True)
    plain = write_package("plain", tmp_path)
    own = {path.name: path.read_text(encoding="utf-8") for path in files if path.suffix == ".py"}
    assert own.keys() - {path.name for path in plain} == {
        *("compiler.py", "importer.py", "runtime.py")
    }
    assert len(files) == len(set(files)) == len(plain) + 3
    assert not [path for path in files if "myengine" in path.read_text(encoding="utf-8").lower()]
    assert sum(map(code_lines, own.values())) < 180
    assert '"enginebay_fast_engine_2.compiler:compile_module"' in own["convert.py"]


def test_the_compiler_runs_by_position_and_its_modules_know_no_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package("positional", tmp_path, compiler=True)
    monkeypatch.syspath_prepend(str(tmp_path / "enginebay-positional" / "src"))
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Sub", ["b", "a"], ["d"]), helper.make_node("Neg", ["d"], ["c"])],
            "g",
            [helper.make_tensor_value_info(name, FLOAT, ["n"]) for name in ("b", "a")],
            [helper.make_tensor_value_info(name, FLOAT, ["n"]) for name in ("d", "c")],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    onnx.save(model, tmp_path / "model.onnx")
    arrays = {"a": np.array([1, 2], "f4"), "b": np.array([10, 20], "f4")}
    with temporary_backend("positional", "enginebay_positional.plugin"):
        backend = eb.get_backend("positional")
        (module,) = backend.to_backend(tmp_path / "model.onnx", work_dir=str(tmp_path))
        with backend.build_wrapper(work_dir=str(tmp_path)) as wrapper:
            results = wrapper(arrays)
        assert list(results) == ["d", "c"]
        assert results["d"].tolist() == [9, 18]
        assert results["c"].tolist() == [-9, -18]
        module.with_name("model.module.tensors.json").unlink()
        with pytest.raises(ArtifactError, match="so its tensors have no names") as caught:
            backend.build_wrapper(work_dir=str(tmp_path))
        assert caught.value.hint == (
            "convert the model: enginebay deploy model.onnx --backend positional"
        )


@pytest.mark.parametrize("name", ["", "3d", "My", "my engine", "my/engine", "-my", "my-", "é"])
def test_an_invalid_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_package(name, tmp_path)
    assert str(caught.value) == (
        f"'{name}' cannot be a backend's name: expected lower-case letters, digits, - and _, "
        "starting with a letter"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken(loopback: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_package(loopback, tmp_path)
    assert str(caught.value) == (
        "backend 'loopback' is installed already, from temporary-loopback 0"
    )


def test_a_name_of_an_enginebay_backend_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "entry_points", list)  # whatever is installed here
    with pytest.raises(UsageError) as caught:
        write_package("onnxruntime", tmp_path)
    assert str(caught.value) == (
        "'onnxruntime' is a backend of Enginebay: " + install_command("enginebay-onnxruntime[cpu]")
    )
    assert list(tmp_path.iterdir()) == []


def test_a_name_whose_distribution_is_installed(tmp_path: Path) -> None:
    source = "import enginebay as eb"
    with (
        temporary_backend("x", source, group="enginebay.plugins", distribution="enginebay-my"),
        pytest.raises(UsageError) as caught,
    ):
        write_package("my", tmp_path)
    assert str(caught.value) == "distribution 'enginebay-my' is installed already: 0"


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    write_package("mine", tmp_path)
    with pytest.raises(ArtifactExistsError, match="enginebay-mine' exists"):
        write_package("mine", tmp_path)


def test_the_command_prints_the_files_and_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-backend", "mine"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "enginebay-mine/pyproject.toml"
    assert all(Path(line).is_file() for line in shown.out.splitlines())
    assert shown.err == "Next: cd enginebay-mine && pip install -e '.[testing]' && pytest\n"
