"""The kit of the laws: one backend, its artifacts and wrappers, and child processes."""

from __future__ import annotations

import subprocess
import sys
from functools import cached_property
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import enginebay as eb
from enginebay.ir import SUFFIXES
from enginebay.testing.command_runs import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from enginebay.plugins import BackendStatus
    from enginebay.tensors import NumpyArray
    from enginebay.testing.conformance.models import Example

#: Seconds that a child process of a law may take; engines load slowly on a busy machine.
TIMEOUT = 300.0


class Kit:
    """One backend under test.

    Args:
        name: The backend's name.
        folder: An empty folder for the laws' files.

    Attributes:
        installed: The distributions that were there before any law ran.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._path = list(sys.path)  # setuptools, where it is imported, adds its own copies to it
        self.installed = self.find_distributions()
        self._artifacts: dict[str, eb.Artifact] = {}
        self._wrappers: dict[str, eb.Wrapper] = {}

    @cached_property
    def backend(self) -> eb.Backend:
        """The backend, loaded."""
        return eb.get_backend(self.name)

    @cached_property
    def status(self) -> BackendStatus:
        """The backend's row in the list of backends."""
        found = {one.name: one for one in eb.list_backends()}
        if self.name not in found:
            eb.get_backend(self.name)  # raises, with the names that are installed
        return found[self.name]

    @cached_property
    def environment(self) -> eb.EnvReport:
        """The report of ``check_env``."""
        return self.backend.check_env()

    @cached_property
    def engine_modules(self) -> set[str]:
        """The top-level modules of the distributions that the backend names as its runtime."""
        from importlib.metadata import packages_distributions

        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        wanted = {
            canonicalize_name(Requirement(each).name)
            for text in self.backend.info.runtime_distributions
            for each in text.split("|")
        }
        return {
            module
            for module, distributions in packages_distributions().items()
            if module.isidentifier() and wanted.intersection(map(canonicalize_name, distributions))
        }

    def find_distributions(self) -> set[str]:
        """Return the name and version of each distribution that is installed now."""
        return {f"{each.name} {each.version}" for each in distributions(path=self._path)}

    # -- laws that do not apply -----------------------------------------------------------------

    def skip(self, reason: str) -> NoReturn:
        """Skip a law; the reason is in the report."""
        pytest.skip(reason)

    def require_engine(self) -> None:
        """Skip a law where check-env is red; where it has no reason to be, another law fails."""
        failed = self.environment.failed
        if failed is not None:
            self.skip(f"check-env, {failed.tier.value}: {failed.name}: {failed.found}")

    def require_dtypes(self, *dtypes: str) -> None:
        """Skip a law for a dtype that the backend does not claim."""
        for dtype in dtypes:
            if dtype not in self.backend.info.dtypes:
                self.skip(f"the backend lists no {dtype} among its dtypes")

    def require_dynamic_shapes(self) -> None:
        """Skip a law where the backend claims fixed shapes only."""
        if not self.backend.info.dynamic_shapes:
            self.skip("the backend says dynamic_shapes=False")

    # -- models -------------------------------------------------------------------------------

    def example(self, model: str) -> Example:
        """Return a reference model with its inputs."""
        from enginebay.testing.conformance import models

        return models.build(model, dynamic=self.backend.info.dynamic_shapes)

    def deploy(self, model: str, work_dir: Path, **options: Any) -> eb.Deployment:
        """Deploy a reference model."""
        self.require_engine()
        example = self.example(model)
        self.require_dtypes(*example.dtypes)
        shapes = example.dynamic_shapes or None
        return eb.deploy(
            example.module,
            example.inputs,
            backend=self.name,
            work_dir=work_dir,
            dynamic=shapes,
            **options,
        )

    def artifact(self, model: str) -> eb.Artifact:
        """Return a reference model's artifact, made once; the laws do not change it.

        It may have wrong numbers: the laws about numbers find and name them.
        """
        if model not in self._artifacts:
            folder = self.folder / f"artifact-{len(self._artifacts)}"
            wrong = eb.VerifyOptions(allow_mismatch=True)
            self._artifacts[model] = self.deploy(model, folder, verify=wrong).artifact
        return self._artifacts[model]

    def wrapper(self, model: str) -> eb.Wrapper:
        """Return a reference model's wrapper, loaded once; the laws do not close it."""
        if model not in self._wrappers:
            self._wrappers[model] = eb.load(self.artifact(model))
        return self._wrappers[model]

    def ir(self, model: str, kind: Any = None) -> eb.IRModel:
        """Return a reference model as a file, by default in the IR of its artifact."""
        record = self.artifact(model).manifest.ir
        assert record is not None
        kind = kind or record.kind
        folder = self.folder / f"ir-{model}-{kind}"
        folder.mkdir(exist_ok=True)
        example = self.example(model)
        return eb.export(
            example.module,
            example.inputs,
            backend=self.name,
            path=folder / f"model{SUFFIXES[kind]}",
            dynamic=example.dynamic_shapes or None,
            overwrite=True,
            options=eb.ExportOptions(ir=kind),
        )

    def check(self, model: str, wrapper: eb.Wrapper, inputs: Mapping[str, NumpyArray]) -> None:
        """Run a wrapper and compare its outputs with PyTorch's."""
        found = wrapper(inputs)
        compare(self.example(model).run(inputs), found, precision=wrapper.receipt.precision)

    # -- child processes ----------------------------------------------------------------------

    def python(self, code: str, *arguments: object, **options: Any) -> str:
        """Run code in another Python process and return what it prints on stdout."""
        child = self.start(code, *arguments, **options)
        try:
            out, err = child.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise
        assert child.returncode == 0, f"the child process ended with {child.returncode}:\n{err}"
        return out

    def start(
        self, code: str, *arguments: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start code in another Python process, which finds every plugin that this one finds."""
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, self.name, *map(str, arguments)],
            env=environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def close(self) -> None:
        """Close every wrapper."""
        for wrapper in self._wrappers.values():
            wrapper.close()


def compare(
    wanted: Mapping[str, NumpyArray], found: Mapping[str, Any], *, precision: str = "fp32"
) -> None:
    """Raise AssertionError where outputs differ in name, dtype, shape or number."""
    from enginebay.verification import compare_outputs

    assert list(found) == list(wanted), f"outputs {list(found)}, wanted {list(wanted)}"
    wrong = [
        each for each in compare_outputs(wanted, found, precision=precision) if not each.passed
    ]
    assert not wrong, "; ".join(f"output '{each.name}': {each.reason}" for each in wrong)


def error_of(kind: type[Exception], call: Callable[[], object], what: str) -> Exception:
    """Return the exception that a call raises; AssertionError if it raises none of that kind."""
    try:
        call()
    except kind as err:
        return err
    raise AssertionError(f"{what} raised nothing, wanted {kind.__name__}")
