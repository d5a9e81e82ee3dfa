"""The wrapper contract: a dict of tensors in, a dict of tensors out, whatever the engine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from enginebay.errors import EnginebayError, InferenceError, UsageError, message_of
from enginebay.inference import forks
from enginebay.inference.input_check import InputCheck
from enginebay.inference.timing import ENGINE, Timing, marked_methods
from enginebay.tensors import host_tensor, host_view, is_torch, to_device, to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from enginebay.inference.receipt import Receipt
    from enginebay.inference.timing import Counter
    from enginebay.tensors import Array, NumpyArray, TensorSpec

#: In the place of the inputs' specs: every call takes the way that says why it is refused.
_NO_INPUT_FITS = (("", np.dtype(bool), None),)


class Wrapper(ABC):
    """One engine, ready to run: ``wrapper({"x": x}) -> {"y": y}``, or ``wrapper(x) -> y``.

    Torch tensors in give torch tensors out on the same device; NumPy arrays in give NumPy arrays
    out and import no torch. Inputs may have any strides and are never changed; what was returned
    never changes on a later call. A missing, extra, wrongly typed or wrongly shaped input is
    an :class:`~enginebay.errors.InputError` before the engine is called.

    A backend subclasses this, calls ``super().__init__`` with the specs in the model's order,
    and writes :meth:`execute`, :meth:`receipt` and, where there is something to release,
    :meth:`release`. Private names of its own, such as ``_run``, are free.

    Args:
        inputs: The model's inputs, by the names that callers use.
        outputs: Its outputs, in order.

    Attributes:
        concurrent: True if ``execute`` may run in several threads at once. If not, calls wait for
            each other.
        native_device: The torch device type whose tensors :meth:`execute_torch` takes as they
            are; None where every input goes through the host.
        fault_hint: What to do about a fault of the backend; ``Backend.load`` sets it.
    """

    concurrent: bool = False
    native_device: str | None = None
    fault_hint: str | None = None

    def __init__(self, *, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.input_names = tuple(spec.name for spec in self.inputs)
        self.output_names = tuple(spec.name for spec in self.outputs)
        self.__input_check = InputCheck(self.inputs)
        self.__exact = self.__input_check.exact
        self.__lock = None if self.concurrent else threading.Lock()
        self.__counter: Counter | None = None
        self.__find_task: Callable[[], Any] = lambda: None
        self.__closed = False
        self.__inherited = False
        forks.watch(self)

    @abstractmethod
    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Call the engine, and nothing else.

        Args:
            feed: Checked arrays on the host, one for each input, with any strides.

        Returns:
            A list or a tuple with one array for each output, in order, none of which a later call
            changes.
        """

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Call the engine on tensors that are already on its device.

        Called only where ``native_device`` is set; the contract is :meth:`execute`'s.
        """
        raise NotImplementedError(f"{type(self).__name__} sets native_device without execute_torch")

    @property
    @abstractmethod
    def receipt(self) -> Receipt:
        """The account of what runs: engine, device, provider, effective precision, fallbacks."""

    def __repr__(self) -> str:
        if "_Wrapper__closed" not in vars(self):  # a subclass's own constructor is not through
            return object.__repr__(self)
        names = [", ".join(specs) for specs in (self.input_names, self.output_names)]
        state = ", closed" if self.__closed else ""
        return f"<{type(self).__name__} {' → '.join(names)}{state}>"

    def _repr_html_(self) -> str:
        """What runs, and what goes in and comes out, for notebooks."""
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
        """Wait until the device has finished; nothing to do where ``execute`` waits itself."""
        return

    def release(self) -> None:
        """Free the engine; called once, by :meth:`close`."""
        return

    @overload
    def __call__(self, inputs: Mapping[str, Array], /) -> dict[str, Any]: ...

    @overload
    def __call__(self, /, *inputs: Array, **named: Array) -> Any: ...

    def __call__(self, inputs: Any = None, /, *more: Any, **named: Any) -> Any:
        """Run the model once: on a dict of inputs by name, or as the model itself is called.

        Args:
            inputs: The inputs by name; or the first of them.
            more: The others, in the order of ``input_names``.
            named: Others by name.

        Returns:
            Of a dict, a dict of the outputs in the order of ``output_names``. Else the only
            output, or a tuple of them in this order.

        Raises:
            InputError: A name, dtype or shape is not what the model takes.
            InferenceError: The engine failed on inputs that fit.
        """
        # The common case first, in one flat loop: a tiny model takes 4 µs, and beside a large one
        # each Python line costs several times as much, since its data has emptied the caches.
        is_plain = inputs.__class__ is dict and not more and not named
        if is_plain and len(inputs) == len(self.__exact):
            feed, tensors = {}, False
            for name, dtype, shape in self.__exact:
                array = inputs.get(name)
                if array.__class__ is not np.ndarray:
                    tensors = True
                    if self.native_device or (array := host_view(array)) is None:
                        break
                if array.dtype != dtype or array.shape != shape:
                    break
                feed[name] = array
            else:
                found = self.__named(self.__run(self.execute, feed))
                return {n: host_tensor(v) for n, v in found.items()} if tensors else found
        if isinstance(inputs, Mapping) and not more and not named:
            return self.__call_converting(inputs)
        given = () if inputs is None and not more else (inputs, *more)
        outputs = self.__call_converting(self.__input_check.named(*given, **named))
        return tuple(outputs.values()) if len(outputs) != 1 else outputs.popitem()[1]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """Run the model once on inputs by name, and return its outputs by name, in their order."""
        return self(inputs)

    def predict(self, item: Any) -> Sequence[Any]:
        """Run the model once on what its artifact's task takes, such as the path of a picture.

        Args:
            item: What the task makes the model's inputs of.

        Returns:
            What the model found in it, as the task names it, the best first.

        Raises:
            UsageError: The artifact was made without a task.
            InputError: The task cannot read the item.
            MissingDependencyError: No installed plugin declares the task's kind.
        """
        task = self.__find_task()
        if task is None:
            raise UsageError(
                "the artifact was made without a task, so nothing says how an item becomes its "
                "input",
                hint="deploy the model again with --task FILE.json",
            )
        found: Sequence[Any] = task.read_outputs(self.run(task.preprocess(item)), item)
        return found

    def set_task(self, find_task: Callable[[], Any]) -> None:
        """Set what :meth:`predict` asks for the task; ``enginebay.load`` does."""
        self.__find_task = find_task

    def __call_converting(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        self.__check_usable()
        self.__input_check.check_names(inputs)
        device = next((value.device for value in inputs.values() if is_torch(value)), None)
        if device is not None and device.type == self.native_device:
            tensors = {name: to_device(inputs[name], device) for name in self.input_names}
            self.__input_check.check(tensors, torch=True)
            return self.__named(self.__run(self.execute_torch, tensors))
        feed = {name: to_numpy(inputs[name]) for name in self.input_names}
        self.__input_check.check(feed, torch=device is not None)
        found = self.__named(self.__run(self.execute, feed))
        if device is None:
            return found
        return {name: to_torch(output, device) for name, output in found.items()}

    def __check_usable(self) -> None:
        if self.__closed:
            raise UsageError("this wrapper is closed", hint="load the artifact again")
        if self.__inherited:
            raise UsageError(
                "this wrapper was loaded before the process was forked, and its engine's threads "
                "are not in the child process",
                hint="load the artifact in the child, which an engine on a GPU allows only if "
                'the child is started with multiprocessing.get_context("spawn")',
            )

    def __named(self, outputs: Sequence[Any]) -> dict[str, Any]:
        # Not whatever can be iterated: a dict would give its keys, and an array its parts.
        listed = isinstance(outputs, (list, tuple))
        if listed and len(outputs) == len(self.outputs):
            return dict(zip(self.output_names, outputs, strict=True))
        found = f"{len(outputs)} outputs" if listed else f"a {type(outputs).__name__}"
        raise InferenceError(
            f"{self.receipt.engine} gave {found}: wanted a list of {len(self.outputs)}, "
            f"{', '.join(self.output_names)}",
            hint=self.fault_hint,
        )

    def __run(self, execute: Callable[[Any], Sequence[Any]], feed: Mapping[str, Any]) -> Any:
        if self.__counter is not None:
            execute = partial(self.__counter.measure, execute)
        try:
            if self.__lock is None:
                return execute(feed)
            with self.__lock:
                return execute(feed)
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:
            given = ", ".join(f"{name} {v.dtype}{tuple(v.shape)}" for name, v in feed.items())
            raise InferenceError(
                f"{self.receipt.engine} failed on {given}: {message_of(err)}"
            ) from err

    @contextmanager
    def time_execution(
        self, *, warmup: int = 0, with_sync: bool = True, log_every: int | None = None
    ) -> Iterator[Timing]:
        """Count the engine calls made inside the ``with`` block, and those of marked parts.

        A part is a method that the backend marked with :func:`enginebay.authors.count_time`. Of a
        model in several engines each engine is a part too: ``part 0: engine``. Outside of such a
        block nothing is counted, and nothing is spent on it.

        Args:
            warmup: The number of first calls of each name that are not counted.
            with_sync: Wait for the device before each reading of the clock, so that asynchronous
                work is counted.
            log_every: Log the average after every so many calls of a name, at level INFO to the
                logger ``enginebay.inference``.
        """
        synchronize = self.synchronize if with_sync else None
        timing = Timing(warmup=warmup, synchronize=synchronize, log_every=log_every)
        with self._counted_in(timing):
            yield timing

    @contextmanager
    def _counted_in(self, timing: Timing, prefix: str = "") -> Iterator[None]:
        """Count this wrapper's calls in the block, under names that begin with a prefix."""
        before = dict(vars(self))
        changed: dict[str, Any] = {"_Wrapper__counter": timing.counter(prefix + ENGINE)}
        for attribute, name, method in marked_methods(self):
            changed[attribute] = partial(timing.counter(prefix + name).measure, method)
        vars(self).update(changed)
        try:
            yield
        finally:
            for attribute in changed:
                if attribute in before:
                    setattr(self, attribute, before[attribute])
                else:
                    delattr(self, attribute)

    def output_to_list(self, outputs: Mapping[str, Any]) -> list[Any]:
        """Return the outputs as a list in the order of ``output_names``."""
        return [outputs[name] for name in self.output_names]

    def close(self) -> None:
        """Release the engine; a second call does nothing, nor does one in a forked child."""
        if self.__closed:
            return
        self.__closed = True
        self.__exact = _NO_INPUT_FITS
        if not self.__inherited:
            self.release()

    def disown(self) -> None:
        """Refuse all calls and never release the engine: it belongs to the parent process."""
        self.__inherited = True
        self.__exact = _NO_INPUT_FITS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
