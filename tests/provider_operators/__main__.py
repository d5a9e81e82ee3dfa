"""``python -m tests.provider_operators [MODULE …]``: ONNX's node tests on execution providers.

Each provider that is installed and offers a device here computes the tests in child processes,
and the whole graph is demanded on it. What a provider computes wrongly is then deployed by
Enginebay: exit code 1 if one of these is verified. The conformance tests follow, with the networks
of one operator. Results are kept in ``build/providers``: a second call continues, and then writes
``docs/evidence/providers.md``.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import onnx

import enginebay as eb
from enginebay.authors.isolation import call
from enginebay.errors import EnginebayError
from enginebay_onnxruntime.provider_packages import list_installed
from tests.onnx_suite.cases import Case, load_cases

from .batch import Step
from .kit import run_kit
from .page import write_page

if TYPE_CHECKING:
    from enginebay_testing.conformance.report import Report

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "providers"
#: Cases of one child process, and the seconds after which it has hung at one of them.
_TIMEOUT = 300.0
_BATCH = 400
_PROCESSES = 2


def main() -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    cases = {name: case for name, case in load_cases().items() if name.startswith("node/")}
    found: dict[str, dict[str, Step]] = {}
    verified: dict[str, list[str]] = {}
    reports: dict[str, Report] = {}
    for module, package, _ in list_installed():
        if sys.argv[1:] and module not in sys.argv[1:]:
            continue
        version = f"{package.name} {package.version}"
        failure = eb.get_backend("onnxruntime").check_env(_params(module)).failed
        if failure:
            print(f"{version}: {failure.found}")
            continue
        steps = found[version] = run_all(module, version, sorted(cases))
        wrong = {name: cases[name] for name, step in steps.items() if step.outcome == "wrong"}
        verified[version] = list_verified(module, version, wrong)
        print(f"{version}: {len(wrong)} wrong, of these verified: {verified[version]}")
        reports[version] = run_kit(module, BUILD / version.replace(" ", "-"))
    models = {name: case.model for name, case in cases.items()}
    page = write_page(found, models, verified, reports)
    (ROOT / "docs" / "evidence" / "providers.md").write_text(page)
    return 1 if any(verified.values()) else 0


def _params(module: str) -> eb.BackendParams:
    return eb.get_backend("onnxruntime").Params(providers=(module,))


def run_all(module: str, version: str, names: list[str]) -> dict[str, Step]:
    """Return the outcome of each case, from the record or from child processes."""
    lanes = [names[n::_PROCESSES] for n in range(_PROCESSES)]
    records = [BUILD / f"{version.replace(' ', '-')}-{n}.jsonl" for n in range(_PROCESSES)]
    with ThreadPoolExecutor(_PROCESSES) as pool:
        parts = pool.map(partial(_run_lane, module), lanes, records)
    steps = {name: step for part in parts for name, step in part.items()}
    return {name: steps[name] for name in names}


def _run_lane(module: str, names: list[str], record: Path) -> dict[str, Step]:
    found = _read(record)
    while left := [name for name in names if name not in found][:_BATCH]:
        try:
            call(
                *("tests.provider_operators.batch:run", module, left, str(record)),
                timeout=_TIMEOUT,
                result_type=NoneType,
            )
        except EnginebayError as err:
            (begun,) = [name for name, step in _read(record).items() if step.outcome == "begun"]
            step = Step(begun, "died", str(err).partition(" before ")[0])
            with record.open("ab") as file:
                file.write(msgspec.json.encode(step) + b"\n")
        found = _read(record)
    return found


def _read(record: Path) -> dict[str, Step]:
    lines = record.read_bytes().splitlines() if record.exists() else []
    steps = (msgspec.json.decode(line, type=Step) for line in lines)
    return {step.case: step for step in steps}


def list_verified(module: str, version: str, cases: dict[str, Case]) -> list[str]:
    """Return the cases that Enginebay verifies on a provider, from the record or by deployments."""
    record = BUILD / f"{version.replace(' ', '-')}-verdicts.json"
    stored = record.read_bytes() if record.exists() else b"{}"
    verdicts = msgspec.json.decode(stored, type=dict[str, bool])
    for name, case in cases.items():
        if name not in verdicts:
            verdicts[name] = is_verified(case, module)
            record.write_bytes(msgspec.json.encode(verdicts))
    return [name for name in cases if verdicts[name]]


def is_verified(case: Case, module: str) -> bool:
    """Return True if Enginebay verifies a case on a provider."""
    inputs, _ = next(case.data_sets())
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        onnx.save(case.model, model)
        try:
            deployment = eb.deploy(
                model,
                {name: np.asarray(array) for name, array in inputs.items()},
                backend="onnxruntime",
                work_dir=Path(folder) / "out",
                params={"providers": [module]},
                verify=eb.VerifyOptions(allow_mismatch=True, allow_unverified=True),
            )
        except EnginebayError:
            return False
    return bool(deployment.verdict == "verified")


if __name__ == "__main__":
    sys.exit(main())
