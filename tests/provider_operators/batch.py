"""The child process: it runs cases on one provider, and records each before it begins."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import onnxruntime

from enginebay_onnxruntime.provider_packages import Provider, plug_in
from tests.onnx_suite.cases import Case, load_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The tolerance: coarse, since a provider may compute in half precision.
TOLERANCE = 1e-2
_FATAL = 4


class Step(msgspec.Struct, frozen=True):
    """A line of the record.

    Attributes:
        case: The case.
        outcome: ``begun``, ``right``, ``wrong``, ``refused`` or ``failed``.
        detail: The reason; for a wrong result what ONNX Runtime's own provider for the CPU did.
    """

    case: str
    outcome: str
    detail: str = ""


def run(module: str, names: list[str], record: str) -> None:
    """Run the cases on the provider of a package."""
    warnings.simplefilter("ignore")
    cases = load_cases()
    provider = plug_in(module)
    with Path(record).open("ab", buffering=0) as file:
        for name in names:
            file.write(msgspec.json.encode(Step(name, "begun")) + b"\n")
            step = Step(name, *_try_case(cases[name], provider))
            file.write(msgspec.json.encode(step) + b"\n")


def _try_case(case: Case, provider: Provider) -> tuple[str, str]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([provider.handle], provider.complete_options({}))
    model = case.model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(model, options)
    except Exception as err:
        text = " ".join(str(err).split())
        kinds = ("explicitly disabled", "Could not find an implementation", "is not a registered")
        refused = any(kind in text for kind in kinds)
        return ("refused" if refused else "failed"), text[-300:]
    try:
        reason = _compare(case, session)
    except Exception as err:
        return "failed", " ".join(str(err).split())[-300:]
    if not reason:
        return "right", ""
    return "wrong", f"{reason}; on the CPU provider {_try_cpu(case)}"


def _try_cpu(case: Case) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    try:
        model = case.model.SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return "wrong" if _compare(case, session) else "right"
    except Exception:
        return "failed"


def _compare(case: Case, session: Any) -> str:
    """Return how the outputs differ from the expected ones; an empty string if they do not."""
    for inputs, wanted in case.data_sets():
        for expected, found in zip(wanted, session.run(None, inputs), strict=True):
            if reason := find_difference(expected, found):
                return reason
    return ""


def find_difference(expected: Any, found: Any) -> str:
    expected, found = np.asarray(expected), np.asarray(found)
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "OSUb":
        different = expected != found
    else:
        wide: Sequence[Any] = [each.astype(np.complex128) for each in (expected, found)]
        different = ~np.isclose(wide[1], wide[0], TOLERANCE, TOLERANCE, equal_nan=True)
    return f"{different.sum()} of {different.size} elements differ" if different.any() else ""
