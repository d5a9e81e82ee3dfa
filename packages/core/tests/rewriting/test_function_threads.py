"""A thread rewrites a function while another thread removes its rewriter."""

from __future__ import annotations

import math
import threading

from packages.core.tests.rewriting.contexts import rewrite

from enginebay.rewriting import RewriterSet

ROOT = RewriterSet()


@ROOT.function("rewriting_subject.maths.root")
def one_more(ctx, x):
    return ctx.origin_func(x) + 1


def rewriting():
    return rewrite(backend="any", rewriters=[ROOT], builtin=False)


class Maths:
    """Has a function in C, and stops the thread ``stopped`` when it has just read the function."""

    def __init__(self):
        self.root = math.sqrt
        self.stopped: threading.Thread | None = None
        self.looks = 0
        self.fetched, self.removed = threading.Event(), threading.Event()

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name == "root" and threading.current_thread() is self.stopped:
            self.looks += 1
            if self.looks == 2:  # the first look is hasattr
                self.fetched.set()
                self.removed.wait(0.2)  # the other thread may have to wait for this thread
        return value


def test_rewriter_stays_active_while_another_thread_removes_it(subject, monkeypatch):
    maths = Maths()
    monkeypatch.setattr(subject, "maths", maths, raising=False)
    results = []

    def work():
        with rewriting():
            maths.stopped = None
            results.append(maths.root(4.0))

    with rewriting():
        maths.stopped = thread = threading.Thread(target=work)
        thread.start()
        maths.fetched.wait()
    maths.removed.set()
    thread.join()
    assert results == [3.0]
    assert maths.root is math.sqrt
