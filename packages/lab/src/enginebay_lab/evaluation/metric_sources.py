"""Finds metrics by name or object: built-in metrics, Python objects, and metrics of plugins."""

from __future__ import annotations

import hashlib
import inspect
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.authors import contributed
from enginebay.authors.sources import named_object
from enginebay.errors import EnginebayError, UsageError, check_text, did_you_mean, first_line
from enginebay.hooks import MetricRequest
from enginebay_lab.evaluation.metrics import Cosine, MeanAbsoluteError, TopK
from enginebay_lab.evaluation.torch_metrics import TorchMetric, find_torch_metric, is_torch_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The methods that a metric must have.
_METHODS = ("update", "compute", "reset")

#: Builds each built-in metric, by its name.
_BUILT_IN: dict[str, Callable[[], object]] = {
    "accuracy": partial(TopK, 1),
    "top-5": partial(TopK, 5),
    "mean-absolute-error": MeanAbsoluteError,
    "cosine": Cosine,
}


class MetricSource(NamedTuple):
    """Builds the instances of one metric; each artifact gets a new instance.

    Attributes:
        name: The metric's name in results and messages.
        build: The function that returns a new instance.
        identity: The metric's name, followed by a digest of its source file and attributes.
        against: ``target`` if outputs are compared with targets, ``reference`` if with PyTorch's.
        unmergeable: The reason why the states of two instances cannot be merged; empty if they can
            be merged.
    """

    name: str
    build: Callable[[], Any]
    identity: str
    against: str
    unmergeable: str = ""


def find_metrics(metrics: object) -> list[MetricSource]:
    """Find metrics, and return a source (builder of instances) for each.

    Each metric is built once, to check its methods.

    Args:
        metrics: One metric, or a list of metrics. Each is a string as on the command line; an
            object with ``update``, ``compute`` and ``reset``; or a callable that returns such an
            object.

    Raises:
        UsageError: The list is empty, a metric is unknown or a method of a metric is missing, or
            two metrics have the same name.
        ModelSourceError: A metric's Python file or module cannot be imported.
        MissingDependencyError: A metric requires torchmetrics, which is not installed.
    """
    listed: Sequence[object] = metrics if isinstance(metrics, list | tuple) else [metrics]
    if not listed:
        raise UsageError("no metric to compute", hint=f"choose a metric: {', '.join(_BUILT_IN)}")
    sources = [_find_metric(metric) for metric in listed]
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two metrics are called '{name}'", hint="remove one of them")
    return sources


def _find_metric(metric: object) -> MetricSource:
    if not isinstance(metric, str):
        name = getattr(metric, "__qualname__", None) or type(metric).__qualname__
        return _make_source(name, metric)
    check_text(metric)
    if build := _built_in_metric(metric):
        return _make_source(metric, build)
    scheme, colon, name = metric.partition(":")
    if not colon:
        raise UsageError(
            f"unknown metric '{metric}'; available: {', '.join(_BUILT_IN)}, file.py:attr, "
            "torchmetrics:NAME, SCHEME:NAME of a plugin",
            hint=did_you_mean(metric, _BUILT_IN),
        )
    if scheme == "torchmetrics" and name.partition("(")[0].isidentifier():
        return _make_source(metric, find_torch_metric(name))
    plugins = contributed("metrics")
    if scheme in plugins:
        request = MetricRequest(name=name)
        return _make_source(metric, _call_builder(metric, lambda: plugins[scheme](request)))
    with named_object(metric) as imported:  # in the block, the metric can import its neighbours
        return _make_source(metric, imported)


def _built_in_metric(name: str) -> Callable[[], object] | None:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    prefix, _, number = name.partition("-")
    if prefix == "top" and number.isdecimal() and int(number) > 0:
        return partial(TopK, int(number))
    return None


def _make_source(name: str, metric: object) -> MetricSource:
    build = _make_builder(name, metric)
    first = _check_methods(name, build())
    unused = [first]  # building may take long, so the checked instance is the first to be used

    def build_checked() -> Any:
        return unused.pop() if unused else _check_methods(name, build())

    return MetricSource(
        name,
        build_checked,
        f"{name} {_digest_source(metric)}",
        getattr(first, "against", "target"),
        _why_unmergeable(first),
    )


def _why_unmergeable(metric: object) -> str:
    if isinstance(metric, TorchMetric):
        return metric.unmergeable
    missing = [name for name in ("metric_state", "merge_state") if not hasattr(metric, name)]
    return f"it has no '{missing[0]}'" if missing else ""


def _make_builder(name: str, metric: object) -> Callable[[], object]:
    # A metric object may be callable too, as those of torchmetrics are.
    if callable(metric) and (isinstance(metric, type) or not hasattr(metric, "update")):
        return lambda: _call_builder(name, metric)
    return lambda: _call_builder(name, lambda: _copy_metric(metric))


def _copy_metric(metric: object) -> object:
    copy = deepcopy(metric)
    if hasattr(copy, "reset"):  # the caller's object may contain items already
        copy.reset()
    return copy


def _call_builder(name: str, build: Callable[[], object]) -> object:
    try:
        return build()
    except (EnginebayError, KeyboardInterrupt):
        raise
    except BaseException as err:  # SystemExit too
        raise UsageError(
            f"metric '{name}' cannot be built: {type(err).__name__}: {first_line(err)}",
            hint="name a class or a function that can be called without arguments",
        ) from err


def _check_methods(name: str, metric: object) -> Any:
    for method in _METHODS:
        if not callable(getattr(metric, method, None)):
            raise UsageError(
                f"metric '{name}', of type {type(metric).__qualname__}, has no method '{method}'",
                hint="a metric requires the methods update(outputs, target), compute() and reset()",
            )
    return TorchMetric(metric) if is_torch_metric(metric) else metric


def _digest_source(metric: object) -> str:
    """Return a digest of a metric's source file, and of its number and string attributes."""
    kind = metric if inspect.isclass(metric) or inspect.isfunction(metric) else type(metric)
    digest = hashlib.sha256()
    for name, value in sorted(getattr(metric, "__dict__", {}).items()):
        if isinstance(value, bool | int | float | str):
            digest.update(f"{name}={value!r}".encode())
    try:
        digest.update(Path(inspect.getfile(kind)).read_bytes())
    except (TypeError, OSError):  # built in, or typed into an interpreter
        digest.update(kind.__qualname__.encode())
    return digest.hexdigest()
