"""The metric that is meant: a name, a Python object, or a name of a plugin."""

from __future__ import annotations

import hashlib
import inspect
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.authors import contributed, named_object
from enginebay.errors import EnginebayError, UsageError, check_text, first_line, nearest
from enginebay.hooks import MetricRequest
from enginebay_lab.evaluation.metrics import Cosine, MeanAbsoluteError, TopK
from enginebay_lab.evaluation.torch_metrics import TorchMetric, is_torch_metric, named_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_METHODS = ("update", "compute", "reset")

_KNOWN: dict[str, Callable[[], Any]] = {
    "accuracy": partial(TopK, 1),
    "top-5": partial(TopK, 5),
    "mean-absolute-error": MeanAbsoluteError,
    "cosine": Cosine,
}


class MetricSource(NamedTuple):
    """A metric that can be built again and again: each artifact has its own.

    Attributes:
        name: Its name in rows and messages.
        build: Returns a new one.
        identity: What makes it another metric: its name, and its source file's digest.
        against: ``target``, or ``reference`` for one that compares with PyTorch's outputs.
        unmergeable: Why the items of two of them cannot be put together; empty where they can.
    """

    name: str
    build: Callable[[], Any]
    identity: str
    against: str
    unmergeable: str = ""


def find_metrics(metrics: Any) -> list[MetricSource]:
    """Find the metrics that are meant.

    Args:
        metrics: One of them, or a list. Each is a text as on the command line; an object with
            ``update``, ``compute`` and ``reset``; or a callable that returns one.

    Raises:
        UsageError: There is none, one lacks a method, or two have the same name.
        ModelSourceError: The Python file or module of one cannot be imported.
        MissingDependencyError: It is one of torchmetrics, which is not installed.
    """
    listed: Sequence[Any] = metrics if isinstance(metrics, list | tuple) else [metrics]
    if not listed:
        raise UsageError("there is no metric", hint=f"name one: {', '.join(_KNOWN)}")
    found = [_find(metric) for metric in listed]
    names = [metric.name for metric in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two metrics are called '{name}'", hint="leave one of them out")
    return found


def _find(metric: Any) -> MetricSource:
    if not isinstance(metric, str):
        name = getattr(metric, "__qualname__", None) or type(metric).__qualname__
        return _source(name, metric)
    check_text(metric)
    if known := _known(metric):
        return _source(metric, known)
    scheme, colon, name = metric.partition(":")
    if not colon:
        close = nearest(metric, _KNOWN)
        raise UsageError(
            f"there is no metric '{metric}'; there is {', '.join(_KNOWN)}, file.py:attr, "
            "torchmetrics:NAME, or SCHEME:NAME of a plugin",
            hint=f"did you mean '{close}'?" if close else None,
        )
    if scheme == "torchmetrics" and name.partition("(")[0].isidentifier():
        return _source(metric, named_metric(name))
    plugins = contributed("metrics")
    if scheme in plugins:
        request = MetricRequest(name=name)
        return _source(metric, _called(metric, lambda: plugins[scheme](request)))
    with named_object(metric) as found:
        return _source(metric, found)


def _known(name: str) -> Callable[[], Any] | None:
    if name in _KNOWN:
        return _KNOWN[name]
    head, _, number = name.partition("-")
    if head == "top" and number.isdecimal() and int(number) > 0:
        return partial(TopK, int(number))
    return None


def _source(name: str, metric: Any) -> MetricSource:
    build = _builder(name, metric)
    first = _checked(name, build())
    spare = [first]  # building may be long, and the first is as good as any other

    def next_one() -> Any:
        return spare.pop() if spare else _checked(name, build())

    against = getattr(first, "against", "target")
    return MetricSource(
        name, next_one, f"{name} {_digest(metric)}", against, _why_unmergeable(first)
    )


def _why_unmergeable(metric: Any) -> str:
    if isinstance(metric, TorchMetric):
        return metric.unmergeable
    missing = [name for name in ("metric_state", "merge_state") if not hasattr(metric, name)]
    return f"it has no '{missing[0]}'" if missing else ""


def _builder(name: str, metric: Any) -> Callable[[], Any]:
    if callable(metric) and (isinstance(metric, type) or not hasattr(metric, "update")):
        return lambda: _called(name, metric)
    return lambda: _called(name, lambda: _copied(metric))


def _copied(metric: Any) -> Any:
    copied = deepcopy(metric)
    if hasattr(copied, "reset"):
        copied.reset()
    return copied


def _called(name: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except (EnginebayError, KeyboardInterrupt):
        raise
    except BaseException as err:
        raise UsageError(
            f"metric '{name}' cannot be built: {type(err).__name__}: {first_line(err)}",
            hint="name a class or a function that can be called without arguments",
        ) from err


def _checked(name: str, metric: Any) -> Any:
    for method in _METHODS:
        if not callable(getattr(metric, method, None)):
            raise UsageError(
                f"metric '{name}' has no method '{method}': it is of type "
                f"{type(metric).__qualname__}",
                hint="a metric has update(outputs, target), compute() and reset()",
            )
    return TorchMetric(metric) if is_torch_metric(metric) else metric


def _digest(metric: Any) -> str:
    """A digest of the file that a metric is written in, and of its attributes."""
    kind = metric if inspect.isclass(metric) or inspect.isfunction(metric) else type(metric)
    found = hashlib.sha256()
    for name, value in sorted(getattr(metric, "__dict__", {}).items()):
        if isinstance(value, bool | int | float | str):
            found.update(f"{name}={value!r}".encode())
    try:
        found.update(Path(inspect.getfile(kind)).read_bytes())
    except (TypeError, OSError):  # built in, or typed into an interpreter
        found.update(kind.__qualname__.encode())
    return found.hexdigest()
