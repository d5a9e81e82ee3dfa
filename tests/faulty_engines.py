"""Engines that are right for the arrays that a trial used to pass, and for no others."""

from __future__ import annotations

#: The loopback backend with another ``execute``, whose engine is ``self.run``.
SOURCE = """
import numpy as np
from enginebay_testing import loopback
from enginebay_testing.loopback import *

check_env, to_backend = loopback.check_env, loopback.to_backend

class Engine(LoopbackWrapper):
    results = {{}}
    #: What all engines of a process share.
    shared = {{}}

    def run(self, feed):
        return super().execute(feed)

    def run_torch(self, feed):
        import torch
        outputs = self.run({{name: x.numpy() for name, x in feed.items()}})
        return [torch.from_numpy(np.array(y)) for y in outputs]
{method}

@eb.hookimpl
def build_wrapper(request):
    return Engine(request)

@eb.hookimpl
def backend_info():
    dtypes = loopback.backend_info().dtypes
    return eb.BackendInfo(name="faulty", irs=("onnx",), params=LoopbackParams, dtypes=dtypes)
"""
RIGHT = """
    native_device = "cpu"
    def execute_torch(self, feed):
        return self.run_torch(feed)
"""
FAULTS = {
    "writes into arrays": """
    def execute(self, feed):
        outputs = [y.copy() for y in self.run(feed)]
        for x in feed.values():
            if x.flags.writeable:
                x[...] = 0
        return outputs
""",
    "reads memory in order": """
    def execute(self, feed):
        import ctypes
        read = lambda x: np.frombuffer(ctypes.string_at(x.ctypes.data, x.nbytes), x.dtype)
        return self.run({name: read(x).reshape(x.shape) for name, x in feed.items()})
""",
    "writes into what is read-only": """
    def execute(self, feed):
        for x in feed.values():
            x *= 1
        return self.run(feed)
""",
    "is twice as large for tensors": """
    native_device = "cpu"
    def execute_torch(self, feed):
        return [y * 2 for y in self.run_torch(feed)]
""",
    "writes into tensors": """
    native_device = "cpu"
    def execute_torch(self, feed):
        outputs = self.run_torch(feed)
        for x in feed.values():
            x += 1
        return outputs
""",
    "gives tensors for arrays": """
    def execute(self, feed):
        import torch
        return [torch.from_numpy(np.array(y)) for y in self.run(feed)]
""",
    "gives lists": """
    def execute(self, feed):
        return [y.tolist() for y in self.run(feed)]
""",
    "gives an output too much": """
    def execute(self, feed):
        return [*self.run(feed), np.zeros(1)]
""",
    "keeps the first result of a shape": """
    def execute(self, feed):
        key = tuple(x.shape for x in feed.values())
        return self.results.setdefault(key, self.run(feed))
""",
    "returns one buffer again and again": """
    def execute(self, feed):
        for place, y in enumerate(self.run(feed)):
            self.results.setdefault((place, y.shape), y)[...] = y
        return [y for y in self.results.values()]
""",
    "keeps the result of an array by its address": """
    def execute(self, feed):
        for x in feed.values():  # kept, so that no other array gets its address
            self.results.setdefault(x.ctypes.data, (x, [y.copy() for y in self.run(feed)]))
        return [y.copy() for y in self.results[x.ctypes.data][1]]
""",
    "is right in the thread that loaded it": """
    def execute(self, feed):
        import threading
        factor = 1 if threading.current_thread() is threading.main_thread() else 2
        return [y * factor for y in self.run(feed)]
""",
}

#: Faults that one wrapper, in one process and thread, with new arrays for each call does not show.
HIDDEN_FAULTS = {
    "keeps the result of an object": """
    def execute(self, feed):
        kept = self.__dict__.setdefault("kept", [])
        for arrays, outputs in kept:
            if all(x is y for x, y in zip(arrays, feed.values())):
                return outputs
        kept.append((list(feed.values()), self.run(feed)))
        return kept[-1][1]
""",
    "loads what a file's name loaded before": """
    def __init__(self, request):
        super().__init__(request)
        self._evaluator = self.shared.setdefault(request.files[0], self._evaluator)
""",
    "loads what a folder's name loaded before": """
    def __init__(self, request):
        super().__init__(request)
        self._evaluator = self.shared.setdefault(request.directory.name, self._evaluator)
""",
    "loads what a path loaded before": """
    def __init__(self, request):
        super().__init__(request)
        self._evaluator = self.shared.setdefault(str(request.directory), self._evaluator)
""",
    "gives zeros the second time": """
    def execute(self, feed):
        key = tuple((x.shape, x.tobytes()) for x in feed.values())
        again, self.last = key == self.__dict__.get("last"), key
        return [y * (not again) for y in self.run(feed)]
""",
    "takes its range from its first input": """
    def execute(self, feed):
        first = {name: abs(x).max() * 1000 for name, x in feed.items()}
        limits = self.__dict__.setdefault("limits", first)
        return self.run({name: x.clip(-limits[name], limits[name]) for name, x in feed.items()})
""",
    "gives zeros when loaded again": """
    def __init__(self, request):
        super().__init__(request)
        self.number = self.shared[0] = self.shared.get(0, 0) + 1

    def execute(self, feed):
        return [y * (self.number < 2) for y in self.run(feed)]
""",
    "overwrites what another wrapper returned": """
    def execute(self, feed):
        outputs = self.run(feed)
        for wrapper, last in self.shared.items():
            if wrapper != id(self):
                for y in last:
                    y[...] = 0
        self.shared[id(self)] = outputs
        return outputs
""",
    "gives zeros beside another wrapper": """
    def __init__(self, request):
        super().__init__(request)
        self.shared[0] = self

    def execute(self, feed):
        return [y * (self.shared[0] is self) for y in self.run(feed)]
""",
    "writes into its folder and reads it": """
    def __init__(self, request):
        super().__init__(request)
        mark = request.directory / "kept"
        self.is_new = not mark.exists()
        mark.touch()

    def execute(self, feed):
        return [y * self.is_new for y in self.run(feed)]
""",
}
