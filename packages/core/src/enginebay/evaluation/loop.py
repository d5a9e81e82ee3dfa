"""The loop: each item is read once, and passes through PyTorch and every artifact."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import EnginebayError, InputError, ModelError
from enginebay.evaluation.chunks import Reader, fingerprint
from enginebay.evaluation.engine import PLACE, Engine
from enginebay.evaluation.rows import Row
from enginebay.evaluation.tally import Tally
from enginebay.interruption import raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.data import Item
    from enginebay.evaluation.journal import Journal
    from enginebay.evaluation.run import Candidate, Run
    from enginebay.tensors import NumpyArray

    Runner = Callable[[Mapping[str, NumpyArray]], dict[str, NumpyArray]]

#: Seconds that PyTorch may take for an item so that the engines run meanwhile. Neither has work for
#: several threads then; otherwise they take turns, as threads that wait for one another spin.
QUICK = 1e-3
#: Ends what an engine's error says first, before what its process printed last.
_SAID = ("; the last it said", "; it said nothing")


class Loop:
    """One pass over the items; a context in which the engines run.

    Args:
        run: What is evaluated.
        timeout: Seconds that an engine may take to load, and for each chunk of items.

    Attributes:
        reference: What is known of PyTorch.
        lost: Why an artifact is lost, by its name.
    """

    def __init__(self, run: Run, *, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._candidates: Sequence[Candidate] = ()
        self._engines: dict[str, Engine] = {}
        self._tallies: dict[str, Tally] = {}
        self._stack = ExitStack()
        self._quick = False
        self.reference: Tally | None = None
        self.lost: dict[str, str] = {}

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def start(self, candidates: Sequence[Candidate]) -> None:
        """Start the engines of these artifacts; does not wait for them."""
        self._candidates = candidates
        for candidate in candidates:
            engine = Engine(candidate.request, self._timeout)
            self._stack.callback(engine.close)
            self._engines[candidate.name] = engine

    def run(self, model: Runner | None, watch: Callable[[int], None]) -> None:
        """Evaluate every item.

        Args:
            model: Runs PyTorch on inputs by the artifacts' names; None for none.
            watch: Called with the number of items so far.

        Raises:
            InputError: An item does not fit.
            ModelError: The model raised.
            MetricError: A metric raised on PyTorch's outputs.
        """
        self._reset(model)
        data, journal = self._run.data, self._run.journal
        skipped = self._resume(journal) if journal else 0
        reader = Reader(data, self._run.inputs, skipped, self._run.unused)
        for chunk in reader.chunks():
            raise_if_interrupted()
            start = time.monotonic()
            self._add(chunk, model)
            reader.adapt(time.monotonic() - start)
            watch(reader.count)
            if journal and journal.is_due:
                journal.save(reader.count, reader.digest, self._states())
        self._run.digest = reader.digest

    def _reset(self, model: Runner | None) -> None:
        sources, name = self._run.sources, self._run.data.description
        kept = model is not None
        self.reference = Tally(sources, name) if kept else None
        self._tallies = {
            each.name: Tally(sources, name, keep_errors=kept) for each in self._candidates
        }

    def _resume(self, journal: Journal) -> int:
        """Go on from a checkpoint, if its items are still these; returns how many they are."""
        found = journal.start(self._run.key(self._candidates))
        if found is None:
            return 0
        if fingerprint(self._run.data, self._run.inputs, found.count) != found.digest:
            return 0
        states = found.state
        self.lost = dict(states["lost"])
        for name in self.lost:
            self._engines.pop(name).close()
        for name, tally in self._tallies.items():
            tally.restore(states["artifacts"][name])
        if self.reference:
            self.reference.restore(states["reference"])
        return found.count

    def _states(self) -> dict[str, Any] | None:
        """What another run can go on from; None where a metric does not say."""
        states = {name: tally.state for name, tally in self._tallies.items()}
        reference = self.reference.state if self.reference else {}
        if reference is None or None in states.values():
            return None
        return {"lost": self.lost, "artifacts": states, "reference": reference}

    def _add(self, chunk: Sequence[Item], model: Runner | None) -> None:
        inputs = [item.inputs for item in chunk]
        overlap = self._quick
        if overlap:
            for engine in self._engines.values():
                engine.begin(inputs)
        start = time.monotonic()
        expected = None
        if model is not None:
            with _one_thread() if overlap else nullcontext():
                expected = [_expected(model, item) for item in chunk]
        self._quick = model is not None and time.monotonic() - start < QUICK * len(chunk)
        if expected is not None and self.reference is not None:
            self.reference.add(chunk, expected)
            self.reference.compare(chunk, expected, expected)
        for name, engine in list(self._engines.items()):
            try:
                if not overlap:
                    engine.begin(inputs)
                outputs = engine.finish()
            except EnginebayError as err:
                self.lost[name] = _reason(err, chunk, self._run.data.description)
                self._engines.pop(name).close()
                continue
            self._tallies[name].add(chunk, outputs)
            if expected is not None:
                self._tallies[name].compare(chunk, outputs, expected)

    def rows(self, candidate: Candidate) -> list[Row]:
        """The rows of an artifact, without their key."""
        tally = self._tallies[candidate.name]
        return [self._row(candidate, source.name, tally) for source in self._run.sources]

    def _row(self, candidate: Candidate, metric: str, tally: Tally) -> Row:
        row = Row(artifact=candidate.name, backend=candidate.request.backend, metric=metric)
        reference = self.reference.value(metric) if self.reference else None
        replace = msgspec.structs.replace
        row = replace(row, reference=reference, count=tally.count)
        if candidate.name in self.lost:
            return replace(row, error=self.lost[candidate.name])
        value = tally.value(metric)
        return replace(
            row,
            value=value,
            drop=tally.meters[metric].drop(value, reference),
            agreement=tally.agreement,
            worst=tally.worst,
            error=tally.errors.get(metric, ""),
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run PyTorch in one thread: small items gain nothing by more, and engines need the others."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _expected(run: Runner, item: Item) -> dict[str, NumpyArray]:
    try:
        return run(item.inputs)
    except ModelError as err:
        raise ModelError(f"item {item.number}: {err}", hint=err.hint) from err
    except InputError as err:
        raise InputError(f"item {item.number}: {err}", hint=err.hint) from err


def _reason(err: EnginebayError, chunk: Sequence[Item], data: str) -> str:
    """Why an engine is lost, in one line, with the number of the item in the source."""
    text = str(err)
    for said in _SAID:
        text = text.partition(said)[0]
    if text.startswith(PLACE):
        place, _, rest = text.removeprefix(PLACE).partition(": ")
        return f"item {chunk[int(place)].number} of {data}: {rest}"
    return text
