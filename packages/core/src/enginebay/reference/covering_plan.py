"""Recording of the probe inputs: first what varies alone, then each two variations together.

Mistakes hide where two variations meet: an engine that takes the mask of the first row for all rows
is right for any mask at a batch of 1, and for any batch with a mask of ones.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from enginebay.reference.pairwise import cover_pairs
from enginebay.reference.probes import REDRAWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.reference.probes import Level, Probe, ProbeGenerator
    from enginebay.reference.recorder import Recorder
    from enginebay.tensors import Sample

#: Sizes of which a model may take multiples only.
_GRAINS = (2, 4, 8, 16, 32, 64)

#: The largest number of combinations, of single sizes, and the bytes of their inputs and outputs,
#: since the artifact contains them. Their time together has the budget of one run at a larger size.
_MAX_COMBINATIONS = 48
_MAX_SIZES = 32
_MAX_BYTES = 8 << 20


def record_plan(recorder: Recorder, generator: ProbeGenerator) -> None:
    """Record the model's outputs for all probe inputs that ``generator`` draws.

    Raises:
        ModelError: The model fails at a size for which it is deployed.
    """
    refused = []
    for probe in generator.draw_all():
        recorder.record_probe(probe)
        if probe.label not in recorder.labels and _grows(probe, recorder.model.example_shapes):
            refused.append(probe)
    # A model that refuses random values refuses them at any size.
    if REDRAWN not in recorder.labels:
        return
    grain = _record_multiples(recorder, generator, refused) if refused else 1
    _record_combinations(recorder, generator, grain)


def _grows(probe: Probe, usual: Mapping[str, tuple[int, ...]]) -> bool:
    """Return True if a size is larger than the example's.

    A smaller size that is refused may be too small, whatever it is a multiple of.
    """
    pairs = (zip(array.shape, usual[name], strict=True) for name, array in probe.inputs.items())
    return any(size > known for sizes in pairs for size, known in sizes)


def _record_multiples(
    recorder: Recorder, generator: ProbeGenerator, refused: Sequence[Probe]
) -> int:
    """Record multiples of a number near the refused sizes; return the number, or else 1."""
    first, *others = refused
    dropped = dict(recorder.dropped)
    for grain in _GRAINS:
        near = generator.draw_near(first, grain)
        if near is None or not _is_accepted(recorder, near):
            continue
        for probe in refused:
            del dropped[probe.label]
        reason = f"{recorder.dropped[first.label]}; multiples of {grain} are tried instead"
        recorder.dropped = {**dropped, first.label: reason}
        for probe in others:
            if (near := generator.draw_near(probe, grain)) is not None:
                _is_accepted(recorder, near)
        return grain
    recorder.dropped = dropped
    return 1


def _is_accepted(recorder: Recorder, probe: Probe) -> bool:
    if probe.label not in recorder.labels:
        recorder.record_probe(probe)
    return probe.label in recorder.labels


def _record_combinations(recorder: Recorder, generator: ProbeGenerator, grain: int) -> None:
    """Record each two variations together, the cheapest first, then the sizes that are left.

    The budget is for all of them: a quick model is run at every small size.
    """
    factors = generator.factors(recorder.labels, grain)
    usual: dict[str, Level] = {name: levels[0] for name, levels in factors.items()}
    pairs = cover_pairs(factors, [{**usual, **row} for row in recorder.rows])
    rows = [*islice(pairs, recorder.effort * _MAX_COMBINATIONS)]
    seen = {item for row in (*recorder.rows, *rows) for item in row.items()}
    sizes = ({**usual, name: size} for name, size in generator.single_sizes(grain, seen))
    dropped, spent, stored = dict(recorder.dropped), 0.0, 0
    for row in (*rows, *islice(sizes, recorder.effort * _MAX_SIZES)):
        if spent >= 1 or stored >= recorder.effort * _MAX_BYTES:
            break
        changed = {name: level for name, level in row.items() if level != usual[name]}
        values = {name: level for name, level in changed.items() if not name.endswith("=")}
        # Where the model refuses the sizes, the values may still go together.
        attempts = [changed, values] if len(values) > 1 and values != changed else [changed]
        for attempt in filter(None, attempts):
            is_accepted = _is_accepted(recorder, generator.draw_row(attempt))
            spent += recorder.cost
            if is_accepted:
                stored += _count_bytes(recorder.samples[-1])
                break
    refused = [item for item in recorder.dropped.items() if item[0] not in dropped]
    if refused:
        count = f"{len(refused)} combination{'' if len(refused) == 1 else 's'}"
        first = ": ".join(refused[0])
        recorder.dropped = {**dropped, f"{count} of values and sizes": f"such as {first}"}


def _count_bytes(sample: Sample) -> int:
    return sum(array.nbytes for array in (*sample.inputs.values(), *sample.outputs.values()))
