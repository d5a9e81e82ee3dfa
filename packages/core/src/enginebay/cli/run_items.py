"""``enginebay run ARTIFACT --image cat.png``: what the model finds in files, by its task."""

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
    from enginebay.tensors import NumpyArray


class Seen(NamedTuple):
    """What the model finds in one file."""

    file: Path
    found: Sequence[Any]
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
        help="run on a picture, preprocessed as the artifact's task says, and print what the model "
        "finds in it (repeatable)",
    )
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FILE.png",
        help="write the picture with what was found in it to this file",
    )
    parser.add_argument(
        "--allow-random-weights",
        action="store_true",
        help="name what a model finds whose weights are random, and so means nothing",
    )


def check_item_flags(args: Namespace) -> None:
    """Refuse flags that do not go together, before anything is read.

    Raises:
        UsageError: They do not.
    """
    if args.draw and not args.images:
        raise UsageError("--draw has no picture to draw on", hint="add --image FILE")
    for flag in ("draw", "output"):
        if getattr(args, flag) and len(args.images) > 1:
            raise UsageError(
                f"--{flag} keeps one file, and there are {len(args.images)} pictures",
                hint="run them one by one",
            )


def check_weights(artifact: Artifact) -> None:
    """Refuse to name what a model with random weights finds.

    Raises:
        UsageError: The artifact's weights are random.
    """
    from enginebay.models import RANDOM_WEIGHTS

    if artifact.manifest.weights == RANDOM_WEIGHTS:
        raise UsageError(
            f"the weights of '{artifact.path}' are {RANDOM_WEIGHTS}: what it finds means nothing",
            hint="deploy with --pretrained or --weights FILE; --allow-random-weights names it "
            "all the same",
        )


class ItemRun:
    """Files that an artifact is to be run on, preprocessed.

    Args:
        artifact: It has a task.
        files: The files.
        given: The model's other inputs.
        drawing: The file to draw on; None for none.

    Raises:
        UsageError: It has no task, an input is missing or given twice, or the task cannot draw.
        InputError: A file cannot be read.
        MissingDependencyError: No installed plugin declares the task's kind.
    """

    def __init__(
        self,
        artifact: Artifact,
        files: Sequence[Path],
        given: Mapping[str, Any],
        drawing: Path | None,
    ) -> None:
        self._task = _task(artifact)
        if drawing:
            self._task.check_drawing(drawing)
        # All of them are read first: a broken one is met before the engine is loaded.
        self._items = [(file, self._task.preprocess(file)) for file in files]
        names = list(self._items[0][1])
        for name in names:
            if name in given or "" in given:
                raise UsageError(f"--image and --input both give the input '{name}'")
        for spec in artifact.inputs:
            if spec.name not in (*names, *given):
                raise UsageError(
                    f"the model also takes {spec.describe()}", hint=f"add --input {spec.name}=…"
                )
        self._given = given

    def run(self, wrapper: Wrapper) -> Iterator[Seen]:
        """Run the artifact on each file."""
        from enginebay.tensors import inputs_for

        for file, made in self._items:
            outputs = wrapper(inputs_for(wrapper.inputs, {**self._given, **made}))
            yield Seen(file, self._task.read_outputs(outputs, file), outputs)

    def draw(self, seen: Seen, path: Path) -> None:
        """Write a file with what was found in it."""
        self._task.draw(seen.file, seen.found, path)


def _task(artifact: Artifact) -> Task:
    task = artifact.task
    if task is None:
        raise UsageError(
            f"'{artifact.path}' was made without a task, so nothing says how a picture becomes its "
            "input",
            hint="deploy the model again with --task FILE.json",
        )
    return task


def item_document(seen: Sequence[Seen]) -> list[dict[str, Any]]:
    """Return what was found as plain JSON values."""
    import msgspec

    return [{"image": str(one.file), "found": msgspec.to_builtins(one.found)} for one in seen]


def print_found(seen: Sequence[Seen]) -> None:
    """Print a row for each thing that was found, with a column for each of its fields."""
    rows = [(one["image"], each) for one in item_document(seen) for each in one["found"]]
    fields = list(rows[0][1]) if rows else []
    print_table(
        ("IMAGE", *map(str.upper, fields)),
        [(file, *map(_cell, each.values())) for file, each in rows],
        right=tuple(name.upper() for name in fields if not isinstance(rows[0][1][name], str)),
    )


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
