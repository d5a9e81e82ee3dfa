"""Artifacts that cannot be moved, and conversions with side effects."""

from __future__ import annotations

from .plugin import Broken


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


def _does_at_each_new_size(code: str) -> str:
    """The source of a wrapper that runs code in the first call with each shape."""
    return f"""
        class Wrapper(Wrapper):
            sizes = set()

            def execute(self, feed):
                shape = next(iter(feed.values())).shape
                if shape not in self.sizes:
                    self.sizes.add(shape)
                    {code}
                return super().execute(feed)
        """


BROKEN = {
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
        "the backend changed the folder",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os, tempfile; os.chdir(tempfile.gettempdir())
            return Wrapper(request)
        """,
    ),
    "it sets a variable": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed os.environ",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os, uuid; os.environ['ENGINE_RUN'] = uuid.uuid4().hex
            return Wrapper(request)
        """,
    ),
    "it seeds NumPy": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed NumPy's random state",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import numpy; numpy.random.seed(0)
            return Wrapper(request)
        """,
    ),
    "it draws numbers": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed Python's random state",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import random; random.random()
            return Wrapper(request)
        """,
    ),
    "it seeds torch": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed torch's random state",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.rand(1)
            return Wrapper(request)
        """,
    ),
    "it takes the signals": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed signal handlers",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import signal; signal.signal(signal.SIGTERM, lambda *_: None)
            return Wrapper(request)
        """,
    ),
    "it makes warnings of NumPy errors": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed NumPy's errors",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import numpy; numpy.seterr(under='raise')
            return Wrapper(request)
        """,
    ),
    "it turns gradients off": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed torch's gradients",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.set_grad_enabled(False)
            return Wrapper(request)
        """,
    ),
    "it logs everything": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed the log level",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import logging; logging.getLogger().setLevel(1)
            return Wrapper(request)
        """,
    ),
    "it leaves a daemon": Broken(
        "test_no_process_is_left",
        "found .* sleep running",
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
        "the inherited wrapper raised no error",
        """
        class Wrapper(Wrapper):
            def disown(self):
                pass
        """,
    ),
    "its converter outlives it": Broken(
        "test_a_kill_leaves_nothing",
        "found .* sleep running",
        _runs_while_converting("sleep 600 >/dev/null 2>&1"),
    ),
    "its converter outlives it unseen": Broken(
        "test_a_kill_leaves_nothing",
        "found .* sleep running",
        _runs_while_converting("exec env -i sleep 30"),
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
        "no file .*/ir/model.onnx",
        """
        @eb.hookimpl
        def to_backend(request):
            return [request.ir.path.rename(request.work_dir / "model.onnx")]
        """,
    ),
    "it lets everybody write": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed the umask",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os; os.umask(0)
            return Wrapper(request)
        """,
    ),
    "it turns the garbage collector off": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed the garbage collector",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import gc; gc.disable()
            return Wrapper(request)
        """,
    ),
    "it computes in double from now on": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed torch's dtype",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.set_default_dtype(torch.float64)
            return Wrapper(request)
        """,
    ),
    "it allows a deep recursion": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed recursion",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import sys; sys.setrecursionlimit(12345)
            return Wrapper(request)
        """,
    ),
    "the path of the IR is in its artifact": Broken(
        "test_its_files_name_no_folder_of_the_build",
        "note: expected a file that works on other machines, found the path",
        """
        @eb.hookimpl
        def to_backend(request):
            (request.work_dir / "note").write_text(f"made from {request.ir.path}")
            return [*loopback.to_backend(request), "note"]
        """,
    ),
    "it sets a variable to the same value each time": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed os.environ",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import os; os.environ["ENGINE_THREADS"] = "1"
            return Wrapper(request)
        """,
    ),
    "it prints fewer digits": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed NumPy's print options",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import numpy; numpy.set_printoptions(precision=3)
            return Wrapper(request)
        """,
    ),
    "it takes one of torch's threads": Broken(
        "test_the_process_stays_as_it_was",
        "the backend changed torch's threads",
        """
        @eb.hookimpl
        def build_wrapper(request):
            import torch; torch.set_num_threads(1)
            return Wrapper(request)
        """,
    ),
    "it compiles for each size": Broken(
        "test_a_new_size_is_not_compiled_at_the_call",
        "expected the first call with a size to take about",
        _does_at_each_new_size("import time; time.sleep(0.3)"),
    ),
    "it starts a compiler for each size": Broken(
        "test_a_new_size_is_not_compiled_at_the_call",
        "found the processes subprocess.Popen",
        _does_at_each_new_size('import subprocess; subprocess.run(["true"], check=True)'),
    ),
    "it writes a file for each size": Broken(
        "test_a_new_size_is_not_compiled_at_the_call",
        "found the files",
        _does_at_each_new_size("import tempfile; tempfile.mkstemp()"),
    ),
}
