"""``enginebay run ARTIFACT --image cat.png``: print predictions for files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.cli.output import print_table
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay.artifact import Artifact
    from enginebay.hooks import Task
    from enginebay.inference import Wrapper
    from enginebay.tensors import NumpyArray, TensorSpec


class FilePredictions(NamedTuple):
    """The predictions for one file, and the model's outputs from which they were computed."""

    file: Path
    predictions: Sequence[Any]
    outputs: dict[str, NumpyArray]


def add_item_arguments(parser: ArgumentParser) -> None:
    """Add ``--image``, ``--draw`` and ``--allow-random-weights``."""
    parser.add_argument(
        "--image",
        dest="images",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="run on an image, preprocessed by the artifact's task, and print the predictions "
        "(repeatable)",
    )
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FILE.png",
        help="write the image with the predictions to this file",
    )
    parser.add_argument(
        "--allow-random-weights",
        action="store_true",
        help="print predictions even if the weights are random, which makes them meaningless",
    )


def check_item_flags(args: Namespace) -> None:
    """Check the combination of the flags ``--image``, ``--draw`` and ``--output``.

    Raises:
        UsageError: The flags cannot be combined.
    """
    if args.draw and not args.images:
        raise UsageError("--draw requires --image", hint="add --image FILE")
    for flag in ("draw", "output"):
        if getattr(args, flag) and len(args.images) > 1:
            raise UsageError(
                f"expected one --image for --{flag}, found {len(args.images)}",
                hint="run the images one by one",
            )


def check_weights(artifact: Artifact) -> None:
    """Check that an artifact's weights are not random: predictions would be meaningless.

    Raises:
        UsageError: The artifact's weights are random.
    """
    from enginebay.sources import RANDOM_WEIGHTS

    if artifact.manifest.weights == RANDOM_WEIGHTS:
        raise UsageError(
            f"the weights of '{artifact.path}' are {RANDOM_WEIGHTS}: predictions are meaningless",
            hint="deploy with --pretrained or --weights FILE, or add --allow-random-weights",
        )


class ItemRun:
    """Runs an artifact on files, which the artifact's task preprocesses.

    Args:
        artifact: An artifact with a task.
        files: The files to preprocess, such as images.
        arrays: The inputs that the task does not produce from a file, by name.
        drawing: The path at which :meth:`draw` will write an image; None to write no image.

    Raises:
        UsageError: The artifact has no task, an input is missing or specified twice, or the task
            cannot draw predictions.
        InputError: A file cannot be read.
        MissingDependencyError: No installed plugin declares the task's kind.
    """

    def __init__(
        self,
        artifact: Artifact,
        files: Sequence[Path],
        arrays: Mapping[str, TensorSpec | NumpyArray],
        drawing: Path | None,
    ) -> None:
        self._task = _require_task(artifact)
        if drawing:
            self._task.check_drawing(drawing)
        # Read all files first: a broken file is an error before the engine is loaded.
        self._items = [(file, self._task.preprocess(file)) for file in files]
        names = list(self._items[0][1])
        for name in names:
            # The key "" is an input that was passed without a name.
            if name in arrays or "" in arrays:
                raise UsageError(f"--image and --input both specify the input '{name}'")
        for spec in artifact.inputs:
            if spec.name not in (*names, *arrays):
                raise UsageError(
                    f"the model requires another input: {spec.describe()}",
                    hint=f"add --input {spec.name}=…",
                )
        self._arrays = arrays

    def run(self, wrapper: Wrapper) -> Iterator[FilePredictions]:
        """Run the artifact on each file, and yield the predictions."""
        from enginebay.tensors import inputs_for

        for file, inputs in self._items:
            outputs = wrapper(inputs_for(wrapper.inputs, {**self._arrays, **inputs}))
            yield FilePredictions(file, self._task.read_outputs(outputs, file), outputs)

    def draw(self, results: FilePredictions, path: Path) -> None:
        """Draw the predictions on the image from the file, and write the result to ``path``."""
        self._task.draw(results.file, results.predictions, path)


def _require_task(artifact: Artifact) -> Task:
    task = artifact.task
    if task is None:
        raise UsageError(
            f"'{artifact.path}' has no task, and --image requires the preprocessing of a task",
            hint="deploy the model again with --task FILE.json",
        )
    return task


def item_document(results: Sequence[FilePredictions]) -> list[dict[str, Any]]:
    """Return each file with its predictions as plain JSON values."""
    import msgspec

    return [{"image": str(r.file), "found": msgspec.to_builtins(r.predictions)} for r in results]


def print_predictions(results: Sequence[FilePredictions]) -> None:
    """Print a table with a row for each prediction, and a column for each field."""
    rows = [(d["image"], row) for d in item_document(results) for row in d["found"]]
    fields = list(rows[0][1]) if rows else []
    print_table(
        ("IMAGE", *map(str.upper, fields)),
        [(file, *map(_format_cell, row.values())) for file, row in rows],
        right=tuple(name.upper() for name in fields if not isinstance(rows[0][1][name], str)),
    )


def _format_cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
