"""``nox`` runs what every change must pass, ``nox -s NAME`` a part, ``nox -t full`` everything.

Each package is tested from its wheel, in an environment with that wheel and its dependencies only:
what its metadata forgets fails there. ``base`` has torch, which takes long to unpack, and most
environments look in it. ``engines`` has all packages and engines, for what crosses packages.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nox

if TYPE_CHECKING:
    from collections.abc import Sequence

nox.needs_version = ">=2025.2.9"
nox.options.tags = ["default"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
PACKAGES = {
    "enginebay": "packages/core",
    "enginebay-onnxruntime": "packages/backend-onnxruntime",
    "enginebay-openvino": "packages/backend-openvino",
    "enginebay-ncnn": "packages/backend-ncnn",
    "enginebay-tensorrt": "packages/backend-tensorrt",
    "enginebay-models": "packages/codebase-models",
    "enginebay-mmpretrain": "packages/codebase-mmpretrain",
    "enginebay-build-cache": "examples/build-cache",
}
EVERY_ENGINE = ("enginebay-onnxruntime[cpu,int8]", "enginebay-openvino[int8]", "enginebay-ncnn")
#: TensorRT for RTX whole; NVIDIA's bindings by TensorRT's major version, without its libraries.
BINDINGS = {
    "rtx": ("tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu13-libs", "cuda-bindings==13.5.0"),
    "10": ("tensorrt-cu12-bindings==10.16.1.11", "cuda-bindings>=12.6,<13"),
    "11": ("tensorrt-cu13-bindings==11.4.0.106", "cuda-bindings>=13,<14"),
}
TESTS = ("pytest>=8", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil", "jsonschema")
#: What the laws of a backend's own tests found, for CI to keep, and for `tests/support`.
REPORT = ("--conformance-report", str(ROOT / "build" / "conformance"))
ZOO = "transformers==5.23.0"  # the page says which; a config of another may build other models
#: The environments that another one looks in.
BASE, ENGINES = ("base",), ("engines", "base")
DEFAULT, FULL = ["default", "full"], ["full"]
_WHEELS: dict[str, Path] = {}


def install(
    session: nox.Session,
    *wanted: str,
    shared: tuple[str, ...] = BASE,
    alone: Sequence[str] = (),
    pinned: bool = True,
) -> None:
    """Install the wheels of our packages among ``wanted``, and the rest, in one go.

    Nothing that one of the ``shared`` environments has is installed again. What is in ``alone``
    comes without its requirements.
    """
    environment = Path(session.bin).parent
    (packages,) = environment.glob("lib/python*/site-packages")
    inside = packages.relative_to(environment)
    folders = [environment.with_name(name) / inside for name in shared]
    (packages / "shared.pth").write_text("".join(f"{folder}\n" for folder in folders))
    names = {requirement.partition("[")[0]: requirement for requirement in wanted}
    ours = [name for name in names if name in PACKAGES]
    for name in ours:
        names[name] = f"{names[name]} @ {wheel(session, name).as_uri()}"
    if ours:  # the wheel that was installed before must go: the version's number may not change
        session.run_install("python", "-m", "pip", "uninstall", "-y", "-q", *ours)
    pins = ("-c", str(ROOT / "constraints.txt")) if pinned else ()
    session.install(*pins, *names.values())
    if alone:
        session.install(*pins, "--no-deps", *alone)


def wheel(session: nox.Session, name: str) -> Path:
    """Return a package's wheel, built once in a run: sources do not change within one."""
    if name not in _WHEELS:
        folder = ROOT / "build" / "wheels" / name
        shutil.rmtree(folder, ignore_errors=True)
        command = ("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder))
        session.run_install(*command, str(ROOT / PACKAGES[name]))
        (_WHEELS[name],) = folder.glob("*.whl")
    return _WHEELS[name]


def python(session: nox.Session, *arguments: str, **env: str) -> None:
    """Run Python: the session's own, or that of ``engines`` where it has none.

    A library has one thread in each process: threads of OpenMP that wait for a busy core do so at
    work, which made the training in the example six times as long.
    """
    folder = session.bin or str(Path(session.cache_dir).parent / "engines" / "bin")
    env = {"OMP_NUM_THREADS": "1", "PATH": os.pathsep.join((folder, os.environ["PATH"])), **env}
    session.run(str(Path(folder, "python")), *arguments, env=env, external=True)


def pytest(session: nox.Session, *arguments: str, **env: str) -> None:
    """Run pytest with the repository's settings, in two processes; ``-- -n0`` takes one."""
    settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-n2")
    order = "--dist=worksteal"
    python(session, "-m", "pytest", *settings, order, *arguments, *session.posargs, **env)


@nox.session
def base(session: nox.Session) -> None:
    """Torch, and what else exporting needs, for the environments that look in this one."""
    session.install("-c", "constraints.txt", "torch", "onnx>=1.21", "onnxscript")


@nox.session(requires=BASE)
def engines(session: nox.Session) -> None:
    """All packages with the engines that run on a CPU, and what their tests need."""
    ours = ("enginebay[export,yaml,report,dask]", *EVERY_ENGINE)
    others = ("lxml", "pillow", "scikit-learn", "playwright", ZOO)
    install(session, *ours, *others, *TESTS, alone=("torchmetrics", "lightning-utilities"))


# -- what every change must pass ------------------------------------------------------------------


@nox.session(requires=BASE, tags=DEFAULT)
def lint(session: nox.Session) -> None:
    """Ruff, mypy strict and the contract between the rooms."""
    tools = ("ruff", "mypy", "import-linter", "nox", "types-psutil", "filelock", "pillow")
    install(session, "enginebay", *tools, "pytest", "hypothesis", "psutil")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = (f"{path}/src" for path in PACKAGES.values())
    session.run("mypy", *sources, "benchmarks", "noxfile.py", "conftest.py", "tests/fork_server.py")
    session.run("lint-imports", "--config", "pyproject.toml", "--no-cache")


def add_session(name: str, part: dict[str, Any]) -> None:
    """Add a session of ``sessions.toml``."""
    shared = tuple(part.get("shared", ENGINES))
    tags = {"default": DEFAULT, "full": FULL, "": []}[part["in"]]

    def run(session: nox.Session) -> None:
        if "installs" in part:
            wanted = _insert(part["installs"], "TESTS", TESTS)
            install(session, *wanted, shared=shared, alone=part.get("alone", ()))
        if "program" in part:
            python(session, "-m", part["program"], *session.posargs)
        else:
            pytest(session, *_insert(part["tests"], "REPORT", REPORT), **part.get("env", {}))

    run.__doc__ = part["about"]
    own = None if "installs" in part else "none"
    nox.session(name=name, venv_backend=own, requires=shared, tags=tags)(run)


def _insert(words: list[str], name: str, values: tuple[str, ...]) -> list[str]:
    return [value for word in words for value in (values if word == name else (word,))]


for _name, _part in tomllib.loads((ROOT / "sessions.toml").read_text()).items():
    add_session(_name, _part)


@nox.session(requires=BASE)
@nox.parametrize(
    "version",
    [nox.param(name, id=name, tags=FULL if name != "rtx" else DEFAULT) for name in BINDINGS],
)
def tensorrt(session: nox.Session, version: str) -> None:
    """The TensorRT backend's tests: its real parser and builder, and stand-ins for the GPU.

    They are TensorRT for RTX's, whose libraries are on PyPI. With the bindings of TensorRT 10 and
    11, over stub libraries, runs what asks which TensorRT this is.
    """
    if shutil.which("gcc") is None:
        session.skip("the stub libraries are compiled with gcc, which is not installed")
    install(session, "enginebay[export]", "enginebay-tensorrt[int8]", *BINDINGS[version], *TESTS)
    tests = "packages/backend-tensorrt/tests"
    if version == "rtx":
        pytest(session, tests, *REPORT)
        session.install("-c", "constraints.txt", ZOO)
        pytest(session, "tests/zoo/test_zoo.py", "-k", "gpu_that_is_not_here")
    else:
        pytest(session, *(f"{tests}/test_{name}.py" for name in ("contract", "flags", "check_env")))
    if version != "10":  # the laws that need no device, and what check-env says about the others
        name = "tensorrt-rtx" if version == "rtx" else "tensorrt"
        pytest(session, "--pyargs", "enginebay.testing", "--backend", name, *REPORT)


@nox.session(requires=BASE, tags=DEFAULT)
def scaffold(session: nox.Session, shared: tuple[str, ...] = BASE) -> None:
    """A new backend as `new-backend` writes it, with core and pytest and nothing else around it."""
    install(session, "enginebay[testing]", shared=shared)
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder / "enginebay-frobnicator", ignore_errors=True)
    with session.chdir(folder):
        session.run("enginebay", "new-backend", "frobnicator")
        session.install("--no-deps", "--force-reinstall", "./enginebay-frobnicator")
        session.chdir("enginebay-frobnicator")
        alone = ("python", "-m", "pytest", "-c", "pyproject.toml", "-W", "error")
        session.run(*alone, *REPORT)
        kit = ("--pyargs", "enginebay.testing", "--backend", "frobnicator")
        session.run(*alone, *kit, "-k", "installed or numbers or scalars")


@nox.session(tags=DEFAULT)
def docs(session: nox.Session) -> None:
    """The site, strictly: a dead link, an unknown name or a docstring that does not parse fails."""
    tools = ("towncrier>=24.8", "mypy", "ruff", "zensical==0.0.73", "mkdocstrings[python]>=1,<2")
    session.install("-c", "constraints.txt", "-e", "packages/core[report]", *tools)
    # The pages about backends need their parameters, and no engine.
    backends = [path for path in PACKAGES.values() if path.startswith("packages/backend-")]
    session.install("--no-deps", *(word for path in backends for word in ("-e", path)))
    session.run("mypy", "docs")
    session.run("python", "docs/build_site.py")


#: Where the main path of a model, the rewriters and core's own lowerings are tested.
MAIN_PATH = tuple(
    f"packages/core/tests/{room}" for room in ("rewriting", "exporters", "operations")
)


# -- other versions of what is underneath ---------------------------------------------------------


def oldest_torch() -> str:
    """Return the oldest torch that core's metadata allows, as a requirement."""
    project = tomllib.loads((ROOT / "packages/core/pyproject.toml").read_text())["project"]
    (lowest,) = (each for each in project["optional-dependencies"]["export"] if "torch>" in each)
    return f"{lowest.replace('>=', '==')}.*"


def test_main_path(session: nox.Session, torch: str, *paths: str) -> None:
    """Test with a torch of its own; on Linux the newest ones bring 5 GB of CUDA libraries."""
    session.install("--upgrade", torch)
    ours = ("enginebay[testing,yaml,images]", "enginebay-onnxruntime[cpu,custom-ops]")
    install(session, *ours, *TESTS, shared=(), pinned=False)
    pytest(session, *paths, "packages/backend-onnxruntime")


@nox.session(name="torch-newest", tags=FULL)
def newest(session: nox.Session) -> None:
    """The main path, the rewriters and the lowerings with the newest torch that pip finds."""
    test_main_path(session, "torch", *MAIN_PATH)


@nox.session(name="torch-oldest", tags=FULL)
def oldest(session: nox.Session) -> None:
    """The same with the oldest torch that core's metadata allows."""
    test_main_path(session, oldest_torch(), *MAIN_PATH)


@nox.session(name="python", python=["3.12", "3.13"], tags=FULL)
def other_python(session: nox.Session) -> None:
    """Core, ONNX Runtime and the scaffold on another Python."""
    test_main_path(session, "torch", "packages/core/tests")
    scaffold(session, shared=())


@nox.session(requires=BASE)
@nox.parametrize("backend", ["tensorrt", "tensorrt-rtx"])
def gpu(session: nox.Session, backend: str) -> None:
    """TensorRT and a slice of the zoo on a GPU; skipped with check-env's reason elsewhere."""
    ours = ("enginebay[export]", "enginebay-tensorrt[int8]", *TESTS)
    install(session, *ours, "cuda-bindings>=13,<14")
    probe = "from enginebay_tensorrt import cuda; print(cuda.call('cudaDriverGetVersion') // 1000)"
    driver = int(session.run("python", "-c", probe, silent=True) or 0)
    if driver >= 12:  # the oldest CUDA that TensorRT has wheels for
        extras = {"tensorrt": ("cu12", "cu13"), "tensorrt-rtx": ("rtx-cu12", "rtx")}
        extra = extras[backend][min(driver, 13) - 12]
        install(session, "enginebay[export]", f"enginebay-tensorrt[int8,{extra}]", *TESTS, ZOO)
    command = ("enginebay", "check-env", backend, "--json")
    answer = session.run(*command, silent=True, success_codes=[0, 3])
    (report,) = json.loads(str(answer))["backends"]
    for check in report["checks"]:
        if check["status"] == "failed":
            # A GPU that responds and computes something wrong is what this session is for.
            end = session.error if check["tier"] == "smoke" else session.skip
            end(f"{check['tier']}: {check['name']}: {check['found']}")
    pytest(session, "packages/backend-tensorrt", "tests/zoo/test_gpu.py", ENGINEBAY_GPU=backend)
