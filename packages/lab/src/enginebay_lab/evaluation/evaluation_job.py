"""The description of an evaluation for workers: names and digests of its artifacts and files."""

from __future__ import annotations

from hashlib import blake2b, file_digest
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile, is_zipfile

import msgspec

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay_lab.evaluation.evaluation_run import EvaluationRun

SAME_FILES_HINT = "start the workers where the files exist, or copy the files to these machines"


class EvaluationJob(msgspec.Struct, frozen=True, kw_only=True):
    """Describes an evaluation in a form that can be sent to workers.

    Attributes:
        folder: The working directory, to which relative paths in the other fields refer.
        artifacts: The digest of each artifact's manifest, by the artifact's folder.
        data: The data set's source, as on the command line.
        take: The number of items to use; None for all.
        seed: The random seed for ``take``.
        metrics: The metrics, as on the command line.
        model: The PyTorch model, as on the command line; empty without a model.
        timeout: Time limit in seconds for loading an engine, and for each chunk of items.
        threads: The number of PyTorch's threads; 0 without a model.
        files: The digests of the files of the data set, the metrics and the model; the keys are the
            texts that name these files on the command line.
    """

    folder: str
    artifacts: dict[str, str]
    data: str
    take: int | None
    seed: int
    metrics: tuple[str, ...]
    model: str
    timeout: float
    threads: int
    files: dict[str, str]


def describe_job(
    run: EvaluationRun, metrics: object, model: object, timeout: float
) -> EvaluationJob:
    """Return the description that workers need to run parts of an evaluation.

    Args:
        run: The artifacts, metrics and data of the evaluation.
        metrics: The metrics, as the caller passed them.
        model: The model, as the caller passed it.
        timeout: Time limit in seconds for loading an engine, and for each chunk of items.

    Raises:
        UsageError: The model, the data or a metric is a Python object, or the states of a metric
            cannot be merged.
    """
    listed = metrics if isinstance(metrics, list | tuple) else [metrics]
    metric_names = tuple(_check_name(metric, "a metric", "file.py:attr") for metric in listed)
    for source in run.sources:
        if source.unmergeable:
            raise UsageError(
                f"metric '{source.name}' cannot be evaluated on an executor, since its states "
                f"cannot be merged: {source.unmergeable}",
                hint="evaluate without an executor, or define metric_state and merge_state(state)",
            )
    if run.data.named is None:
        raise _unnamed_error(run.data.description, "data.npz, a folder, or file.py:attr")
    model_name = "" if model is None else _check_name(model, "the model", "net.py:build")
    names = (run.data.named.source, *metric_names, *([model_name] if model_name else []))
    return EvaluationJob(
        folder=str(Path.cwd()),
        artifacts={subject.name: subject.identity for subject in run.subjects},
        data=run.data.named.source,
        take=run.data.named.take,
        seed=run.data.named.seed,
        metrics=metric_names,
        model=model_name,
        timeout=timeout,
        # With another number of threads, the last digits may differ between workers.
        threads=_torch_threads() if model_name else 0,
        files={name: digest for name in names if (digest := _digest_content(name))},
    )


def check_files(job: EvaluationJob) -> None:
    """Check that this machine has the same files as the machine that described the job.

    Raises:
        UsageError: A file does not exist here, or has different content.
    """
    for name, expected in job.files.items():
        digest = _digest_content(name)
        if not digest:
            raise UsageError(f"'{name}' does not exist in '{job.folder}'", hint=SAME_FILES_HINT)
        if digest != expected:
            raise UsageError(
                f"'{name}' differs from the file that the evaluation started with",
                hint="copy the original file to the worker's machine",
            )


def _digest_content(name: str) -> str:
    """Return a digest of a file, or of the names and sizes of the files in a folder.

    The digest is empty if ``name`` is not a path, such as ``accuracy`` or ``module:attr``.
    """
    file = name.rpartition(":")[0]
    path = Path(file if file.endswith(".py") else name)
    if not path.exists():
        return ""
    if path.is_dir():
        # By sizes: reading the contents of a large data set would take long.
        files = sorted(entry for entry in path.rglob("*") if entry.is_file())
        return _digest_lines(f"{e.relative_to(path)} {e.stat().st_size}" for e in files)
    if is_zipfile(path):  # its checksums spare reading large data, such as an .npz file
        with ZipFile(path) as archive:
            entries = archive.filelist
            return _digest_lines(f"{e.filename} {e.CRC} {e.file_size}" for e in entries)
    with path.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


def _digest_lines(lines: Iterable[str]) -> str:
    # surrogateescape: file names need not be valid UTF-8.
    return blake2b("\n".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _check_name(value: object, role: str, example: str) -> str:
    if not isinstance(value, str | PathLike):
        raise _unnamed_error(f"{role}, of type {type(value).__qualname__},", example)
    return fspath(value)


def _unnamed_error(role: str, example: str) -> UsageError:
    return UsageError(
        f"{role} cannot be sent to an executor's workers",
        hint=f"pass a string, as on the command line: {example}",
    )


def _torch_threads() -> int:
    import torch

    return torch.get_num_threads()
