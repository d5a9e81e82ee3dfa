"""Metrics of torchmetrics, which take tensors."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from enginebay.environment import installed_version
from enginebay.errors import InputError, MissingDependencyError, UsageError, first_line, nearest

if TYPE_CHECKING:
    from collections.abc import Callable


def named_metric(name: str) -> Callable[[], Any]:
    """Find a metric of torchmetrics by its class's name.

    Args:
        name: ``MeanSquaredError``, or with arguments ``MulticlassF1Score(num_classes=10)``.

    Returns:
        A function that builds it.

    Raises:
        MissingDependencyError: torchmetrics is not installed.
        UsageError: It has no such metric, or the arguments are none.
    """
    try:
        import torchmetrics
        import torchmetrics.classification
    except ImportError as err:
        raise MissingDependencyError(
            f"'torchmetrics' is needed for this metric and does not import: {err}",
            hint="pip install 'enginebay-lab[metrics]'",
        ) from err
    called, arguments = _parsed(name)
    known: dict[str, Any] = {**vars(torchmetrics), **vars(torchmetrics.classification)}
    metrics = {key for key, value in known.items() if _is_class(value)}
    if called not in metrics:
        close = nearest(called, metrics)
        raise UsageError(
            f"torchmetrics {installed_version('torchmetrics')} has no metric '{called}'",
            hint=f"did you mean 'torchmetrics:{close}'?" if close else None,
        )

    def build() -> Any:
        try:
            return known[called](**arguments)
        except (TypeError, ValueError) as err:
            signature = inspect.signature(known[called].__init__)
            names = [one for one in signature.parameters if one not in ("self", "kwargs")]
            raise UsageError(
                f"'torchmetrics:{name}' cannot be built: {first_line(err)}",
                hint=f"write torchmetrics:{called}(NAME=VALUE); it takes {', '.join(names)}",
            ) from err

    return build


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """The name, and the keyword arguments in parentheses behind it: numbers, texts, lists."""
    import ast

    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            return node.func.id, {
                str(word.arg): ast.literal_eval(word.value) for word in node.keywords
            }
    except (SyntaxError, ValueError):
        pass
    raise UsageError(
        f"'torchmetrics:{text}' names no metric",
        hint="write torchmetrics:NAME, or torchmetrics:NAME(num_classes=10)",
    )


def _is_class(value: Any) -> bool:
    import torchmetrics

    return isinstance(value, type) and issubclass(value, torchmetrics.Metric)


def is_torch_metric(metric: Any) -> bool:
    """True for a metric of torchmetrics; imports nothing."""
    return any(kind.__module__.partition(".")[0] == "torchmetrics" for kind in type(metric).__mro__)


class TorchMetric:
    """A metric of torchmetrics as one that takes arrays.

    Outputs and targets become tensors. A target that is one number becomes a tensor with one
    entry, since torchmetrics counts along the first axis.
    """

    def __init__(self, metric: Any) -> None:
        self._metric = metric
        self.higher_is_better = metric.higher_is_better
        self.reset = metric.reset

    def update(self, outputs: Any, target: Any) -> None:
        """Add an item."""
        self._metric.update(_tensors(outputs), _tensors(target))

    def compute(self) -> Any:
        """The value over all items."""
        import warnings

        with warnings.catch_warnings():
            # After merge_state it thinks that nothing was added.
            warnings.filterwarnings("ignore", ".*called before the ``update`` method.*")
            return self._metric.compute()

    @property
    def unmergeable(self) -> str:
        """Why the items of two of these cannot be put together; empty where they can."""
        import torchmetrics

        metric = self._metric
        if type(metric).merge_state is not torchmetrics.Metric.merge_state:
            return ""  # its own
        if metric.full_state_update is not False or metric.dist_sync_on_step:
            return "torchmetrics does not merge its states"
        if any(isinstance(each, torchmetrics.Metric) for each in list(metric.modules())[1:]):
            return "it is made of other metrics"
        # torchmetrics has no public way to the states' reductions.
        for name, default in metric._defaults.items():
            if not _joined(metric._reductions[name], default, default):
                return f"nothing says how its state '{name}' is merged"
        return "" if metric._defaults else "it keeps no state"

    @property
    def metric_state(self) -> dict[str, Any]:
        """The tensors that it keeps, or lists of them."""
        state: dict[str, Any] = self._metric.metric_state
        return state

    def merge_state(self, state: dict[str, Any]) -> None:
        """Add another metric's items behind its own.

        Not with ``merge_state`` of torchmetrics 1.9, which puts the others' items in front.
        """
        import torchmetrics

        given = {name: _as_tensors(value) for name, value in state.items()}
        metric = self._metric
        if type(metric).merge_state is not torchmetrics.Metric.merge_state:
            metric.merge_state(given)
            return
        for name, reduction in metric._reductions.items():
            (joined,) = _joined(reduction, getattr(metric, name), given[name])
            setattr(metric, name, joined)


def _joined(reduction: Any, own: Any, other: Any) -> tuple[Any, ...]:
    """Two states as one; empty where the reduction is not known to be exact for any split."""
    import torch
    from torchmetrics.utilities import data

    if isinstance(own, list):
        return ([*own, *other],) if reduction in (None, data.dim_zero_cat) else ()
    if reduction is data.dim_zero_sum:
        return (own + other,)
    if reduction is data.dim_zero_max:
        return (torch.max(own, other),)
    if reduction is data.dim_zero_min:
        return (torch.min(own, other),)
    return ()


def _as_tensors(value: Any) -> Any:
    import torch

    return (
        [torch.as_tensor(each) for each in value]
        if isinstance(value, list)
        else torch.as_tensor(value)
    )


def _tensors(values: Any) -> Any:
    import numpy as np

    from enginebay.authors import is_torch, to_torch

    if isinstance(values, dict):
        return {name: _tensors(value) for name, value in values.items()}
    if values is None or is_torch(values):
        return values
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "biufcV":
        raise InputError(f"it takes tensors, and found {array.dtype}")
    return to_torch(array if array.flags.writeable else array.copy())
