"""``nox`` runs what every change must pass, ``nox -s NAME`` a part, ``nox -t full`` everything.

Each package is tested from its wheel, in an environment with that wheel and its dependencies only:
what its metadata forgets fails there. ``base`` has torch, which takes long to unpack, and most
environments look in it. ``engines`` has all packages and engines, for what crosses packages.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nox

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("Enginebay needs Python 3.11 or newer: python3.11 -m pip install nox")

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
    "enginebay-transformers": "packages/codebase-transformers",
    "enginebay-openmmlab": "packages/codebase-openmmlab",
    "enginebay-mmpretrain": "packages/codebase-mmpretrain",
    "enginebay-mmdet": "packages/codebase-mmdet",
    "enginebay-mmseg": "packages/codebase-mmseg",
    "enginebay-mmpose": "packages/codebase-mmpose",
    "enginebay-mmocr": "packages/codebase-mmocr",
    "enginebay-lab": "packages/lab",
    "enginebay-vision": "packages/vision",
    "enginebay-build-cache": "examples/build-cache",
}
EVERY_ENGINE = ("enginebay-onnxruntime[cpu,int8]", "enginebay-openvino[int8]", "enginebay-ncnn")
TESTS = ("pytest>=9", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil", "jsonschema")
#: What the laws of a backend's own tests found, for CI to keep, and for `tests/backend_support`.
REPORT = ("--conformance-report", str(ROOT / "build" / "conformance"))
ON_CUDA = ("conformance", "io_binding", "buffers")  # the tests of ONNX Runtime that a GPU can run
ZOO = "transformers==5.23.0"  # the page says which; a config of another may build other models
#: The backends of the catalogue, by name.
CATALOGUE = tomllib.loads((ROOT / "docs/evidence/backend-catalogue.toml").read_text("utf-8"))
#: The environments that another one looks in.
BASE, ENGINES = ("base",), ("engines", "base")
DEFAULT, FULL = ["default", "full"], ["full"]
#: OpenMMLab's codebases of which MMDeploy has configs, by the names of their sessions.
CODEBASES = ("mmpretrain", "mmdet", "mmseg", "mmpose", "mmocr")
#: Gigabytes that the environments of the default run take.
DISK = 8
#: For the wheels that pip builds; it refuses them where it builds without an environment.
BUILD_PINS = {"PIP_BUILD_CONSTRAINT": str(ROOT / "build-constraints.txt")}
#: Our wheels, which `base` builds.
WHEELS = ROOT / "build" / "wheels"
# Python compiles a module at its first import, pip all of them: a minute, and most are never used.
os.environ["PIP_COMPILE"] = "0"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def install(
    session: nox.Session,
    *wanted: str,
    shared: tuple[str, ...] = BASE,
    alone: Sequence[str] = (),
    pinned: bool = True,
) -> None:
    """Install the wheels of our packages among ``wanted``, and the rest, in one go.

    Nothing that one of the ``shared`` environments has is installed again. What is in ``alone``,
    ours or not, comes without its requirements.
    """
    environment = Path(session.bin).parent
    (packages,) = environment.glob("lib/python*/site-packages")
    inside = packages.relative_to(environment)
    folders = [environment.with_name(name) / inside for name in shared]
    (packages / "shared.pth").write_text("".join(f"{folder}\n" for folder in folders))
    names = {requirement.partition("[")[0]: requirement for requirement in wanted}
    ours = [name for name in (*names, *alone) if name in PACKAGES]
    wheels = {}
    for name in ours:
        (wheel,) = WHEELS.glob(f"{name.replace('-', '_')}-*.whl")
        wheels[name] = f"{names.get(name, name)} @ {wheel.as_uri()}"
    names |= {name: wheel for name, wheel in wheels.items() if name in names}
    if ours:  # the wheel that was installed before must go: the version's number may not change
        session.run_install("python", "-m", "pip", "uninstall", "-y", "-q", *ours)
    pins = ("-c", str(ROOT / "constraints.txt")) if pinned else ()
    if names:
        session.install(*pins, *names.values(), env=BUILD_PINS)
    if alone:
        session.install(
            *pins, "--no-deps", *(wheels.get(name, name) for name in alone), env=BUILD_PINS
        )


def python(session: nox.Session, *arguments: str, **env: str) -> None:
    """Run Python: the session's own, or that of ``engines`` where it has none.

    A library has one thread in each process: threads of OpenMP that wait for a busy core do so at
    work, which made the training in the example six times as long.
    """
    engines = Path(session.cache_dir).absolute().parent / "engines" / "bin"
    folder = (session.bin_paths or [str(engines)])[0]
    env = {"OMP_NUM_THREADS": "1", "PATH": os.pathsep.join((folder, os.environ["PATH"])), **env}
    session.run(str(Path(folder, "python")), *arguments, env=env, external=True)


def pytest(session: nox.Session, *arguments: str, **env: str) -> None:
    """Run pytest with the repository's settings, in two processes; ``-- -n0`` takes one."""
    settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-n2")
    order = "--dist=worksteal"
    python(session, "-m", "pytest", *settings, order, *arguments, *session.posargs, **env)


@nox.session
def base(session: nox.Session) -> None:
    """Torch and what else exporting needs, for the environments that look in it; our wheels."""
    if (free := shutil.disk_usage(ROOT).free // 10**9) < DISK:
        session.error(f"the environments take {DISK} GB, and the disk has {free} GB left")
    needs = ("-c", "constraints.txt", "torch", "onnx>=1.21", "onnxscript", "hatchling>=1.27")
    pip = ("python", "-m", "pip", "install", "--retries", "2", "--timeout", "20", *needs)
    installed = session.run_install(*pip, silent=True, success_codes=[0, 1, 2])
    imported = session.run("python", "-c", "import torch", silent=True, success_codes=[0, 1])
    if "Error" in str(imported):
        if "connection broken" in str(installed):
            session.error("pip reaches no package index: is there a network?")
        reasons = [line for line in str(installed).splitlines() if line.startswith("ERROR")]
        session.error((reasons or str(imported).splitlines())[-1])
    shutil.rmtree(WHEELS, ignore_errors=True)
    build = ("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(WHEELS))
    session.run_install("python", "-m", "pip", *build, *(f"./{path}" for path in PACKAGES.values()))


@nox.session(requires=BASE)
def engines(session: nox.Session) -> None:
    """All packages with the engines that run on a CPU, and what their tests need."""
    ours = (
        "enginebay[export,yaml]",
        "enginebay-lab[dask]",
        "enginebay-vision[masks]",
        *EVERY_ENGINE,
    )
    others = ("lxml", "scikit-learn", "playwright", ZOO)
    # Its requirements hold transformers at a newer release than the zoo's.
    alone = ("torchmetrics", "lightning-utilities", "enginebay-transformers")
    install(session, *ours, *others, *TESTS, alone=alone)


# -- what every change must pass ------------------------------------------------------------------


@nox.session(requires=BASE, tags=DEFAULT)
def lint(session: nox.Session) -> None:
    """Ruff, mypy strict and the contract between the rooms."""
    tools = ("ruff", "mypy", "import-linter", "nox", "types-psutil", "pillow")
    ours = ("enginebay", "enginebay-lab", "enginebay-vision")
    install(session, *ours, *tools, "pytest", "hypothesis", "psutil")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = [f"{path}/src" for path in PACKAGES.values()]
    session.run("mypy", *sources, "benchmarks", "noxfile.py")
    # The sources of every package, also of those whose engines are not installed here.
    env = {"PYTHONPATH": os.pathsep.join(sources)}
    session.run("lint-imports", "--config", "pyproject.toml", "--no-cache", env=env)


def add_session(name: str, part: dict[str, Any]) -> None:
    """Add a session of ``sessions.toml``, which says what each key means."""
    shared = tuple(part.get("shared", ENGINES))
    needed = shared or BASE  # for the wheels
    tags = {"default": DEFAULT, "full": FULL, "": []}[part["in"]]

    def run(session: nox.Session) -> None:
        if (needs := part.get("needs")) and shutil.which(needs) is None:
            session.skip(f"'{needs}' is not installed")
        if torch := part.get("torch"):
            session.install(torch)
        if "installs" in part:
            wanted = _insert(part["installs"], "TESTS", TESTS)
            alone = part.get("alone", ())
            install(session, *wanted, shared=shared, alone=alone, pinned=not torch)
        for tests in part.get("tests", ()):
            pytest(session, *_insert(tests, "REPORT", REPORT), **part.get("env", {}))
        if "program" in part:
            python(session, "-m", part["program"], *session.posargs)

    run.__doc__ = part["about"]
    own = None if "installs" in part else "none"
    pythons = part.get("python")
    nox.session(name=name, python=pythons, venv_backend=own, requires=needed, tags=tags)(run)


def _insert(words: list[str], name: str, values: tuple[str, ...]) -> list[str]:
    return [value for word in words for value in (values if word == name else (word,))]


SESSIONS = tomllib.loads((ROOT / "sessions.toml").read_text())
for _name, _part in SESSIONS.items():
    add_session(_name, _part)


@nox.session(tags=DEFAULT)
def docs(session: nox.Session) -> None:
    """The site, strictly: a dead link, an unknown name or a docstring that does not parse fails."""
    tools = ("towncrier>=24.8", "mypy", "ruff", "zensical==0.0.73", "mkdocstrings[python]>=1,<2")
    recorder = "pyte"  # of docs/build/record_terminal.py, for its types
    ours = ("-e", "packages/core", "-e", "packages/lab", "-e", "packages/vision")
    session.install("-c", "constraints.txt", *ours, *tools, recorder)
    # The pages about backends need their parameters, and no engine; the reference names a codebase.
    named = ("packages/backend-", "packages/codebase-transformers")
    plugins = [path for path in PACKAGES.values() if path.startswith(named)]
    session.install("--no-deps", *(word for path in plugins for word in ("-e", path)))
    session.run("mypy", "docs")
    session.run("python", "docs/build/build_site.py")


@nox.session(name="mmdeploy-configs", requires=ENGINES, tags=FULL)
@nox.parametrize("codebase", [name for name in CODEBASES if name in SESSIONS])
def mmdeploy_configs(session: nox.Session, codebase: str) -> None:
    """MMDeploy's configs for one of its codebases, from ``-- CHECKOUT``; writes their page.

    Each in its own environment: mmseg imports mmpretrain if it is there, and fails with it.
    """
    if not session.posargs:
        session.skip("needs a checkout of MMDeploy: nox -s mmdeploy-configs -- CHECKOUT")
    part = SESSIONS[codebase]
    install(session, *part["installs"], shared=ENGINES, alone=part["alone"])
    python(session, "-m", "tests.mmdeploy_configs", *session.posargs, "--codebase", codebase)


@nox.session(name="backend-catalogue", requires=BASE, tags=FULL)
@nox.parametrize("backend", list(CATALOGUE))
def backend_catalogue(session: nox.Session, backend: str) -> None:
    """Each backend of docs/evidence/backend-catalogue.toml alone; writes the results' page."""
    if "report" in CATALOGUE[backend]:  # its own repository has run the kit
        install(session, "enginebay[testing]", *TESTS)
        python(session, "-m", "tests.backend_catalogue", backend)
        return
    install(session, "enginebay[testing]", CATALOGUE[backend]["install"], *TESTS)
    kit = ("--noconftest", "-p", "enginebay_testing", "--backend", backend, "--operators")
    report = ("--conformance-report", str(ROOT / "build" / "catalogue"))
    # A law that is broken is a figure of the page, and a verdict's warning is no error as in ours.
    run = ("python", "-m", "pytest", "-n2", "-W", "default")
    session.run(*run, *kit, *report, success_codes=[0, 1])
    python(session, "-m", "tests.backend_catalogue", backend)


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


@nox.session(requires=BASE)
def gpu_onnxruntime(session: nox.Session) -> None:
    """ONNX Runtime's laws and its tensors on a GPU, with CUDA."""
    if not shutil.which("nvidia-smi"):
        session.skip("no NVIDIA driver: nvidia-smi is missing")
    install(session, "enginebay[testing]", "enginebay-onnxruntime[gpu,int8]", *TESTS)
    tests = [f"packages/backend-onnxruntime/tests/test_{name}.py" for name in ON_CUDA]
    # The driver keeps kernels that it compiled in the home directory, which a law watches.
    kernels = str(Path(session.create_tmp()) / "kernels")
    pytest(session, *tests, ENGINEBAY_GPU="onnxruntime", CUDA_CACHE_PATH=kernels)
