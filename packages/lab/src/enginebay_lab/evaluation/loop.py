"""The loop: each item is read once, and passes through PyTorch and every artifact."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, IsolationError, raise_if_interrupted
from enginebay_lab.evaluation.engine import Engine, ItemError
from enginebay_lab.evaluation.shards import SHARD
from enginebay_lab.evaluation.totals import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Item
    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.chunks import Reader
    from enginebay_lab.evaluation.reference import TorchModel
    from enginebay_lab.evaluation.run import Run
    from enginebay_lab.evaluation.shards import Shard
    from enginebay_lab.evaluation.totals import Outputs


class Loop:
    """A context in which the engines run.

    Args:
        run: What is evaluated.
        timeout: Seconds that an engine may take to load, and for each chunk of items.
    """

    def __init__(self, run: Run, *, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._engines: dict[str, Engine] = {}
        self._stack = ExitStack()
        self._model: TorchModel | None = None
        self._open = Tallies(run, (), compared=False)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def start(self, candidates: Sequence[Candidate]) -> None:
        """Start the engines of these artifacts, but for those that run; does not wait for them."""
        for candidate in candidates:
            if candidate.name not in self._engines:
                engine = Engine(candidate.request, self._timeout)
                self._stack.callback(engine.close)
                self._engines[candidate.name] = engine

    def begin(
        self, model: TorchModel | None, start: int = 0, lost: Mapping[str, str] | None = None
    ) -> None:
        """Begin to evaluate with the engines that run.

        Args:
            model: The PyTorch model; None for none.
            start: The place of the first item.
            lost: Why an artifact is lost, by its name.
        """
        self._model = model
        self._open = Tallies(self._run, self._engines, start, compared=model is not None)
        for name, reason in (lost or {}).items():
            self._lose(name, reason)

    def restore(self, shard: Shard) -> None:
        """Go on behind the first items of a shard."""
        for name in shard.lost.keys() - self._open.lost.keys():
            self._lose(name, shard.lost[name])
        self._open.merge(shard)

    def shards(self, reader: Reader, watch: Callable[[int], None] | None = None) -> Iterator[Shard]:
        """Evaluate the items that are left.

        Args:
            reader: Reads the items.
            watch: Called after each chunk with the number of items that were read.

        Raises:
            InputError: An item does not fit.
            ModelError: The model raised.
            MetricError: A metric raised on PyTorch's outputs.
        """
        for chunk in reader.chunks():
            raise_if_interrupted()
            start = time.monotonic()
            expected, outputs = self._outputs(chunk)
            at = 0
            while at < len(chunk):
                part = slice(at, at + SHARD - self._open.count)
                found = {name: each[part] for name, each in outputs.items()}
                self._open.add(chunk[part], expected and expected[part], found)
                at = part.stop
                if self._open.count == SHARD:
                    yield self._closed(reader)
            reader.adapt(time.monotonic() - start)
            if watch is not None:
                watch(reader.count)
        if self._open.count:
            yield self._closed(reader)

    def open_shard(self, reader: Reader) -> Shard:
        """What was found since the last whole shard."""
        first = self._open.start
        return self._open.shard(reader.digests(first, first + self._open.count))

    def _closed(self, reader: Reader) -> Shard:
        shard = self.open_shard(reader)
        self._open.advance()
        return shard

    def _outputs(self, chunk: Sequence[Item]) -> tuple[Outputs | None, dict[str, Outputs]]:
        """PyTorch's outputs, and those of each engine; engines that fail are lost."""
        inputs = [item.inputs for item in chunk]
        overlap = self._model is not None and self._model.leaves_cores(chunk[0])
        if overlap:
            for engine in self._engines.values():
                engine.begin(inputs)
        expected = None if self._model is None else self._model.outputs(chunk)
        found: dict[str, Outputs] = {}
        for name, engine in list(self._engines.items()):
            try:
                if not overlap:
                    engine.begin(inputs)
                found[name] = engine.finish()
            except EnginebayError as err:
                self._lose(name, _reason(err, engine.backend, chunk, self._run.data.description))
        return expected, found

    def _lose(self, name: str, reason: str) -> None:
        self._open.lost[name] = reason
        self._engines.pop(name).close()


def _reason(err: EnginebayError, backend: str, chunk: Sequence[Item], data: str) -> str:
    """Why an engine is lost, in one line, with the number of the item in the source."""
    if isinstance(err, ItemError):
        return f"item {chunk[err.index].number} of {data}: {err}"
    return (
        f"'{backend}' {err.ending}" if isinstance(err, IsolationError) and err.ending else str(err)
    )
