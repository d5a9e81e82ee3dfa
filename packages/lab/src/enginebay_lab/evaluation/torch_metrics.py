"""Metrics of torchmetrics, wrapped so that they take NumPy arrays."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from enginebay.environment import install_command, installed_version
from enginebay.errors import InputError, MissingDependencyError, UsageError, first_line, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor
    from torchmetrics import Metric


def find_torch_metric(name: str) -> Callable[[], Metric]:
    """Find a metric of torchmetrics by its class name.

    Args:
        name: A class name, or a call of the class: ``MulticlassF1Score(num_classes=10)``.

    Returns:
        A function that builds the metric.

    Raises:
        MissingDependencyError: torchmetrics is not installed.
        UsageError: torchmetrics has no metric of this name, or the arguments cannot be parsed.
    """
    try:
        import torchmetrics

        # Classes such as BinaryAccuracy and MulticlassF1Score are only in this module.
        import torchmetrics.classification
    except ImportError as err:
        raise MissingDependencyError(
            f"metric 'torchmetrics:{name}' requires torchmetrics, which cannot be imported: {err}",
            hint=install_command("enginebay-lab[metrics]"),
        ) from err
    class_name, arguments = _parse_call(name)
    known: dict[str, Any] = {**vars(torchmetrics), **vars(torchmetrics.classification)}
    metrics = {key for key, value in known.items() if _is_metric_class(value)}
    if class_name not in metrics:
        close = nearest(class_name, metrics)
        raise UsageError(
            f"torchmetrics {installed_version('torchmetrics')} has no metric '{class_name}'",
            hint=f"did you mean 'torchmetrics:{close}'?" if close else None,
        )

    def build_metric() -> Metric:
        try:
            return known[class_name](**arguments)
        except (TypeError, ValueError) as err:
            parameters = inspect.signature(known[class_name].__init__).parameters
            names = [name for name in parameters if name not in ("self", "kwargs")]
            raise UsageError(
                f"'torchmetrics:{name}' cannot be built: {first_line(err)}",
                hint=f"write torchmetrics:{class_name}(NAME=VALUE); arguments: {', '.join(names)}",
            ) from err

    return build_metric


def _parse_call(text: str) -> tuple[str, dict[str, object]]:
    """Parse a call of a class into the class name and keyword arguments, which must be literals."""
    import ast

    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            return node.func.id, {
                str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords
            }
    except (SyntaxError, ValueError):
        pass
    raise UsageError(
        f"'torchmetrics:{text}' is not the name of a metric",
        hint="write torchmetrics:NAME, or torchmetrics:NAME(num_classes=10)",
    )


def _is_metric_class(value: object) -> bool:
    import torchmetrics

    return isinstance(value, type) and issubclass(value, torchmetrics.Metric)


def is_torch_metric(metric: object) -> bool:
    """Return True for a metric of torchmetrics, without importing torchmetrics."""
    return any(kind.__module__.partition(".")[0] == "torchmetrics" for kind in type(metric).__mro__)


class TorchMetric:
    """Wraps a metric of torchmetrics, so that it accepts NumPy arrays.

    Outputs and targets are converted to tensors; a scalar becomes a tensor with one entry.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.higher_is_better = metric.higher_is_better
        self.reset = metric.reset

    def update(self, outputs: object, target: object) -> None:
        """Add the outputs and the target of an item to the metric."""
        self._metric.update(_to_tensors(outputs), _to_tensors(target))

    def compute(self) -> object:
        """Return the metric's value over all items."""
        import warnings

        with warnings.catch_warnings():
            # merge_state() does not count as an update.
            warnings.filterwarnings("ignore", ".*called before the ``update`` method.*")
            return self._metric.compute()

    @property
    def unmergeable(self) -> str:
        """The reason why the states of two instances cannot be merged; empty if they can be."""
        import torchmetrics

        metric = self._metric
        if type(metric).merge_state is not torchmetrics.Metric.merge_state:
            return ""  # the metric's own implementation
        # torchmetrics refuses to merge these metrics, but only when they are merged.
        if metric.full_state_update is not False or metric.dist_sync_on_step:
            return "torchmetrics does not merge its states"
        if any(isinstance(part, torchmetrics.Metric) for part in list(metric.modules())[1:]):
            return "it consists of other metrics"
        # torchmetrics has no public access to the states' reductions.
        for name, default in metric._defaults.items():
            if not _merge_values(metric._reductions[name], default, default):
                return f"the reduction of its state '{name}' depends on how the items are split"
        return "" if metric._defaults else "it has no state"

    @property
    def metric_state(self) -> dict[str, Tensor | list[Tensor]]:
        """The metric's state: tensors and lists of tensors, by name."""
        state: dict[str, Tensor | list[Tensor]] = self._metric.metric_state
        return state

    def merge_state(self, state: Mapping[str, object]) -> None:
        """Add the items of the instance whose :attr:`metric_state` is ``state``."""
        import torchmetrics

        tensors = {name: _state_tensors(value) for name, value in state.items()}
        metric = self._metric
        if type(metric).merge_state is not torchmetrics.Metric.merge_state:
            metric.merge_state(tensors)
            return
        # merge_state() of torchmetrics 1.9 puts the other instance's items first.
        for name, reduction in metric._reductions.items():
            (merged,) = _merge_values(reduction, getattr(metric, name), tensors[name])
            setattr(metric, name, merged)


def _merge_values(
    reduction: object, first: Tensor | list[Tensor], second: Any
) -> tuple[Tensor | list[Tensor], ...]:
    """Merge the values that two instances of a metric have for one state.

    Returns:
        A tuple with the merged value. The tuple is empty if the merged value could depend on how
        the items were split between the instances.
    """
    import torch
    from torchmetrics.utilities import data

    if isinstance(first, list):
        return ([*first, *second],) if reduction in (None, data.dim_zero_cat) else ()
    if reduction is data.dim_zero_sum:
        return (first + second,)
    if reduction is data.dim_zero_max:
        return (torch.max(first, second),)
    if reduction is data.dim_zero_min:
        return (torch.min(first, second),)
    return ()


def _state_tensors(value: object) -> Tensor | list[Tensor]:
    import torch

    return (
        [torch.as_tensor(entry) for entry in value]
        if isinstance(value, list)
        else torch.as_tensor(value)
    )


def _to_tensors(values: object) -> object:
    import numpy as np

    from enginebay.authors.arrays import is_torch, to_torch

    if isinstance(values, dict):
        return {name: _to_tensors(value) for name, value in values.items()}
    if values is None or is_torch(values):
        return values
    array = np.atleast_1d(np.asarray(values))  # torchmetrics counts items along the first axis
    if array.dtype.kind not in "biufcV":
        raise InputError(f"the metric accepts tensors, found an array of dtype {array.dtype}")
    return to_torch(array if array.flags.writeable else array.copy())  # torch warns if read-only
