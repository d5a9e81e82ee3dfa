"""Backends that are broken on purpose, each by the law that it breaks."""

from __future__ import annotations

import inspect
from typing import NamedTuple

#: Loopback, but for what ``{change}`` replaces.
SOURCE = """\
import enginebay as eb
from enginebay.testing import loopback

NAME, INFO, PARAMS = "broken", {{"irs": ("onnx",)}}, loopback.LoopbackParams
RUNTIME = ("onnx>=1.21",)
to_backend, check_env = loopback.to_backend, loopback.check_env

class Wrapper(loopback.LoopbackWrapper):
    pass

@eb.hookimpl
def build_wrapper(request):
    return Wrapper(request)

{change}

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name=NAME, params=PARAMS, runtime_distributions=RUNTIME, **INFO)
"""


class Broken(NamedTuple):
    """A way to be wrong.

    Attributes:
        law: The law that is broken.
        message: The law's message about it.
        change: The source that breaks it; a body of ``Wrapper`` where it begins with ``def``.
        case: The law's parameters.
    """

    law: str
    message: str
    change: str
    case: dict[str, object] = {}


def _runs_while_converting(command: str) -> str:
    """The source of a converter that runs a shell's command in the conversions of a law."""
    return f"""
        @eb.hookimpl
        def to_backend(request):
            import os
            if "ENGINEBAY_CONFORMANCE_RUN" in os.environ:
                os.system({command!r})
            return loopback.to_backend(request)
        """


#: Loopback with a precision that is calibrated, which it computes in as it does in any other.
CALIBRATED = """
        class Params(loopback.LoopbackParams):
            precision: str = "fp32"

        PARAMS = Params
        INFO |= {"precisions": ("fp32", "int8"), "calibrated": ("int8",)}

        @eb.hookimpl
        def quantizable_nodes(request):
            return {"node_conv2d": "Conv", "node_linear": "Gemm"}
"""

#: Loopback with fp16, which its receipt claims and its engine ignores.
HALF = """
        class Params(loopback.LoopbackParams):
            precision: str = "fp32"

        PARAMS = Params
        INFO |= {"precisions": ("fp32", "fp16")}

        class Wrapper(loopback.LoopbackWrapper):
            def __init__(self, request):
                super().__init__(request)
                self.precision = request.params.precision

            @property
            def receipt(self):
                return eb.Receipt(engine="half 1", device="cpu", precision=self.precision)
"""

BROKEN = {
    "its int8 claims to be fp32": Broken(
        "test_each_precision_gives_its_numbers",
        "the receipt says fp32 for int8, and no fallback",
        CALIBRATED,
    ),
    "its fp16 raises": Broken(
        "test_each_precision_gives_its_numbers",
        "could not convert .*: NotImplementedError: fp16",
        HALF
        + """
        @eb.hookimpl
        def to_backend(request):
            if request.params.precision == "fp16":
                raise NotImplementedError("fp16")
            return loopback.to_backend(request)
        """,
    ),
    "its fp16 is three times too large": Broken(
        "test_each_precision_gives_its_numbers",
        "mismatched",
        HALF
        + """
        class Wrapper(Wrapper):
            def execute(self, feed):
                return [y * (3 if self.precision == "fp16" else 1) for y in super().execute(feed)]
        """,
    ),
    "its fp16 is fp32": Broken(
        "test_each_precision_gives_its_numbers",
        "in fp16 the numbers are those of fp32",
        HALF,
    ),
    "its nodes cannot be kept out of int8": Broken(
        "test_nodes_can_be_kept_in_floating_point",
        "in int8, 'node_conv2d' makes no difference",
        CALIBRATED,
    ),
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
    "its information names a dtype that does not exist": Broken(
        "test_it_says_what_it_is", "there is no dtype 'float33'", 'INFO["dtypes"] = ("float33",)'
    ),
    "it imports its engine when it is loaded": Broken(
        "test_loading_imports_no_engine", "loading the plugin imported onnx", "import onnx"
    ),
    "check-env is red and names no fix": Broken(
        "test_check_env_has_an_answer_for_every_tier",
        "check 'engine' failed and names no fix",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import failed
            return failed(request.tier, "engine", found="nothing")
        """,
    ),
    "check-env is red, but it runs": Broken(
        "test_green_means_that_it_runs",
        r"check-env is red \(nothing\), and a small model is verified",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import failed
            return failed(request.tier, "engine", found="nothing")
        """,
    ),
    "it runs no model at all": Broken(
        "test_green_means_that_it_runs",
        "engine and device are here, and a tiny model does not run: .*no such engine",
        """
        def execute(self, feed):
            raise RuntimeError("no such engine")
        """,
    ),
    "one of its devices is made up": Broken(
        "test_a_device_that_is_not_here_is_red",
        "check-env finds the device 'npu', and a tiny model does not .*: it ran on 'cpu'",
        'INFO["devices"] = ("cpu", "npu")',
    ),
    "check-env looks for nothing": Broken(
        "test_a_runtime_that_does_not_import_is_red",
        "only tier smoke noticed that the engine does not import",
        """
        @eb.hookimpl
        def check_env(request):
            return eb.EnvReport()
        """,
    ),
    "its receipt names another engine": Broken(
        "test_the_version_is_the_engines",
        "the receipt 'mine 0'",
        """
        receipt = property(lambda self: eb.Receipt(engine="mine 0", device="cpu"))
        """,
    ),
    "it adds a flag of its own": Broken(
        "test_every_flag_is_a_documented_field",
        "flag --colour is no field",
        """
        class PARAMS(loopback.LoopbackParams):
            @classmethod
            def add_arguments(cls, parser, **options):
                super().add_arguments(parser, **options)
                parser.add_argument("--colour")
        """,
    ),
    "a parameter is lost in a manifest": Broken(
        "test_flags_config_and_manifest_agree",
        "assert",
        """
        class PARAMS(loopback.LoopbackParams):
            def to_mapping(self):
                return {k: v for k, v in super().to_mapping().items() if k != "gain"}
        """,
    ),
    "its numbers are a little off": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            return [y * y.dtype.type(1.001) for y in super().execute(feed)]
        """,
        {"model": "pointwise"},
    ),
    "it lists an IR that it cannot convert": Broken(
        "test_every_ir_that_is_listed_is_converted",
        "is damaged or not an ONNX model",
        'INFO["irs"] = ("onnx", "torchscript")',
        {"ir": "torchscript"},
    ),
    "it leaves the weights behind": Broken(
        "test_weights_may_be_beside_the_onnx_file",
        "weights",
        """
        @eb.hookimpl
        def to_backend(request):
            import shutil
            return [shutil.copy(request.ir.path, request.work_dir / "model.onnx")]
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
        "output 'output': .* places differ",
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
        "output 'output': .* places differ",
        """
        def execute(self, feed):
            import numpy as np
            return [np.where(np.isnan(y), y.dtype.type(0), y) for y in super().execute(feed)]
        """,
        {"dtype": "float32"},
    ),
    "it clips": Broken(
        "test_every_dtype_comes_back_as_it_went_in",
        "output 'output': .* places differ",
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
    "it cannot say what it lacks": Broken(
        "test_what_it_lacks_can_be_listed",
        "NotImplementedError: not yet",
        """
        @eb.hookimpl
        def unsupported_operators(request):
            raise NotImplementedError("not yet")
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
        'given strided, read-only arrays of the same values, the engine is wrong: "sum"',
        """
        def execute(self, feed):
            return super().execute({k: x.ravel("K").reshape(x.shape) for k, x in feed.items()})
        """,
    ),
    "it frees copies that the engine still reads": Broken(
        "test_any_strides_will_do",
        'given strided, read-only arrays of the same values, the engine is wrong: "zulu"',
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
    "it computes in place": Broken(
        "test_numbers_of_reference_models",
        "writes into its input 'x'",
        """
        def execute(self, feed):
            outputs = super().execute(feed)
            for x in feed.values():
                x *= 2
            return outputs
        """,
        {"model": "pointwise"},
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
        "of 200 calls gave wrong numbers",
        """
        concurrent = True

        def execute(self, feed):
            import time
            self.feed = feed
            time.sleep(0.001)
            return super().execute(self.feed)
        """,
    ),
    "it checks no input": Broken(
        "test_wrong_inputs_never_reach_the_engine",
        "an input with a wrong rank raised nothing",
        """
        def __call__(self, inputs):
            return dict(zip(self.output_names, self.execute(inputs) or ()))
        """,
        {"wrong": "rank"},
    ),
    "it runs on another device than it says": Broken(
        "test_the_receipt_says_what_runs",
        "gpu",
        """
        receipt = property(lambda self: eb.Receipt(engine="mine 0", device="gpu"))
        """,
    ),
    "its artifact needs the IR's file": Broken(
        "test_a_moved_artifact_runs_in_another_process",
        "no file '.*/ir/model.onnx'",
        """
        @eb.hookimpl
        def to_backend(request):
            (request.work_dir / "path").write_text(str(request.ir.path))
            return ["path"]

        @eb.hookimpl
        def build_wrapper(request):
            from pathlib import Path
            import msgspec
            path = Path((request.directory / request.files[0]).read_text())
            place = {"directory": path.parent, "files": (Path(path.name),)}
            return Wrapper(msgspec.structs.replace(request, **place))
        """,
    ),
    "it needs torch to run": Broken(
        "test_running_an_artifact_imports_no_torch",
        "assert 'torch' not in",
        """
        def execute(self, feed):
            import torch
            return super().execute(feed)
        """,
    ),
    "it reads ASCII paths only": Broken(
        "test_any_path_will_do",
        "codec can't encode",
        """
        @eb.hookimpl
        def build_wrapper(request):
            str(request.directory).encode("ascii")
            return Wrapper(request)
        """,
    ),
    "its receipt names no engine": Broken(
        "test_the_receipt_says_what_runs",
        "assert ''",
        """
        receipt = property(lambda self: eb.Receipt(engine="", device="cpu"))
        """,
    ),
    "it needs an artifact's specs": Broken(
        "test_conversion_and_loading_work_without_an_artifact",
        "the request names no inputs: read them from the engine",
        """
        def __init__(self, request):
            super().__init__(request)
            eb.Wrapper.__init__(self, inputs=request.inputs, outputs=request.outputs)
        """,
    ),
    "it crashes on files that are no model": Broken(
        "test_files_that_are_no_model_are_an_error",
        "the child process ended with -11",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os, signal
            try:
                return Wrapper(request)
            except Exception:
                os.kill(os.getpid(), signal.SIGSEGV)
        """,
    ),
    "it writes beside its folder": Broken(
        "test_nothing_is_written_outside_the_work_dir",
        r"here/engine\.log: written outside the work_dir",
        """
        @eb.hookimpl
        def to_backend(request):
            import pathlib
            pathlib.Path("engine.log").write_text("done")
            return loopback.to_backend(request)
        """,
    ),
    "it installs a package": Broken(
        "test_nothing_is_written_outside_the_work_dir",
        r"surprise 1\.0: installed by the backend",
        """
        @eb.hookimpl
        def to_backend(request):
            import pathlib
            package = pathlib.Path(__file__).parent / "surprise-1.0.dist-info"
            package.mkdir(exist_ok=True)
            (package / "METADATA").write_text("Name: surprise\\nVersion: 1.0\\n")
            return loopback.to_backend(request)
        """,
    ),
    "it changes the IR's folder": Broken(
        "test_nothing_is_written_outside_the_work_dir",
        "the IR's folder was changed",
        """
        @eb.hookimpl
        def to_backend(request):
            request.ir.path.with_suffix(".cache").write_text("done")
            return loopback.to_backend(request)
        """,
    ),
    "it goes to another folder": Broken(
        "test_the_process_stays_as_it_was",
        "the folder: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os, tempfile; os.chdir(tempfile.gettempdir())
            return Wrapper(request)
        """,
    ),
    "it sets a variable": Broken(
        "test_the_process_stays_as_it_was",
        "os.environ: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os, uuid; os.environ['ENGINE_RUN'] = uuid.uuid4().hex
            return Wrapper(request)
        """,
    ),
    "it seeds NumPy": Broken(
        "test_the_process_stays_as_it_was",
        "NumPy's random state: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import numpy; numpy.random.seed(0)
            return Wrapper(request)
        """,
    ),
    "it draws numbers": Broken(
        "test_the_process_stays_as_it_was",
        "Python's random state: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import random; random.random()
            return Wrapper(request)
        """,
    ),
    "it seeds torch": Broken(
        "test_the_process_stays_as_it_was",
        "torch's random state: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.rand(1)
            return Wrapper(request)
        """,
    ),
    "it takes the signals": Broken(
        "test_the_process_stays_as_it_was",
        "signal handlers: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import signal; signal.signal(signal.SIGTERM, lambda *_: None)
            return Wrapper(request)
        """,
    ),
    "it makes warnings of NumPy errors": Broken(
        "test_the_process_stays_as_it_was",
        "NumPy's errors: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import numpy; numpy.seterr(under='raise')
            return Wrapper(request)
        """,
    ),
    "it turns gradients off": Broken(
        "test_the_process_stays_as_it_was",
        "torch's gradients: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.set_grad_enabled(False)
            return Wrapper(request)
        """,
    ),
    "it logs everything": Broken(
        "test_the_process_stays_as_it_was",
        "the log level: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import logging; logging.getLogger().setLevel(1)
            return Wrapper(request)
        """,
    ),
    "it leaves a daemon": Broken(
        "test_no_process_is_left",
        "left running: .* sleep",
        _runs_while_converting("setsid sleep 600 >/dev/null 2>&1 &"),
    ),
    "it frees its engine in a forked process": Broken(
        "test_a_fork_is_refused",
        "the forked process hangs",
        """
        class Wrapper(Wrapper):
            def close(self):
                import os, time
                if not getattr(self, "pid", os.getpid()) == os.getpid():
                    time.sleep(600)
                super().close()

            def execute(self, feed):
                import os
                self.pid = os.getpid()
                return super().execute(feed)
        """,
    ),
    "its wrapper runs in a forked process": Broken(
        "test_a_fork_is_refused",
        "the inherited wrapper was not refused",
        """
        class Wrapper(Wrapper):
            def disown(self):
                pass
        """,
    ),
    "its converter outlives it": Broken(
        "test_a_kill_leaves_nothing",
        "left running: .* sleep",
        _runs_while_converting("sleep 600 >/dev/null 2>&1"),
    ),
    "its converter outlives it unseen": Broken(
        "test_a_kill_leaves_nothing",
        "left running: a process without the environment of the killed one",
        _runs_while_converting("exec env -i sleep 30"),
    ),
    "it returns no set of rewriters": Broken(
        "test_its_rewriters_can_be_listed",
        r"rewriters\(\) of 'broken' \(.*\) returned \{'torch.relu': None\}: wanted a RewriterSet",
        """
        @eb.hookimpl
        def rewriters(request):
            return {"torch.relu": None}
        """,
    ),
    "its rewriters patch torch for good": Broken(
        "test_rewriters_leave_no_trace",
        r"the rewriters left F\.gelu changed",
        """
        @eb.hookimpl
        def rewriters(request):
            import torch
            gelu = torch.nn.functional.gelu
            torch.nn.functional.gelu = lambda *args, **options: gelu(*args, **options)
            return eb.RewriterSet(backend=NAME)
        """,
    ),
    "its rewriters cannot be had": Broken(
        "test_its_rewriters_can_be_listed",
        r"rewriters\(\) of 'broken' \(temporary-broken 0\) raised RuntimeError: not today",
        """
        @eb.hookimpl
        def rewriters(request):
            raise RuntimeError("not today")
        """,
    ),
    "its parameters begin on a device that it lists last": Broken(
        "test_it_says_what_it_is",
        "its parameters begin with .*'cpu'.*'gpu'",
        'INFO["devices"] = ("gpu", "cpu")',
    ),
    "it calibrates for a precision that it does not list": Broken(
        "test_it_says_what_it_is",
        "int8: calibrated, and not among its precisions",
        'INFO["calibrated"] = ("int8",)',
    ),
    "it lists no IR": Broken(
        "test_it_says_what_it_is",
        "irs",
        'INFO["irs"] = ()',
    ),
    "it lists a dtype twice": Broken(
        "test_it_says_what_it_is",
        "dtypes says something twice",
        'INFO["dtypes"] = ("float32", "float32")',
    ),
    "its precision is no parameter": Broken(
        "test_each_precision_gives_its_numbers",
        "precision",
        'INFO["precisions"] = ("fp32", "fp16")',
    ),
    "it reads best an operator set that does not exist": Broken(
        "test_numbers_of_reference_models",
        "opset",
        'INFO["opset"] = 99',
        {"model": "pointwise"},
    ),
    "check-env raises": Broken(
        "test_green_means_that_it_runs",
        "check-env is red .* raised RuntimeError: not today.*, and a small model is verified",
        """
        @eb.hookimpl
        def check_env(request):
            raise RuntimeError("not today")
        """,
    ),
    "check-env finds a page": Broken(
        "test_check_env_has_an_answer_for_every_tier",
        "found more than a line",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import passed
            return passed(request.tier, "engine", found="one\\ntwo")
        """,
    ),
    "check-env finds nothing that it names": Broken(
        "test_check_env_has_an_answer_for_every_tier",
        "does not say what was found",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import passed
            return passed(request.tier, "engine", found="")
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
    "it computes in bf16 and says fp32": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            import numpy as np
            outputs = super().execute(feed)
            return [(y.view(np.uint32) & 0xFFFF0000).view(np.float32) for y in outputs]
        """,
        {"model": "pointwise"},
    ),
    "it remembers the call before": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            outputs = super().execute(feed)
            before, self.before = getattr(self, "before", outputs), outputs
            return [y + y.dtype.type(0.01) * x.sum() for x, y in zip(before, outputs)]
        """,
        {"model": "pointwise"},
    ),
    "it is never the same": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            import numpy as np
            noise = np.random.default_rng()
            outputs = super().execute(feed)
            return [y + 0.01 * noise.standard_normal(y.shape).astype(y.dtype) for y in outputs]
        """,
        {"model": "pointwise"},
    ),
    "it gives one output of two": Broken(
        "test_numbers_of_reference_models",
        "output",
        """
        def execute(self, feed):
            return super().execute(feed)[:1]
        """,
        {"model": "convolutions"},
    ),
    "it gives torch tensors": Broken(
        "test_numbers_of_reference_models",
        "Tensor",
        """
        def execute(self, feed):
            import torch
            return [torch.from_numpy(y) for y in super().execute(feed)]
        """,
        {"model": "pointwise"},
    ),
    "it gives Python's lists": Broken(
        "test_numbers_of_reference_models",
        "list",
        """
        def execute(self, feed):
            return [y.tolist() for y in super().execute(feed)]
        """,
        {"model": "pointwise"},
    ),
    "its depthwise convolution is the first channel's": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        @eb.hookimpl
        def to_backend(request):
            import numpy as np, onnx
            from onnx import numpy_helper
            model = onnx.load(request.ir.path)
            for tensor in model.graph.initializer:
                weights = numpy_helper.to_array(tensor)
                if weights.shape == (8, 1, 3, 3):
                    first = np.repeat(weights[:1], 8, 0)
                    tensor.CopyFrom(numpy_helper.from_array(first, tensor.name))
            onnx.save(model, request.work_dir / "model.onnx")
            return ["model.onnx"]
        """,
        {"model": "convolutions"},
    ),
    "it writes another file than its parameters say": Broken(
        "test_conversion_and_loading_work_without_an_artifact",
        "",
        """
        @eb.hookimpl
        def to_backend(request):
            return [loopback.to_backend(request)[0].rename(request.work_dir / "other.onnx")]
        """,
    ),
    "it writes into another folder": Broken(
        "test_nothing_is_written_outside_the_work_dir",
        "outside its work_dir",
        """
        @eb.hookimpl
        def to_backend(request):
            import shutil, tempfile
            return [shutil.copy(request.ir.path, tempfile.mkdtemp())]
        """,
    ),
    "its artifact is a link to the IR": Broken(
        "test_a_moved_artifact_runs_in_another_process",
        "link|missing|no file",
        """
        @eb.hookimpl
        def to_backend(request):
            (request.work_dir / "model.onnx").symlink_to(request.ir.path)
            return ["model.onnx"]
        """,
    ),
    "it moves the IR": Broken(
        "test_nothing_is_written_outside_the_work_dir",
        "No such file or directory: .*/ir/model.onnx",
        """
        @eb.hookimpl
        def to_backend(request):
            return [request.ir.path.rename(request.work_dir / "model.onnx")]
        """,
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
    "it lacks what it runs": Broken(
        "test_what_it_lacks_can_be_listed",
        "it lacks node of a model that it runs",
        """
        @eb.hookimpl
        def unsupported_operators(request):
            return {"node": "no"}
        """,
    ),
    "its receipt names a precision that it does not list": Broken(
        "test_the_receipt_says_what_runs",
        "bf16",
        """
        receipt = property(lambda self: eb.Receipt(engine="mine 0", device="cpu", precision="bf16"))
        """,
    ),
    "its layers take less than no time": Broken(
        "test_timed_layers_are_told_apart",
        "wanted a TimedLayer with seconds",
        """
        @eb.hookimpl
        def time_layers(request):
            from enginebay.hooks import TimedLayer
            return [TimedLayer(name="conv", seconds=-1.0)]
        """,
    ),
    "it lets everybody write": Broken(
        "test_the_process_stays_as_it_was",
        "the umask: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os; os.umask(0)
            return Wrapper(request)
        """,
    ),
    "it turns the garbage collector off": Broken(
        "test_the_process_stays_as_it_was",
        "the garbage collector: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import gc; gc.disable()
            return Wrapper(request)
        """,
    ),
    "it computes in double from now on": Broken(
        "test_the_process_stays_as_it_was",
        "torch's dtype: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.set_default_dtype(torch.float64)
            return Wrapper(request)
        """,
    ),
    "it allows a deep recursion": Broken(
        "test_the_process_stays_as_it_was",
        "recursion: not as before",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import sys; sys.setrecursionlimit(12345)
            return Wrapper(request)
        """,
    ),
}


def source(change: str) -> str:
    text = inspect.cleandoc(change)
    if text.startswith(("def ", "receipt ", "concurrent ")):
        body = text.replace("\n", "\n    ")
        text = f"class Wrapper(loopback.LoopbackWrapper):\n    {body}"
    return SOURCE.format(change=text)
