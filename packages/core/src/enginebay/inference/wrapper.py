"""Base class of a backend's wrapper: the same interface to every engine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from enginebay.errors import EnginebayError, InferenceError, UsageError, message_of
from enginebay.inference import forks
from enginebay.inference.input_check import InputCheck
from enginebay.inference.timing import ENGINE, Timing, find_marked_methods
from enginebay.tensors import host_tensor, host_view, is_torch, to_device, to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from enginebay.inference.receipt import Receipt
    from enginebay.inference.timing import Counter
    from enginebay.params import SizeLimits
    from enginebay.tensors import Array, NumpyArray, TensorSpec

_A = TypeVar("_A", bound="Array")
_T = TypeVar("_T")

#: Replaces the specs of a closed or watched wrapper. No input matches it, so that every call leaves
#: the fast path, and the other path checks the wrapper's state and its inputs.
_NO_INPUT_FITS = (("", np.dtype(bool), None),)


class Wrapper(ABC):
    """A loaded engine: ``wrapper({"x": x}) -> {"y": y}``, or ``wrapper(x) -> y``.

    For torch tensors it returns torch tensors on the same device. For NumPy arrays it returns
    NumPy arrays, and does not import torch. Inputs may have any strides and are never changed.
    Later calls never change the outputs of earlier calls. An input that is missing, unknown, or of
    the wrong dtype or shape raises an :class:`~enginebay.errors.InputError` before the engine is
    called.

    A backend subclasses this, calls ``super().__init__`` with the specs in the model's order,
    and implements :meth:`execute`, :meth:`receipt` and, if it holds resources, :meth:`release`.
    The subclass may use any private names, such as ``_run``.

    Args:
        inputs: The model's inputs, by the names that callers use.
        outputs: The model's outputs, in order.

    Attributes:
        concurrent: True if ``execute`` may run in several threads at once. If False, calls run one
            after the other.
        native_device: The torch device type whose tensors :meth:`execute_torch` accepts without
            conversion; None if every input is copied to the host.
        fault_hint: The hint of errors about a defect of the backend; ``Backend.load`` sets it.
        find_beyond: A function that returns how inputs lie beyond what was verified, for errors of
            the engine; :func:`enginebay.load` sets it.
    """

    concurrent: bool = False
    native_device: str | None = None
    fault_hint: str | None = None
    find_beyond: Callable[[Mapping[str, Any]], Sequence[str]] | None = None

    def __init__(self, *, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.input_names = tuple(spec.name for spec in self.inputs)
        self.output_names = tuple(spec.name for spec in self.outputs)
        # Two underscores, so that a backend's own names, such as _run, do not replace these.
        self.__input_check = InputCheck(self.inputs)
        self.__exact = self.__input_check.exact
        self.__lock = None if self.concurrent else threading.Lock()
        self.__counter: Counter | None = None
        self.__watch: Callable[[Mapping[str, Any]], None] | None = None
        self.__find_task: Callable[[], Any] = lambda: None
        self.__closed = False
        self.__inherited = False
        forks.disown_after_fork(self)

    @abstractmethod
    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Call the engine, and do nothing else, since this method is timed.

        Args:
            feed: Validated arrays on the host, one for each input, with any strides.

        Returns:
            A list or a tuple with one array for each output, in order. A later call must not
            change these arrays.
        """

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Call the engine on torch tensors that are already on the engine's device.

        The contract is the same as for :meth:`execute`. This method is called only if
        ``native_device`` is set.
        """
        raise NotImplementedError(
            f"{type(self).__name__} sets native_device, but does not define execute_torch"
        )

    @property
    @abstractmethod
    def receipt(self) -> Receipt:
        """The effective settings: engine, device, provider, precision and fallbacks."""

    def __repr__(self) -> str:
        if "_Wrapper__closed" not in vars(self):  # the constructor has not finished
            return object.__repr__(self)
        names = [", ".join(specs) for specs in (self.input_names, self.output_names)]
        state = ", closed" if self.__closed else ""
        return f"<{type(self).__name__} {' → '.join(names)}{state}>"

    def _repr_html_(self) -> str:
        from enginebay.display import html_fields

        receipt = self.receipt
        pairs = [
            ("engine", receipt.describe()),
            *(("fallback", text) for text in receipt.fallbacks),
            *(("input", spec.describe()) for spec in self.inputs),
            *(("output", spec.describe()) for spec in self.outputs),
            ("state", "closed" if self.__closed else ""),
        ]
        return html_fields(type(self).__name__, pairs)

    def synchronize(self) -> None:
        """Wait until the device has finished; override this if ``execute`` does not wait for it."""
        return

    def release(self) -> None:
        """Free the engine; called once, by :meth:`close`."""
        return

    @overload
    def __call__(self, inputs: Mapping[str, Array], /) -> dict[str, Any]: ...

    @overload
    def __call__(self, /, *inputs: Array, **named: Array) -> Any: ...

    def __call__(self, inputs: Any = None, /, *more: Array, **named: Array) -> Any:
        """Run the model once.

        Args:
            inputs: A dict of all inputs by name, or the first input.
            more: Further inputs, in the order of ``input_names``.
            named: Further inputs, by their names.

        Returns:
            For a dict, a dict of the outputs in the order of ``output_names``. Otherwise the
            only output, or a tuple of the outputs in this order.

        Raises:
            InputError: A name, dtype or shape does not match the model's inputs.
            InferenceError: The engine failed on valid inputs.
        """
        # Fast path for the common case, in one flat loop: a tiny model takes 4 µs. After a run of a
        # large model, whose data fills the CPU's caches, each line of Python takes several times as
        # long as usual.
        is_plain = inputs.__class__ is dict and not more and not named
        if is_plain and len(inputs) == len(self.__exact):
            feed, tensors = {}, False
            for name, dtype, shape in self.__exact:
                array = inputs.get(name)
                if array.__class__ is not np.ndarray:
                    tensors = True
                    # With a native device, tensors are probably on it already.
                    if self.native_device or (array := host_view(array)) is None:
                        break
                if array.dtype != dtype or array.shape != shape:
                    break
                feed[name] = array
            else:
                found = self.__run_engine(self.execute, feed)
                return self.__name_outputs(found, host_tensor if tensors else None)
        if isinstance(inputs, Mapping) and not more and not named:
            return self.__convert_and_run(inputs)
        positional = () if inputs is None and not more else (inputs, *more)
        outputs = self.__convert_and_run(self.__input_check.bind_inputs(*positional, **named))
        return tuple(outputs.values()) if len(outputs) != 1 else outputs.popitem()[1]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """Run the model once on a dict of inputs, and return a dict of its outputs in order."""
        return self(inputs)

    def predict(self, item: object) -> Sequence[Any]:
        """Run the model once on an item, such as the path of an image.

        Args:
            item: The item, which the artifact's task converts to the model's inputs.

        Returns:
            The results that the task reads from the outputs, such as labels or boxes, the best
            first.

        Raises:
            UsageError: The artifact was made without a task.
            InputError: The task cannot read the item.
            MissingDependencyError: No installed plugin declares the task's kind.
        """
        task = self.__find_task()
        if task is None:
            raise UsageError(
                "the artifact was made without a task, which is required to convert an item to "
                "inputs",
                hint="deploy the model again with --task FILE.json",
            )
        results: Sequence[Any] = task.read_outputs(self.run(task.preprocess(item)), item)
        return results

    def set_task(self, find_task: Callable[[], Any]) -> None:
        """Set the function that returns the task of :meth:`predict`; ``enginebay.load`` does so."""
        self.__find_task = find_task

    def limit_sizes(self, limits: SizeLimits) -> None:
        """Refuse inputs beyond these sizes of dynamic dimensions; core calls this after loading.

        An engine that has further sizes, and refuses others itself, overrides this method.
        """
        self.__input_check.limits = limits

    def watch_inputs(self, watch: Callable[[Mapping[str, Array]], None]) -> None:
        """Call a function with the checked inputs of each call; core calls this after loading."""
        self.__watch = watch
        self.__exact = _NO_INPUT_FITS  # every call leaves the fast path, which stays as it is

    def __convert_and_run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        self.__check_usable()
        self.__input_check.check_names(inputs)
        device = next((value.device for value in inputs.values() if is_torch(value)), None)
        if device is not None and device.type == self.native_device:
            tensors = {name: to_device(inputs[name], device) for name in self.input_names}
            self.__input_check.check(tensors, torch=True)
            if self.__watch is not None:
                self.__watch(tensors)
            return self.__name_outputs(self.__run_engine(self.execute_torch, tensors))
        feed = {name: to_numpy(inputs[name]) for name in self.input_names}
        self.__input_check.check(feed, torch=device is not None)
        if self.__watch is not None:
            self.__watch(feed)
        convert = None if device is None else partial(to_torch, device=device)
        return self.__name_outputs(self.__run_engine(self.execute, feed), convert)

    def __check_usable(self) -> None:
        if self.__closed:
            raise UsageError("this wrapper is closed", hint="load the artifact again")
        if self.__inherited:
            raise UsageError(
                "this wrapper was loaded before the process was forked, and its engine's threads "
                "are not in the child process",
                hint="load the artifact in the child process; if the engine uses a GPU, start the "
                'process by multiprocessing.get_context("spawn")',
            )

    def __name_outputs(self, outputs: Sequence[Any], convert: Any = None) -> dict[str, Any]:
        # Not any iterable: a dict would yield its keys, and an array its rows.
        is_list = isinstance(outputs, (list, tuple))
        if is_list and len(outputs) == len(self.outputs):
            values = map(convert, outputs) if convert else outputs
            return dict(zip(self.output_names, values, strict=True))
        found = f"{len(outputs)} outputs" if is_list else f"a {type(outputs).__name__}"
        raise InferenceError(
            f"{self.receipt.engine} returned {found}, expected a list of {len(self.outputs)}: "
            f"{', '.join(self.output_names)}",
            hint=self.fault_hint,
        )

    def __run_engine(
        self, execute: Callable[[dict[str, _A]], Sequence[_A]], feed: dict[str, _A]
    ) -> Sequence[_A]:
        if self.__counter is not None:
            execute = partial(self.__counter.measure_call, execute)
        try:
            if self.__lock is None:
                return execute(feed)
            with self.__lock:
                return execute(feed)
        # An engine's binding may raise anything, also SystemExit.
        except BaseException as err:
            if isinstance(err, KeyboardInterrupt):
                raise
            beyond = self.find_beyond(feed) if self.find_beyond else ()
            limit = f"; beyond what was verified: {'; '.join(beyond)}" if beyond else ""
            if isinstance(err, EnginebayError):
                err.args = (f"{err}{limit}",)
                raise
            inputs = ", ".join(f"{name} {v.dtype}{tuple(v.shape)}" for name, v in feed.items())
            raise InferenceError(
                f"{self.receipt.engine} failed on {inputs}: {message_of(err)}{limit}"
            ) from err

    @contextmanager
    def time_execution(
        self, *, warmup: int = 0, with_sync: bool = True, log_every: int | None = None
    ) -> Iterator[Timing]:
        """Time calls of the engine and of the backend's timed methods inside the ``with`` block.

        The ``with`` statement gets a :class:`Timing` with the durations. A backend declares a timed
        method with :func:`enginebay.authors.count_time`. If the model was cut into parts, the
        engine of each part is timed too, under a name such as ``part 0: engine``. Calls outside of
        the block have no overhead.

        Args:
            warmup: The number of initial calls under each name that are not counted.
            with_sync: True to wait for the device before each reading of the clock, so that
                asynchronous work is counted.
            log_every: The number of calls under a name after which the average is logged again, at
                level INFO to the logger ``enginebay.inference``; None to log nothing.
        """
        synchronize = self.synchronize if with_sync else None
        timing = Timing(warmup=warmup, synchronize=synchronize, log_every=log_every)
        with self._count_calls(timing):
            yield timing

    @contextmanager
    def _count_calls(self, timing: Timing, prefix: str = "") -> Iterator[None]:
        """Time the engine and the timed methods; ``prefix`` precedes their names in ``timing``."""
        # Instance attributes replace the methods, so that untimed calls have no overhead.
        before = dict(vars(self))
        changed: dict[str, Any] = {"_Wrapper__counter": timing.counter(prefix + ENGINE)}
        for attribute, name, method in find_marked_methods(self):
            changed[attribute] = partial(timing.counter(prefix + name).measure_call, method)
        vars(self).update(changed)
        try:
            yield
        finally:
            for attribute in changed:
                if attribute in before:
                    setattr(self, attribute, before[attribute])
                else:
                    delattr(self, attribute)

    def output_to_list(self, outputs: Mapping[str, _T]) -> list[_T]:
        """Return the outputs as a list in the order of ``output_names``."""
        return [outputs[name] for name in self.output_names]

    def close(self) -> None:
        """Release the engine, once; in a forked child process, do nothing."""
        if self.__closed:
            return
        self.__closed = True
        self.__exact = _NO_INPUT_FITS
        if not self.__inherited:
            self.release()

    def disown(self) -> None:
        """Refuse all further calls, and never release the engine: the parent process owns it."""
        self.__inherited = True
        self.__exact = _NO_INPUT_FITS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
