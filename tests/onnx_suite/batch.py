"""The child process: it runs cases one by one, and records each step before it begins."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import msgspec
import onnx

from .cases import load_cases
from .engines import BARE, THREADS, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cases import Case


class Step(msgspec.Struct, frozen=True):
    """A line of the record.

    Attributes:
        case: The case.
        way: The bare engine, or the wrapper.
        outcome: ``pass``, or the reason of the failure; after a crash of the process, ``begun``.
    """

    case: str
    way: Literal["bare", "wrapped"]
    outcome: str


def run(engine: str, backend: str, names: list[str], record: str) -> None:
    """Run the cases on an engine, and the passed cases through a backend's wrapper."""
    warnings.simplefilter("ignore")
    cases = load_cases()
    with TemporaryDirectory() as folder, Path(record).open("ab", buffering=0) as file:

        def tell(case: str, way: Literal["bare", "wrapped"], outcome: str) -> None:
            file.write(msgspec.json.encode(Step(case, way, outcome)) + b"\n")

        for number, name in enumerate(names):
            case = cases[name]
            model = Path(folder) / f"case_{number}.onnx"
            onnx.save(case.model, model)
            tell(name, "bare", "begun")
            bare = _outcome(partial(_bare, engine, case, model))
            tell(name, "bare", bare)
            if bare == "pass":
                tell(name, "wrapped", "begun")
                tell(name, "wrapped", _outcome(partial(_wrapped, engine, backend, case, model)))
            model.unlink()


def _outcome(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except Exception as err:
        text = f"{type(err).__name__}: {err}"
        return " ".join(text.split())[:400]
    return "pass"


def _bare(engine: str, case: Case, model: Path) -> None:
    call = BARE[engine](model)
    for inputs, wanted in case.data_sets():
        case.compare(wanted, call(inputs))


def _wrapped(engine: str, backend: str, case: Case, model: Path) -> None:
    data = list(case.data_sets())
    found = wrapped(backend, model, [inputs for inputs, _ in data], THREADS[engine])
    for (_, wanted), outputs in zip(data, found, strict=True):
        case.compare(wanted, outputs)
