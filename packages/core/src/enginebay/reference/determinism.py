"""Checks that a model's outputs depend on its inputs, and not on hidden state or randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ModelError
from enginebay.reference.probes import ProbeGenerator, ProbeSettings
from enginebay.tensors import equal_arrays
from enginebay.verification import ToleranceOptions, compare_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.comparators import Comparator
    from enginebay.models import BoundModel
    from enginebay.reference.probes import Domain
    from enginebay.state import ModelState
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: The tolerance for two runs of a model that draws random numbers. It is small: two such runs may
#: be close by chance, while an engine's run is further off.
RANDOM_RUNS = ToleranceOptions(rtol=2.0**-16)

#: The start of the doubt about a model that keeps state.
HIDDEN_STATE = "the outputs depend on earlier runs"

#: The largest number of parameters, buffers and attributes with state that the verdict names.
_MAX_NAMED = 3


def find_hidden_state(
    model: BoundModel, state: ModelState | None, domain: Domain, comparators: Sequence[Comparator]
) -> str:
    """Return the names of tensors and attributes that runs change and later outputs depend on.

    The result is one text, "" if there are none. A parameter that a run has changed is named even
    if no output depends on it. State that changes in every run is named if any bit of an output
    changes with it: a mean that moves by 1e-5 a run goes far. The check generates inputs within
    ``domain`` (bounds by input name).
    """
    if state is None:
        return ""
    if written := state.changed_parameters():
        return ", ".join(written[:_MAX_NAMED])
    if not (changed := state.changed()):
        return ""
    inputs = ProbeGenerator(model.examples, ProbeSettings(domain=domain)).draw_similar().inputs
    current = state.record_again()
    try:
        afterwards = model.run(inputs)
        between = state.record_again()
        again = model.run(inputs)
        moving = between.changed()
        restored_runs = []
        for _ in range(2):
            state.restore()
            restored_runs.append(model.run(inputs))
    except ModelError:  # the model does not accept the drawn values
        return ""
    finally:
        # The check must not change the model that is deployed.
        current.restore()
    first, second = restored_runs
    # A difference between two runs from the same state is due to chance, not to the state.
    is_random = bool(describe_difference(first, second, ToleranceOptions(), comparators))
    differs = bool(describe_difference(first, afterwards, ToleranceOptions(), comparators))
    if differs and not is_random:
        return ", ".join(changed[:_MAX_NAMED])
    drifts = equal_arrays(first, second) and not equal_arrays(afterwards, again)
    return ", ".join(moving[:_MAX_NAMED]) if drifts else ""


def describe_difference(
    first: Arrays, second: Arrays, options: ToleranceOptions, comparators: Sequence[Comparator]
) -> str:
    """Describe the first output that differs between two runs; return "" if none does."""
    outputs = compare_sample(first, second, options, comparators).outputs
    return next((output.describe() for output in outputs if not output.passed), "")
