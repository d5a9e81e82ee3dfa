"""``nox`` runs what every change must pass; ``nox -s NAME`` runs one part of it.

Each package is tested from its wheel, in an environment with that wheel and its dependencies only:
what its metadata forgets fails there. Two environments are shared, since what they hold takes long
to unpack: ``base`` has torch and what else exporting needs; ``engines`` has what the sessions with
every engine need. An environment that looks in them has the rest to itself.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = [
    "lint",
    "core",
    "onnxruntime",
    "openvino",
    "ncnn",
    "tensorrt",
    "models",
    "no_torch",
    "scaffold",
    "together",
    "build-cache",
    "docs",
]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
WHEELS = ROOT / "build" / "wheels"
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
#: Core and the backends whose engines run on any CPU.
EVERY_ENGINE = (
    "enginebay[export]",
    "enginebay-onnxruntime[cpu]",
    "enginebay-openvino",
    "enginebay-ncnn",
)
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
#: Other toolkits that the benchmarks compare with.
PEERS = ("polygraphy", "optimum-onnx[onnxruntime]")

#: The shared environments of the sessions with one engine or none, and of those with all.
BASE = ("base",)
ENGINES = ("engines", "base")
#: The packages whose wheels this run of nox has built.
_BUILT: set[str] = set()


def install(
    session: nox.Session,
    *wanted: str,
    extras: tuple[str, ...] = TESTS,
    shared: tuple[str, ...] = BASE,
) -> None:
    """Install everything in one go: the wheels of our packages among ``wanted``, and the rest.

    Nothing that one of the ``shared`` environments has is installed again; the session requires
    them.
    """
    look_in(session, *shared)
    parts = {requirement: requirement.partition("[") for requirement in wanted}
    ours = [name for name, _, _ in parts.values() if name in PACKAGES]
    build_wheels(session, *ours)
    requirements = []
    for requirement, (name, bracket, extra) in parts.items():
        if name in PACKAGES:
            requirement = f"{name}{bracket}{extra} @ {newest_wheel(name).as_uri()}"
        requirements.append(requirement)
    # The wheel of a version that was installed before must replace it: the number may not change.
    session.run_install("python", "-m", "pip", "uninstall", "-y", "-q", *ours)
    session.install("-c", str(ROOT / "constraints.txt"), *requirements, *extras)


def look_in(session: nox.Session, *shared: str) -> None:
    """Let Python find in other environments what this session's does not have itself."""
    environment = Path(session.bin).parent
    (packages,) = environment.glob("lib/python*/site-packages")
    inside = packages.relative_to(environment)
    folders = [environment.with_name(name) / inside for name in shared]
    (packages / "shared.pth").write_text("".join(f"{folder}\n" for folder in folders))


def build_wheels(session: nox.Session, *names: str) -> None:
    """Build the wheels that no session has built in this run; sources do not change within one."""
    if missing := [name for name in names if name not in _BUILT]:
        session.run_install(
            *("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(WHEELS)),
            *(str(ROOT / PACKAGES[name]) for name in missing),
        )
        _BUILT.update(missing)


def newest_wheel(name: str) -> Path:
    """The wheel that was built last; of versions before there may be others."""
    wheels = WHEELS.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return max(wheels, key=lambda path: path.stat().st_mtime)


def pytest(session: nox.Session, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run pytest with the repository's settings, in two processes; ``-- -n0`` takes one.

    A library has one thread in each: threads of OpenMP that wait for a busy core do so at work,
    which made the training in the example six times as long.
    """
    session.run(
        *("python", "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)),
        *("-n2", "--dist=worksteal"),
        *arguments,
        *session.posargs,
        env={"OMP_NUM_THREADS": "1", **(env or {})},
    )


@nox.session
def base(session: nox.Session) -> None:
    """Install what core's extra ``export`` needs, for every session that has torch."""
    session.install("-c", "constraints.txt", "torch", "onnx>=1.21", "onnxscript")


@nox.session(requires=BASE)
def engines(session: nox.Session) -> None:
    """The engines that run on a CPU, and transformers, for the sessions that have all of them."""
    look_in(session, *BASE)
    session.install("-c", "constraints.txt", "onnxruntime", "openvino", "ncnn", "pnnx", ZOO)


@nox.session(requires=BASE)
def lint(session: nox.Session) -> None:
    """Ruff, mypy strict and the contract between the rooms."""
    tools = (
        "ruff",
        "mypy",
        "import-linter",
        "nox",
        "pytest",
        "hypothesis",
        "types-psutil",
        "pillow",
    )
    install(session, "enginebay", "filelock", "psutil", extras=tools)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = (f"{path}/src" for path in PACKAGES.values())
    session.run("mypy", *sources, "benchmarks", "noxfile.py")
    session.run("lint-imports", "--config", "pyproject.toml", "--no-cache")


@nox.session(requires=BASE)
def core(session: nox.Session) -> None:
    """Core's own tests, with its export extra and no engine."""
    install(session, "enginebay[export,yaml,images]")
    pytest(session, "packages/core/tests")
    pytest(session, "--doctest-modules", "--pyargs", "enginebay")


@nox.session(requires=BASE)
def onnxruntime(session: nox.Session) -> None:
    """The ONNX Runtime backend's tests."""
    install(
        session,
        "enginebay[export]",
        "enginebay-onnxruntime[cpu,custom-ops]",
    )
    # Core's rewriters are needed, or not, on an engine: this is the one they were written for.
    needed = "packages/core/tests/rewriting/test_builtin.py"
    pytest(session, "packages/backend-onnxruntime", needed, *REPORT)


@nox.session(requires=BASE)
def openvino(session: nox.Session) -> None:
    """The OpenVINO backend's tests, quantisation included."""
    install(session, "enginebay[export]", "enginebay-openvino[int8]")
    pytest(session, "packages/backend-openvino", *REPORT)


@nox.session(requires=BASE)
def ncnn(session: nox.Session) -> None:
    """The ncnn backend's tests."""
    install(session, "enginebay[export]", "enginebay-ncnn")
    pytest(session, "packages/backend-ncnn", *REPORT)


@nox.session(requires=BASE)
@nox.parametrize("version", list(BINDINGS))
def tensorrt(session: nox.Session, version: str) -> None:
    """The TensorRT backend's tests: its real parser and builder, and stand-ins for the GPU.

    They are TensorRT for RTX's, whose libraries are on PyPI. With the bindings of TensorRT 10 and
    11, over stub libraries, runs what asks which TensorRT this is.
    """
    if shutil.which("gcc") is None:
        session.skip("the stub libraries are compiled with gcc, which is not installed")
    install(session, "enginebay[export]", "enginebay-tensorrt[int8]", *BINDINGS[version])
    tests = "packages/backend-tensorrt/tests"
    if version == "rtx":
        pytest(session, tests, *REPORT)
        session.install("-c", "constraints.txt", ZOO)
        pytest(session, "tests/zoo/test_zoo.py", "-k", "gpu_that_is_not_here")
    else:
        names = ("contract", "flags", "check_env")
        pytest(session, *(f"{tests}/test_{name}.py" for name in names))
    if version != "10":
        # Without stand-ins: the laws that need no device, and what check-env says about the others.
        backend = "tensorrt-rtx" if version == "rtx" else "tensorrt"
        pytest(session, "--pyargs", "enginebay.testing", "--backend", backend, *REPORT)


@nox.session(requires=BASE)
@nox.parametrize("backend", ["tensorrt", "tensorrt-rtx"])
def gpu(session: nox.Session, backend: str) -> None:
    """TensorRT and a slice of the zoo on a GPU; skipped with check-env's reason elsewhere."""
    install(session, "enginebay[export]", "enginebay-tensorrt[int8]", "cuda-bindings>=13,<14")
    probe = "from enginebay_tensorrt import cuda; print(cuda.call('cudaDriverGetVersion') // 1000)"
    driver = int(session.run("python", "-c", probe, silent=True) or 0)
    if driver >= 12:  # the oldest CUDA that TensorRT has wheels for
        extras = {"tensorrt": ("cu12", "cu13"), "tensorrt-rtx": ("rtx-cu12", "rtx")}
        extra = extras[backend][min(driver, 13) - 12]
        install(session, "enginebay[export]", f"enginebay-tensorrt[int8,{extra}]", ZOO)
    answer = session.run(
        *("enginebay", "check-env", backend, "--json"), silent=True, success_codes=[0, 3]
    )
    (report,) = json.loads(str(answer))["backends"]
    for check in report["checks"]:
        if check["status"] == "failed":
            # A GPU that responds and computes something wrong is what this session is for.
            end = session.error if check["tier"] == "smoke" else session.skip
            end(f"{check['tier']}: {check['name']}: {check['found']}")
    tests = ("packages/backend-tensorrt", "tests/zoo/test_gpu.py")
    pytest(session, *tests, env={"ENGINEBAY_GPU": backend})


@nox.session(requires=ENGINES)
def models(session: nox.Session) -> None:
    """The model sources of transformers, timm and torchvision, on three engines.

    Of the one of mmpretrain what needs no mmpretrain; the session of its name has the rest.
    """
    sources = ("enginebay-models[transformers]", "enginebay-mmpretrain")
    install(session, *EVERY_ENGINE, *sources, ZOO, "pillow", shared=ENGINES)
    # Their requirements would put a torchvision beside torch that replaces it; conftest.py says
    # how this one imports.
    session.install("-c", "constraints.txt", "--no-deps", "timm==1.0.31", "torchvision")
    without = "packages/codebase-mmpretrain/tests/test_mmpretrain_absent.py"
    pytest(session, "packages/codebase-models", without)


@nox.session(requires=ENGINES)
def mmpretrain(session: nox.Session) -> None:
    """Ten of OpenMMLab's classifiers on three engines, through MMDeploy's configs.

    Ten minutes on two cores, so not part of the default run. ``nox -s mmpretrain -- --configs
    FOLDER`` takes MMDeploy's own ``configs`` instead of files that say the same.
    """
    install(
        session,
        *(*EVERY_ENGINE, "enginebay-mmpretrain"),
        *("addict", "einops", "importlib-metadata", "mat4py", "matplotlib", "model-index"),
        *("opencv-python-headless", "pillow", "pyyaml", "rich", "termcolor", "yapf"),
        shared=ENGINES,
    )
    # pip builds mmcv's wheel where no torch is installed, and so without its ops: in seconds.
    openmmlab = ("onedl-mmcv", "onedl-mmengine", "onedl-mmpretrain")
    session.install("-c", "constraints.txt", "--no-deps", "torchvision", *openmmlab)
    pytest(session, "packages/codebase-mmpretrain")


@nox.session
def no_torch(session: nox.Session) -> None:
    """Inference with NumPy, in an environment that has no torch."""
    install(session, "enginebay", "enginebay-onnxruntime[cpu]", "onnx>=1.21", shared=())
    pytest(session, "tests/no_torch")


@nox.session(requires=ENGINES)
def together(session: nox.Session) -> None:
    """Test what crosses packages, with all wheels, the example and the README's commands."""
    extras = ("enginebay[report,dask]", "enginebay-openvino[int8]")
    others = ("lxml", "pillow", "scikit-learn", "playwright", ZOO)
    install(session, *EVERY_ENGINE, *extras, *others, shared=ENGINES)
    # Without their requirements: torch is in the environment that is shared.
    metrics = ("torchmetrics", "lightning-utilities")
    session.install("-c", "constraints.txt", "--no-deps", *metrics)
    pytest(session, "tests", "--ignore=tests/no_torch", "--ignore=tests/mmengine")


@nox.session(name="build-cache", requires=ENGINES)
def build_cache(session: nox.Session) -> None:
    """The example of a plugin that sees every backend, with two of them; in no other session."""
    install(
        session,
        *("enginebay[export]", "enginebay-onnxruntime[cpu]", "enginebay-openvino"),
        "enginebay-build-cache",
        shared=ENGINES,
    )
    pytest(session, "examples/build-cache")


@nox.session
def fuzz(session: nox.Session) -> None:
    """175,000 made-up configs and 35,000 mutated artifacts; the default run has a slice."""
    install(session, "enginebay", shared=())
    session.env["ENGINEBAY_FUZZ_CASES"] = "35000"
    artifacts = "packages/core/tests/artifact/test_artifact_fuzz.py"
    pytest(session, "packages/core/tests/config/test_fuzz.py", artifacts)


@nox.session
def configs(session: nox.Session) -> None:
    """Configs against what mmengine makes of them; with a folder, that folder's and the times.

    ``nox -s configs -- --configs FOLDER`` compares every ``.py`` file in it.
    """
    install(session, "enginebay", "mmengine==0.10.7", shared=())
    pytest(session, "tests/mmengine")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, strictly: a dead link, an unknown name or a docstring that does not parse fails."""
    session.install(
        *("-c", "constraints.txt", "-e", f"{PACKAGES['enginebay']}[report]"),
        *("towncrier>=24.8", "mypy", "ruff"),
        *("zensical==0.0.73", "mkdocstrings[python]>=1,<2"),
    )
    # The pages about backends need their parameters, and no engine.
    backends = [path for path in PACKAGES.values() if path.startswith("packages/backend-")]
    session.install("--no-deps", *(word for path in backends for word in ("-e", path)))
    session.run("mypy", "docs/write_pages.py", "docs/docstrings.py")
    session.run("python", "docs/write_pages.py")
    printed = str(session.run("zensical", "build", "--strict", "--clean", silent=True))
    session.log(printed)
    if "griffe:" in printed:  # its warnings about docstrings do not count for --strict
        session.error("a docstring does not parse")
    fetching = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)="?https?:""")
    for page in (ROOT / "build" / "site").rglob("*.html"):
        if found := fetching.search(page.read_text(encoding="utf-8")):
            session.error(f"{page}: {found[0]} is fetched from the network")


@nox.session(requires=ENGINES)
def zoo(session: nox.Session) -> None:
    """Every model of the zoo on every backend by every exporter; writes docs/zoo.md.

    Not part of the default run. ``nox -s zoo -- vit bert --backend ncnn`` measures a part of it,
    ``nox -s zoo -- --missing`` what has no result yet.
    """
    rtx = "enginebay-tensorrt[rtx]"
    install(session, *EVERY_ENGINE, rtx, ZOO, extras=(), shared=ENGINES)
    session.run(
        *("python", "-m", "tests.zoo", *session.posargs),
        env={"OMP_NUM_THREADS": "1"},
    )


@nox.session(requires=ENGINES)
def wild(session: nox.Session) -> None:
    """Every model of the wild zoo on every engine that runs on a CPU; writes docs/wild.md.

    Two hours on two cores and 2 GB of packages, so not part of the default run. ``nox -s wild --
    gcn --backend ncnn`` measures a part of it, ``nox -s wild -- --missing`` what has no result yet.
    """
    install(session, *EVERY_ENGINE, extras=(), shared=ENGINES)
    # Without their requirements: some of these hold a torch that would replace the shared one.
    session.install("--no-deps", "-r", "tests/wild/requirements.txt")
    (packages,) = Path(session.bin).parent.glob("lib/python*/site-packages")
    shutil.rmtree(packages / "tests", ignore_errors=True)  # which two of them have, is not ours
    # torchaudio's library was linked with a torch for GPUs; where there is none, Python does it.
    for library in (packages / "torchaudio" / "lib").glob("*.so"):
        library.unlink()
    session.run("python", "-m", "tests.wild", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(requires=ENGINES)
def verdicts(session: nox.Session) -> None:
    """Wrong models and rewriters that must not be verified, in a table.

    Not part of the default run, which tries a few of them. ``nox -s verdicts -- --pairs 900
    --backend openvino`` tries all of them on another engine.
    """
    install(session, *EVERY_ENGINE, extras=(), shared=ENGINES)
    session.run("python", "-m", "tests.verdicts", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(requires=ENGINES)
def bisect(session: nox.Session) -> None:
    """Wrong rewriters in twenty models of the zoo, which the bisecting must name, in a table.

    Minutes, so not part of the default run, which tries three. ``nox -s bisect -- bert`` tries one.
    """
    install(session, *EVERY_ENGINE, ZOO, extras=(), shared=ENGINES)
    session.run("python", "-m", "tests.plants", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(requires=ENGINES)
def dask(session: nox.Session) -> None:
    """Sixty cells of the zoo on a Dask scheduler with four workers, two of which are lost.

    Minutes, so not part of the default run, which sweeps eight small ones.
    """
    install(session, *EVERY_ENGINE, "enginebay[dask]", ZOO, extras=(), shared=ENGINES)
    session.run("python", "-m", "tests.cluster", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(requires=ENGINES)
def benchmarks(session: nox.Session) -> None:
    """The ratios against the bare engines and other toolkits; not part of the default run.

    Writes docs/benchmarks.md, unless groups are named: ``nox -s benchmarks -- wrapper``.
    """
    install(
        session,
        *EVERY_ENGINE,
        "enginebay[dask]",
        "enginebay-tensorrt[rtx]",
        extras=("psutil", "pygal", *PEERS),
        shared=ENGINES,
    )
    session.run("python", "-m", "benchmarks", *(session.posargs or ["--page"]))


@nox.session(requires=ENGINES)
def int8(session: nox.Session) -> None:
    """What int8 costs and brings on networks of ten families, as a table.

    Minutes of training, so not part of the default run. ``nox -s int8 -- resnet10t`` tries one.
    """
    quantiser = "enginebay-openvino[int8]"
    install(session, *EVERY_ENGINE, quantiser, "scikit-learn", ZOO, "pillow", shared=ENGINES)
    session.install("-c", "constraints.txt", "--no-deps", "timm==1.0.31", "torchvision")
    threads = {"OMP_NUM_THREADS": "1"}
    session.run("python", "-m", "benchmarks.int8", *session.posargs, env=threads)


@nox.session(requires=ENGINES)
def races(session: nox.Session) -> None:
    """Readers of an artifact that others overwrite, as a table; ``together`` runs a slice.

    Two minutes, so not part of the default run.
    """
    install(session, "enginebay[export]", "enginebay-onnxruntime[cpu]", shared=ENGINES)
    session.run("python", "-m", "tests.races", *session.posargs)


@nox.session(requires=ENGINES)
def kills(session: nox.Session) -> None:
    """1,000 kills and signals at random moments of deployments on every engine; prints a table.

    An hour on two cores, so not part of the default run; ``together`` runs a slice.
    ``nox -s kills -- --count 100 --backend ncnn`` sends fewer.
    """
    install(session, *EVERY_ENGINE, shared=ENGINES)
    session.run("python", "-m", "tests.kills", *session.posargs)


@nox.session(requires=ENGINES)
def soak(session: nox.Session) -> None:
    """100,000 calls of each engine and 20,000 rewriting contexts, in 8 threads; prints a table.

    Three minutes on two cores, so not part of the default run; ``together`` runs a slice.
    ``nox -s soak -- --calls 10000 --backend ncnn`` makes fewer.
    """
    install(session, *EVERY_ENGINE, shared=ENGINES)
    session.run("python", "-m", "tests.soak", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(requires=BASE)
def scaffold(session: nox.Session) -> None:
    """A new backend as `new-backend` writes it, with core and pytest and nothing else around it."""
    install(session, "enginebay[testing]", extras=())
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


@nox.session(name="onnx-suite", requires=ENGINES)
def onnx_suite(session: nox.Session) -> None:
    """ONNX's own backend tests: whatever an engine passes must pass through our wrapper too.

    Seven minutes on two cores, so not part of the default run; ``together`` runs a slice.
    """
    install(session, *EVERY_ENGINE, shared=ENGINES)
    session.run("python", "-m", "tests.onnx_suite", *session.posargs)
