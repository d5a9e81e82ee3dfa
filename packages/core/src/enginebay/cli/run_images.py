"""``enginebay run ARTIFACT --image cat.png``: what the model sees in pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.cli.output import print_table
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay.artifact import Artifact
    from enginebay.images import Box, RankedClass, Task
    from enginebay.inference import Wrapper
    from enginebay.tensors import NumpyArray


class Seen(NamedTuple):
    """What the model sees in one picture."""

    image: Path
    found: Sequence[Box | RankedClass]
    outputs: dict[str, NumpyArray]


def add_image_arguments(parser: ArgumentParser) -> None:
    """Add ``--image`` and ``--draw``."""
    parser.add_argument(
        "--image",
        dest="images",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="run on a picture, preprocessed as the artifact's task says, and print the five best "
        "classes, or the objects in it (repeatable)",
    )
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FILE.png",
        help="write the picture with boxes and names on it to this file",
    )


def check_image_flags(args: Namespace) -> None:
    """Refuse flags that do not go together, before anything is read.

    Raises:
        UsageError: They do not, or the file of ``--draw`` cannot be written.
        MissingDependencyError: Pillow is not installed.
    """
    if args.draw and not args.images:
        raise UsageError("--draw has no picture to draw on", hint="add --image FILE")
    for flag in ("draw", "output"):
        if getattr(args, flag) and len(args.images) > 1:
            raise UsageError(
                f"--{flag} keeps one file, and there are {len(args.images)} pictures",
                hint="run them one by one",
            )
    if args.images:
        from enginebay.images import check_drawing, pillow

        pillow()
        if args.draw:
            check_drawing(args.draw)


class ImageRun:
    """Pictures that an artifact is to be run on, preprocessed.

    Args:
        artifact: It has a task.
        images: The pictures' files.
        given: The model's other inputs.

    Raises:
        UsageError: It has no task, or an input is missing or given twice.
        InputError: A picture cannot be read.
    """

    def __init__(
        self, artifact: Artifact, images: Sequence[Path], given: Mapping[str, Any]
    ) -> None:
        self.task = _task(artifact)
        name = self.task.image.input
        if name in given or "" in given:
            raise UsageError(f"--image and --input both give the input '{name}'")
        for spec in artifact.inputs:
            if spec.name not in (name, *given):
                raise UsageError(
                    f"the model also takes {spec.describe()}", hint=f"add --input {spec.name}=…"
                )
        from enginebay.images import open_image

        self._given = given
        # All of them are read first: a broken one is met before the engine is loaded.
        self._pictures = [(path, open_image(path)) for path in images]

    def run(self, wrapper: Wrapper) -> Iterator[Seen]:
        """Run the artifact on each picture."""
        from enginebay.images import ImageClassification, ObjectDetection
        from enginebay.tensors import inputs_for

        for path, picture in self._pictures:
            inputs = {**self._given, **self.task.preprocess(picture)}
            outputs = wrapper(inputs_for(wrapper.inputs, inputs))
            found: Sequence[Box | RankedClass] = ()
            if isinstance(self.task, ImageClassification):
                found = self.task.postprocess(outputs)
            elif isinstance(self.task, ObjectDetection):
                found = self.task.postprocess(outputs, picture.size)
            yield Seen(path, found, outputs)


def _task(artifact: Artifact) -> Task:
    if artifact.task is None:
        raise UsageError(
            f"'{artifact.path}' was made without a task, so nothing says how a picture becomes its "
            "input",
            hint="deploy the model again with --task FILE.json",
        )
    return artifact.task


def image_document(seen: Sequence[Seen]) -> list[dict[str, Any]]:
    """Return what was seen as plain JSON values."""
    import msgspec

    return [{"image": str(one.image), "found": msgspec.to_builtins(one.found)} for one in seen]


def print_seen(seen: Sequence[Seen], task: Task) -> None:
    """Print a row for each class or box."""
    from enginebay.images import ObjectDetection

    if isinstance(task, ObjectDetection):
        edges = ("left", "top", "right", "bottom")
        figures: dict[str, str] = {"score": ".4f", **dict.fromkeys(edges, ".1f")}
    else:
        figures = {"probability": ".4f"}
    print_table(
        ("IMAGE", "CLASS", *map(str.upper, figures)),
        [
            (str(one.image), each.name, *(format(getattr(each, n), f) for n, f in figures.items()))
            for one in seen
            for each in one.found
        ],
        right=tuple(map(str.upper, figures)),
    )
