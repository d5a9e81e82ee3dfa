"""Wrappers that break a call's contract."""

from __future__ import annotations

from .plugin import Broken

BROKEN = {
    "two of its layers have the same name": Broken(
        "test_timed_layers_are_told_apart",
        r"two layers have the same name: \['conv', 'conv'\]",
        """
        @eb.hookimpl
        def time_layers(request):
            from enginebay.hooks import TimedLayer
            return [TimedLayer(name="conv", seconds=1e-6)] * 2
        """,
    ),
    "its outputs are swapped": Broken(
        "test_names_and_order_are_the_models",
        "output 'zulu': ",
        """
        def execute(self, feed):
            return super().execute(feed)[::-1]
        """,
    ),
    "it returns another dtype": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "its dtype differs: expected float32, found float64",
        """
        def execute(self, feed):
            return [y.astype("float64") for y in super().execute(feed)]
        """,
        {"dtype": "float32"},
    ),
    "it cuts int64 to 32 bits": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "output 'output': .* elements differ",
        """
        INFO |= {"dtypes": ("float32", "int64")}

        class Wrapper(Wrapper):
            def execute(self, feed):
                return [y.astype("int32").astype(y.dtype) for y in super().execute(feed)]
        """,
        {"dtype": "int64"},
    ),
    "its NaN is 0": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "output 'output': .* elements differ",
        """
        def execute(self, feed):
            import numpy as np
            return [np.where(np.isnan(y), y.dtype.type(0), y) for y in super().execute(feed)]
        """,
        {"dtype": "float32"},
    ),
    "it clips": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "output 'output': .* elements differ",
        """
        def execute(self, feed):
            return [y.clip(-65504, 65504) for y in super().execute(feed)]
        """,
        {"dtype": "float32"},
    ),
    "it keeps a MiB of each call": Broken(
        "test_calls_keep_no_memory",
        "300 calls have left 3..... KiB",
        """
        class Wrapper(Wrapper):
            kept = []

            def execute(self, feed):
                self.kept.append(b"1" * (1 << 20))
                return super().execute(feed)
        """,
    ),
    "it is built for one size": Broken(
        "test_an_open_dimension_takes_any_size",
        "7 rows",
        """
        def execute(self, feed):
            if any(len(x) == 7 for x in feed.values()):
                raise RuntimeError("7 rows")
            return super().execute(feed)
        """,
        {"size": 7},
    ),
    "it takes no empty tensor": Broken(
        "test_an_open_dimension_may_be_empty",
        "no elements",
        """
        def execute(self, feed):
            if not all(x.size for x in feed.values()):
                raise RuntimeError("no elements")
            return super().execute(feed)
        """,
    ),
    "its scalars have a dimension": Broken(
        "test_scalars_go_in_and_come_out",
        r"its shape differs: expected \(\), found \(1,\)",
        """
        def execute(self, feed):
            return [y if y.ndim else y.reshape(1) for y in super().execute(feed)]
        """,
    ),
    "it reads memory and ignores the strides": Broken(
        "test_any_strides_will_do",
        "with strided, read-only arrays of the same values, "
        'the engine returns different outputs: "sum"',
        """
        def execute(self, feed):
            return super().execute({k: x.ravel("K").reshape(x.shape) for k, x in feed.items()})
        """,
    ),
    "it frees copies that the engine still reads": Broken(
        "test_any_strides_will_do",
        "with strided, read-only arrays of the same values, "
        'the engine returns different outputs: "sum"',
        """
        def execute(self, feed):
            copies = {}
            for name, x in feed.items():
                if not x.flags.c_contiguous:
                    copies["last"] = x  # in the place of the one before
                feed = feed | {name: copies.get("last", x)}
            return super().execute(dict.fromkeys(feed, copies.get("last")) if copies else feed)
        """,
    ),
    "it returns arrays for tensors": Broken(
        "test_torch_in_torch_out",
        "Tensor",
        """
        def __call__(self, inputs):
            import numpy as np
            return super().__call__({name: np.asarray(x) for name, x in inputs.items()})
        """,
    ),
    "its outputs are one buffer": Broken(
        "test_what_was_returned_never_changes",
        "output 'sum' has changed",
        """
        def execute(self, feed):
            outputs = super().execute(feed)
            self.all_buffers = getattr(self, "all_buffers", {})
            buffers = self.all_buffers.setdefault(str([y.shape for y in outputs]), outputs)
            for buffer, output in zip(buffers, outputs):
                buffer[...] = output
            return buffers
        """,
    ),
    "an output is an input's memory": Broken(
        "test_outputs_share_no_memory",
        "output 'same' shares its memory with x",
        """
        def execute(self, feed):
            return [*super().execute(feed)[:2], feed["x"]]
        """,
    ),
    "its wrappers share the engine": Broken(
        "test_two_wrappers_at_once",
        "",
        """
        def __init__(self, request):
            super().__init__(request)
            Wrapper.engine = self._evaluator

        def execute(self, feed):
            self._evaluator = Wrapper.engine
            return super().execute(feed)
        """,
    ),
    "its calls share a buffer": Broken(
        "test_calls_may_overlap",
        "expected no wrong numbers, found them in .* of 200 calls",
        """
        concurrent = True

        def execute(self, feed):
            import time
            self.feed = feed
            time.sleep(0.001)
            return super().execute(self.feed)
        """,
    ),
    "its calls copy into one buffer": Broken(
        "test_calls_may_overlap",
        "expected no wrong numbers, found them in .* of .* calls",
        """
        class Wrapper(Wrapper):
            concurrent = True
            buffers = {}

            def execute(self, feed):
                import numpy as np
                for name, x in feed.items():
                    buffer = self.buffers.setdefault((name, x.shape), np.empty_like(x))
                    buffer[...] = x
                return super().execute({k: self.buffers[k, x.shape] for k, x in feed.items()})
        """,
    ),
    "it checks no input": Broken(
        "test_wrong_inputs_never_reach_the_engine",
        "expected InputError for an input with a wrong rank, found no error",
        """
        def __call__(self, inputs):
            return dict(zip(self.output_names, self.execute(inputs) or ()))
        """,
        {"wrong": "rank"},
    ),
    "it runs on another device than it says": Broken(
        "test_the_receipt_says_what_runs",
        "expected a device of cpu, found 'gpu'",
        """
        receipt = property(lambda self: eb.Receipt(engine="mine 0", device="gpu"))
        """,
    ),
    "its receipt names no engine": Broken(
        "test_the_receipt_says_what_runs",
        "expected the engine's name and version, found ''",
        """
        receipt = property(lambda self: eb.Receipt(engine="", device="cpu"))
        """,
    ),
    "its integers go through float32": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "output 'output'",
        """
        INFO["dtypes"] = ("int32",)

        class Wrapper(Wrapper):
            def execute(self, feed):
                import numpy as np
                big = [y.astype(np.float32).astype(np.float64) for y in super().execute(feed)]
                top = np.iinfo(np.int32).max
                return [np.minimum(y, top).astype(np.int32) for y in big]
        """,
        {"dtype": "int32"},
    ),
    "its float64 is float32": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "output 'output'",
        """
        INFO["dtypes"] = ("float64",)

        class Wrapper(Wrapper):
            def execute(self, feed):
                import numpy as np
                with np.errstate(over="ignore"):
                    return [y.astype(np.float32).astype(y.dtype) for y in super().execute(feed)]
        """,
        {"dtype": "float64"},
    ),
    "its float16 comes back as float32": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "float16",
        """
        INFO["dtypes"] = ("float16",)

        class Wrapper(Wrapper):
            def execute(self, feed):
                import numpy as np
                return [y.astype(np.float32) for y in super().execute(feed)]
        """,
        {"dtype": "float16"},
    ),
    "its bool comes back as uint8": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "bool",
        """
        INFO["dtypes"] = ("bool",)

        class Wrapper(Wrapper):
            def execute(self, feed):
                return [y.view("uint8") for y in super().execute(feed)]
        """,
        {"dtype": "bool"},
    ),
    "it computes the first row for all": Broken(
        "test_an_open_dimension_takes_any_size",
        "differ",
        """
        def execute(self, feed):
            import numpy as np
            return [np.repeat(y[:1], len(y), 0) if y.ndim else y for y in super().execute(feed)]
        """,
        {"size": 7},
    ),
    "its outputs have the largest size": Broken(
        "test_an_open_dimension_takes_any_size",
        "shape",
        """
        def execute(self, feed):
            import numpy as np
            return [np.pad(y, ((0, 8 - len(y)), (0, 0))) for y in super().execute(feed)]
        """,
        {"size": 7},
    ),
    "it keeps one engine for every file of a name": Broken(
        "test_two_wrappers_at_once",
        "",
        """
        engines = {}

        @eb.hookimpl
        def build_wrapper(request):
            made = Wrapper(request)
            made._evaluator = engines.setdefault(str(request.files), made._evaluator)
            return made
        """,
    ),
    "it opens a file in each call": Broken(
        "test_calls_keep_no_memory",
        "300 calls have left 3.. files",
        """
        class Wrapper(Wrapper):
            kept = []

            def execute(self, feed):
                import os
                self.kept.append(os.open(os.devnull, os.O_RDONLY))
                return super().execute(feed)
        """,
    ),
    "it wears out": Broken(
        "test_calls_keep_no_memory",
        "the engine is tired",
        """
        class Wrapper(Wrapper):
            calls = 0

            def execute(self, feed):
                self.calls += 1
                if self.calls > 200:
                    raise RuntimeError("the engine is tired")
                return super().execute(feed)
        """,
    ),
    "its receipt names a precision that it does not list": Broken(
        "test_the_receipt_says_what_runs",
        "expected a precision of fp32, found 'bf16'",
        """
        receipt = property(lambda self: eb.Receipt(engine="mine 0", device="cpu", precision="bf16"))
        """,
    ),
    "its layers take less than no time": Broken(
        "test_timed_layers_are_told_apart",
        "expected a TimedLayer whose 'seconds' are finite and not negative",
        """
        @eb.hookimpl
        def time_layers(request):
            from enginebay.hooks import TimedLayer
            return [TimedLayer(name="conv", seconds=-1.0)]
        """,
    ),
}
