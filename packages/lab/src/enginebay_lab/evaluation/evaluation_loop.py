"""The loop over a data set: each item is read once, and runs through PyTorch and every engine."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, IsolationError, raise_if_interrupted
from enginebay_lab.evaluation.engine_process import EngineProcess, ItemError
from enginebay_lab.evaluation.shard_accumulator import ShardAccumulator
from enginebay_lab.evaluation.shards import SHARD_ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors.sources import Item
    from enginebay_lab.evaluation.evaluation_run import EvaluationRun
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject
    from enginebay_lab.evaluation.item_reader import ItemReader
    from enginebay_lab.evaluation.reference import TorchModel
    from enginebay_lab.evaluation.shard_accumulator import Outputs
    from enginebay_lab.evaluation.shards import Shard


class EvaluationLoop:
    """A context manager that runs items through PyTorch and engines; on exit, ends the engines.

    Args:
        run: The artifacts, metrics and data of the evaluation.
        timeout: Time limit in seconds for loading an engine, and for each chunk of items.
    """

    def __init__(self, run: EvaluationRun, *, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._engines: dict[str, EngineProcess] = {}
        self._stack = ExitStack()
        self._model: TorchModel | None = None
        self._current = ShardAccumulator(run, (), has_model=False)

    def __enter__(self) -> EvaluationLoop:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def start_engines(self, subjects: Sequence[EvaluationSubject]) -> None:
        """Start the engines that do not run yet; do not wait until they are loaded."""
        for subject in subjects:
            if subject.name not in self._engines:
                engine = EngineProcess(subject.request, self._timeout)
                self._stack.callback(engine.close)
                self._engines[subject.name] = engine

    def begin(
        self, model: TorchModel | None, start: int = 0, lost: Mapping[str, str] | None = None
    ) -> None:
        """Begin an evaluation with the engines that were started.

        Args:
            model: The PyTorch model; None to evaluate only the artifacts.
            start: The index of the first item.
            lost: The errors of artifacts whose engines failed on earlier items, by the artifacts'
                names.
        """
        self._model = model
        has_model = model is not None
        self._current = ShardAccumulator(self._run, self._engines, start, has_model=has_model)
        for name, reason in (lost or {}).items():
            self._drop_engine(name, reason)

    def restore(self, shard: Shard) -> None:
        """Load an incomplete shard (results on a range of items); continue after its last item."""
        for name in shard.lost.keys() - self._current.lost.keys():  # failed in the earlier run
            self._drop_engine(name, shard.lost[name])
        self._current.merge(shard)

    def evaluate_shards(
        self, reader: ItemReader, watch: Callable[[int], None] | None = None
    ) -> Iterator[Shard]:
        """Evaluate the remaining items, and yield the results of each shard (range of items).

        Args:
            reader: The reader of the items.
            watch: Called after each chunk with the number of items read so far.

        Raises:
            InputError: An item does not fit the inputs.
            ModelError: The model raised.
            MetricError: A metric raised on PyTorch's outputs.
        """
        for chunk in reader.read_chunks():
            raise_if_interrupted()  # code of a metric or a model may have caught Ctrl-C
            start = time.monotonic()
            expected, outputs = self._run_chunk(chunk)
            done = 0
            while done < len(chunk):  # a chunk may span several shards
                part = slice(done, done + SHARD_ITEMS - self._current.count)
                parts = {name: chunk_outputs[part] for name, chunk_outputs in outputs.items()}
                self._current.add(chunk[part], expected and expected[part], parts)
                done = part.stop
                if self._current.count == SHARD_ITEMS:
                    yield self._finish_shard(reader)
            reader.adapt_chunks(time.monotonic() - start)  # includes the time of slow metrics
            if watch is not None:
                watch(reader.count)
        if self._current.count:
            yield self._finish_shard(reader)

    def incomplete_shard(self, reader: ItemReader) -> Shard:
        """Return the results on the items after the last complete shard (range of items)."""
        first = self._current.start
        return self._current.to_shard(reader.item_digests(first, first + self._current.count))

    def _finish_shard(self, reader: ItemReader) -> Shard:
        shard = self.incomplete_shard(reader)
        self._current.start_next()
        return shard

    def _run_chunk(self, chunk: Sequence[Item]) -> tuple[Outputs | None, dict[str, Outputs]]:
        """Run items through PyTorch and each engine; end engines that fail.

        Return PyTorch's outputs, if any, and the engines' outputs by the artifacts' names.
        """
        inputs = [item.inputs for item in chunk]
        # A small model runs in one thread, and leaves the other cores to the engines.
        overlap = self._model is not None and self._model.is_single_threaded(chunk[0])
        if overlap:
            for engine in self._engines.values():
                engine.send_inputs(inputs)
        expected = None if self._model is None else self._model.outputs(chunk)
        outputs: dict[str, Outputs] = {}
        for name, engine in list(self._engines.items()):  # a copy: a failed engine is removed
            try:
                if not overlap:
                    engine.send_inputs(inputs)
                outputs[name] = engine.receive_outputs()
            except EnginebayError as err:  # the other artifacts are evaluated further
                data = self._run.data.description
                self._drop_engine(name, _describe_loss(err, engine.backend, chunk, data))
        return expected, outputs

    def _drop_engine(self, name: str, reason: str) -> None:
        self._current.lost[name] = reason
        self._engines.pop(name).close()


def _describe_loss(err: EnginebayError, backend: str, chunk: Sequence[Item], data: str) -> str:
    if isinstance(err, ItemError):
        return f"item {chunk[err.index].number} of {data}: {err}"
    # The ending alone: the message also contains the last output of the process.
    return (
        f"'{backend}' {err.ending}" if isinstance(err, IsolationError) and err.ending else str(err)
    )
