"""Exports a model as transformers does, and judges the folder, in a child process."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from enginebay.authors.isolation import call
from enginebay.errors import EnginebayError, first_line, one_line

from .models import CASES, DECODERS, build

ENGINES = ("onnxruntime", "openvino")
SECONDS = 900


class Judged(msgspec.Struct, frozen=True):
    """A component on an engine: the verdict, the sizes that were tried, the error."""

    component: str
    backend: str
    verdict: str
    sizes: tuple[str, ...] = ()
    error: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A model.

    Attributes:
        architecture: Its class.
        exported: ``ok``, or the first line of the error of transformers' exporter.
        components: Each component on each engine.
        breaches: What all components together lack.
        seconds: The duration.
    """

    architecture: str = ""
    exported: str = "ok"
    components: tuple[Judged, ...] = ()
    breaches: tuple[str, ...] = ()
    seconds: float = 0.0


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of a bundle: prompts that are equal, undecided, wrong; or an error."""

    equal: int = 0
    undecided: int = 0
    wrong: int = 0
    error: str = ""


def try_export(name: str) -> Row:
    """Export and judge a model in a child process."""
    try:
        return call(f"{__name__}:judge", name, timeout=SECONDS, result_type=Row)
    except EnginebayError as err:
        return Row(exported=first_line(err))


def try_tokens(name: str, engine: str) -> Tokens:
    """Deploy a decoder as a bundle in a child process, and compare its tokens."""
    try:
        return call(f"{__name__}:compare", name, engine, timeout=SECONDS, result_type=Tokens)
    except EnginebayError as err:
        return Tokens(error=first_line(err))


def judge(name: str) -> Row:
    """Export and judge a model in this process."""
    from transformers.exporters import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    from enginebay_transformers import judge_folder

    warnings.simplefilter("ignore")
    start = time.perf_counter()
    model, sample = build(name)
    architecture = type(model).__name__
    generates = CASES[name].sample is not None
    exporter = OnnxExporter()
    with TemporaryDirectory(prefix="enginebay-exports-") as folder:
        path = Path(folder, "exported")
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                export = exporter.export_for_generation if generates else exporter.export
                export(model, dict(sample), OnnxConfig(dynamic=True)).save_pretrained(path)
        except Exception as err:  # torch and transformers raise anything
            return Row(architecture=architecture, exported=one_line(err))
        try:
            judged = judge_folder(path, model, sample, backends=ENGINES)
        except EnginebayError as err:
            return Row(architecture=architecture, breaches=(first_line(err),))
    return Row(
        architecture=architecture,
        components=tuple(
            Judged(row.component, row.backend, row.verdict, row.sizes, row.error)
            for row in judged.rows
        ),
        breaches=judged.breaches,
        seconds=round(time.perf_counter() - start, 1),
    )


def compare(name: str, engine: str) -> Tokens:
    """Deploy a decoder as a bundle in this process, and count the prompts."""
    from enginebay_transformers import deploy_decoder

    warnings.simplefilter("ignore")
    assert name in DECODERS
    model: Any = build(name)[0]
    with TemporaryDirectory(prefix="enginebay-exports-") as folder:
        verify = {"allow_mismatch": True}
        done = deploy_decoder(model, backend=engine, work_dir=Path(folder, "b"), verify=verify)
    found = [prompt.verdict for prompt in done.prompts]
    return Tokens(*(found.count(each) for each in ("equal", "undecided", "wrong")))
