"""The fixture ``kit`` of the conformance tests: a backend with its artifacts and wrappers."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from functools import cached_property
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import enginebay as eb
from enginebay.errors import FallbackError
from enginebay_testing.command_runs import environment
from enginebay_testing.conformance.child_process import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from enginebay.authors.arrays import Array, NumpyArray
    from enginebay.environment import Check
    from enginebay_testing.conformance.models import Example

#: Time limit of a test's child process; engines load slowly on a busy machine.
TIMEOUT_SECONDS = 300.0

#: The suffix by which ``eb.export`` knows each IR.
_SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt", "exported_program": ".pt2"}

#: The end of the reason of a skip, for a capability that could be listed.
ALSO_PASSES = "but passes with it"

#: Program: deploy a model in each dtype as if the backend listed it, and print those that pass.
_TRY_DTYPES = """\
import contextlib, pathlib, sys, msgspec, enginebay as eb
from enginebay_testing.conformance import models
_, name, suffix, folder, *dtypes = sys.argv
backend = eb.get_backend(name)
backend.info = msgspec.structs.replace(backend.info, dtypes=(*backend.info.dtypes, *dtypes))
for dtype in dtypes:
    with contextlib.suppress(Exception):
        work_dir = pathlib.Path(folder, dtype)
        example = models.build(f"twice:{dtype}", dynamic=False)
        ir = eb.export(
            example.module, example.inputs, path=work_dir / f"ir{suffix}",
            options=eb.ExportOptions(ir=backend.info.irs[0]),
        )
        backend.to_backend(ir, work_dir=str(work_dir))
        with backend.build_wrapper(work_dir=str(work_dir)) as wrapper:
            found = wrapper(example.inputs)["output"]
        expected = example.module(**example.inputs)
        if found.dtype == expected.dtype and (found == expected).all():
            print(dtype, flush=True)
"""


class Kit:
    """A backend under test, with the artifacts that all conformance tests share.

    Args:
        name: The backend's name.
        folder: An empty folder for the files of the tests.

    Attributes:
        installed: The distributions that were installed before the first test ran.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._path = list(sys.path)  # a copy: importing setuptools adds its vendored packages
        # Of before the first load, which may change them once and for all.
        self._variables = dict(os.environ)
        self.installed = self.find_distributions()
        self._artifacts: dict[str, eb.Artifact] = {}
        self._wrappers: dict[str, eb.Wrapper] = {}
        self._passing: list[str] | None = None

    @cached_property
    def backend(self) -> eb.Backend:
        """The loaded backend."""
        return eb.get_backend(self.name)

    @cached_property
    def status(self) -> eb.BackendStatus:
        """The backend's entry in the result of ``list_backends()``."""
        statuses = {status.name: status for status in eb.list_backends()}
        if self.name not in statuses:
            eb.get_backend(self.name)  # raises an error with the installed names
        return statuses[self.name]

    @cached_property
    def environment(self) -> eb.EnvReport:
        """The report of ``check_env``."""
        return self.backend.check_env()

    @cached_property
    def other_devices(self) -> dict[str, Check | None]:
        """The first failed check of check-env on each listed device but the default one."""
        devices = self.backend.info.devices[1:]
        return {d: self.backend.check_env(self.backend.Params(device=d)).failed for d in devices}

    @cached_property
    def engine_modules(self) -> set[str]:
        """The top-level modules of the backend's ``runtime_distributions``."""
        from importlib.metadata import packages_distributions

        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        required = {
            canonicalize_name(Requirement(alternative).name)
            for text in self.backend.info.runtime_distributions
            # One of several distributions may contain the engine.
            for alternative in text.split("|")
        }
        return {
            module
            for module, distributions in packages_distributions().items()
            if module.isidentifier()
            and required.intersection(map(canonicalize_name, distributions))
        }

    def find_distributions(self) -> set[str]:
        """Return the name and version of each installed distribution."""
        return {f"{d.name} {d.version}" for d in distributions(path=self._path)}

    # -- tests that do not apply ----------------------------------------------------------------

    def skip(self, reason: str) -> NoReturn:
        """Skip the calling test, which does not apply; the report contains the reason."""
        pytest.skip(reason)

    def require_engine(self) -> None:
        """If check-env fails, skip the calling test, which needs the engine."""
        failed = self.environment.failed
        if failed is not None:
            self.skip(f"check-env, {failed.tier.value}: {failed.name}: {failed.found}")

    def require_dtypes(self, *dtypes: str) -> None:
        """If the backend does not support all of these dtypes, skip the calling test."""
        for dtype in dtypes:
            if dtype not in self.backend.info.dtypes:
                self.skip(f"the backend lists no {dtype} among its dtypes")

    def passing_dtypes(self, dtypes: Sequence[str]) -> list[str]:
        """Return those of ``dtypes`` that the backend does not list, but passes unchanged."""
        unlisted = [dtype for dtype in dtypes if dtype not in self.backend.info.dtypes]
        if self._passing is None:
            folder, suffix = self.folder / "dtypes", _SUFFIXES[self.backend.info.irs[0]]
            # In a child process: with what it does not list, an engine may crash.
            child = self.start(_TRY_DTYPES, suffix, folder, *unlisted)
            with suppress(AssertionError):
                child.wait(60.0)
            child.end_left()
            self._passing = child.read()[0].split()
        return self._passing

    def require_dynamic_shapes(self) -> None:
        """If the backend does not support dynamic shapes, skip the calling test."""
        if not self.backend.info.dynamic_shapes:
            self.skip("the backend declares dynamic_shapes=False")

    # -- models -------------------------------------------------------------------------------

    def example(self, model: str) -> Example:
        """Return a reference model with its inputs."""
        from enginebay_testing.conformance import models

        return models.build(model, dynamic=self.backend.info.dynamic_shapes)

    def deploy(self, model: str, work_dir: Path, **options: Any) -> eb.Deployment:
        """Deploy a reference model; skip the test if the engine or a dtype is not available.

        An engine with several providers may list what one of them refuses.
        """
        self.require_engine()
        example = self.example(model)
        self.require_dtypes(*example.dtypes)
        shapes = example.dynamic_shapes or None
        try:
            return eb.deploy(
                example.module,
                example.inputs,
                backend=self.name,
                work_dir=work_dir,
                dynamic=shapes,
                **options,
            )
        except FallbackError as err:
            self.skip(f"the device refuses the model: {err}")

    def artifact(self, model: str) -> eb.Artifact:
        """Return a reference model's artifact, which is built once; tests must not change it.

        The artifact's outputs may be wrong: only the conformance tests of numbers report that.
        """
        from enginebay_testing.conformance.models import NUMBERS

        if model not in self._artifacts:
            folder = self.folder / f"artifact-{len(self._artifacts)}"
            options: dict[str, Any] = {"allow_mismatch": True}
            if model not in NUMBERS:  # its tests compare by themselves
                options["probes"] = 0
            self._artifacts[model] = self.deploy(model, folder, verify=options).artifact
        return self._artifacts[model]

    def wrapper(self, model: str) -> eb.Wrapper:
        """Return a reference model's wrapper, which is loaded once; tests must not close it."""
        if model not in self._wrappers:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", eb.VerdictWarning)  # see artifact()
                self._wrappers[model] = eb.load(self.artifact(model))
        return self._wrappers[model]

    def ir(self, model: str, kind: Any = None) -> eb.IRModel:
        """Export a reference model to the IR ``kind``, by default the kind that deploy chooses."""
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
            path=folder / f"model{_SUFFIXES[kind]}",
            dynamic=example.dynamic_shapes or None,
            overwrite=True,
            options=eb.ExportOptions(ir=kind),
        )

    def check(self, model: str, wrapper: eb.Wrapper, inputs: Mapping[str, NumpyArray]) -> None:
        """Run a wrapper, and assert that its outputs equal PyTorch's within the tolerance."""
        outputs = wrapper(inputs)
        compare(self.example(model).run(inputs), outputs, precision=wrapper.receipt.precision)

    # -- child processes ----------------------------------------------------------------------

    def python(self, code: str, *arguments: object, **options: Any) -> str:
        """Run code in a separate Python process, and return its output on stdout."""
        child = self.start(code, *arguments, **options)
        try:
            status = child.wait(TIMEOUT_SECONDS)
        finally:
            left = child.end_left()
        out, err = child.read()
        assert status == 0, f"the child process ended with {status}:\n{err}"
        assert not left, f"expected no process of the child's, found {', '.join(left)} running"
        return out

    def start(
        self, code: str, *arguments: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> Child:
        """Start code in a separate Python process, which finds the same plugins as this process."""
        words = [sys.executable, "-W", "ignore", "-c", code, self.name, *map(str, arguments)]
        variables = {**self._variables, "PYTHONPATH": environment()["PYTHONPATH"], **(env or {})}
        folder = self.folder / "children"
        folder.mkdir(exist_ok=True)
        return Child(words, variables, folder, **options)

    def close(self) -> None:
        """Close every wrapper."""
        for wrapper in self._wrappers.values():
            wrapper.close()


def compare(
    expected: Mapping[str, NumpyArray], found: Mapping[str, Array], *, precision: str = "fp32"
) -> None:
    """Assert that outputs have the expected names, dtypes, shapes and values."""
    from enginebay.authors.arrays import compare_outputs

    names = list(found)
    assert names == list(expected), f"expected the outputs {list(expected)}, found {names}"
    comparisons = compare_outputs(expected, found, precision=precision)
    wrong = [f"output '{c.name}': {c.reason}" for c in comparisons if not c.passed]
    assert not wrong, "; ".join(wrong)


def expect(what: str, found: object, expected: object) -> None:
    """Assert that two values are equal, with a message that names both."""
    assert found == expected, f"{what}: expected {expected!r}, found {found!r}"


def error_of(kind: type[Exception], call: Callable[[], object], case: str) -> Exception:
    """Assert that a call raises an exception of type ``kind``, and return the exception."""
    try:
        call()
    except kind as err:
        return err
    raise AssertionError(f"expected {kind.__name__} for {case}, found no error")
