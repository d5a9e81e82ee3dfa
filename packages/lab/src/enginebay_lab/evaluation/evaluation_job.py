"""What workers are told of an evaluation: everything by its name, and the digests of what it is."""

from __future__ import annotations

from hashlib import blake2b, file_digest
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, is_zipfile

import msgspec

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from enginebay_lab.evaluation.run import Run


class EvaluationJob(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation, as plain data.

    Attributes:
        folder: The folder that its names are relative to.
        artifacts: The digest of each artifact's manifest, by its folder.
        data: What names the data set.
        take: As many of its items; None for all.
        seed: Another seed, other items.
        metrics: The metrics.
        model: The PyTorch model; empty for none.
        timeout: Seconds that an engine may take to load, and for each chunk of items.
        threads: PyTorch's threads: with another number the last digits may differ.
        files: Digests of the files that the other names lead to, by the name.
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


def describe_job(run: Run, metrics: Any, model: Any, timeout: float) -> EvaluationJob:
    """Describe an evaluation so that any process can do a part of it.

    Args:
        run: The evaluation.
        metrics: The metrics as they were given.
        model: The model as it was given.
        timeout: Seconds that an engine may take to load, and for each chunk of items.

    Raises:
        UsageError: The model, the data or a metric is a Python object, or a metric cannot be
            merged.
    """
    listed = metrics if isinstance(metrics, list | tuple) else [metrics]
    names = tuple(_name(metric, "a metric", "file.py:attr") for metric in listed)
    for source in run.sources:
        if source.unmergeable:
            raise UsageError(
                f"metric '{source.name}' cannot be computed in pieces, as an executor does: "
                f"{source.unmergeable}",
                hint="evaluate in one process, or give it metric_state and merge_state(state)",
            )
    if run.data.named is None:
        raise _unnamed(run.data.description, "data.npz, a folder, or file.py:attr")
    name = "" if model is None else _name(model, "the model", "net.py:build")
    named = (run.data.named.source, *names, *([name] if name else []))
    return EvaluationJob(
        folder=str(Path.cwd()),
        artifacts={each.name: each.identity for each in run.candidates},
        data=run.data.named.source,
        take=run.data.named.take,
        seed=run.data.named.seed,
        metrics=names,
        model=name,
        timeout=timeout,
        threads=_threads() if name else 0,
        files={text: digest for text in named if (digest := content_digest(text))},
    )


def check_files(job: EvaluationJob) -> None:
    """Check that the names lead to the same files on this machine.

    Raises:
        UsageError: One is missing, or another one.
    """
    for text, wanted in job.files.items():
        found = content_digest(text)
        if not found:
            raise UsageError(
                f"'{text}' leads to nothing in '{job.folder}'",
                hint="start the workers where they see the same files, or copy them there",
            )
        if found != wanted:
            raise UsageError(
                f"'{text}' is another one than where the evaluation was begun",
                hint="copy that one there",
            )


def content_digest(text: str) -> str:
    """A digest of the file, or of the names and sizes in the folder, that a text leads to.

    Empty where it leads to none, as ``accuracy`` and ``module:attr`` do.
    """
    left = text.rpartition(":")[0]
    path = Path(left if left.endswith(".py") else text)
    if not path.exists():
        return ""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return _digest(f"{each.relative_to(path)} {each.stat().st_size}" for each in files)
    if is_zipfile(path):  # it holds checksums, so that large data is not read for this
        with ZipFile(path) as archive:
            return _digest(f"{one.filename} {one.CRC} {one.file_size}" for one in archive.filelist)
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _digest(lines: Any) -> str:
    return blake2b("\n".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _name(given: Any, what: str, example: str) -> str:
    if not isinstance(given, str | PathLike):
        raise _unnamed(f"{what}, of type {type(given).__qualname__},", example)
    return fspath(given)


def _unnamed(what: str, example: str) -> UsageError:
    return UsageError(
        f"{what} has no name by which an executor's workers find it",
        hint=f"write it as on the command line: {example}",
    )


def _threads() -> int:
    import torch

    return torch.get_num_threads()
