"""Threads that rewrite one function while others stop doing so."""

from __future__ import annotations

import math
import threading

from enginebay.rewriting import RewriterSet, rewrite

ROOT = RewriterSet()


@ROOT.function("rewriting_subject.maths.root")
def one_more(ctx, x):
    return ctx.origin_func(x) + 1


def rewriting():
    return rewrite(backend="any", rewriters=[ROOT], builtin=False)


class Maths:
    """Has a function in C, and stops one thread that has just fetched it."""

    def __init__(self):
        self.root = math.sqrt
        self.stopped: threading.Thread | None = None
        self.looks = 0
        self.fetched, self.gone_on = threading.Event(), threading.Event()

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name == "root" and threading.current_thread() is self.stopped:
            self.looks += 1
            if self.looks == 2:  # the first one is hasattr
                self.fetched.set()
                self.gone_on.wait(0.2)  # the other thread may have to wait for this one
        return value


def test_a_rewriter_that_another_thread_takes_back_just_now_is_active_all_the_same(
    subject, monkeypatch
):
    maths = Maths()
    monkeypatch.setattr(subject, "maths", maths, raising=False)
    found = []

    def work():
        with rewriting():
            maths.stopped = None
            found.append(maths.root(4.0))

    with rewriting():
        maths.stopped = thread = threading.Thread(target=work)
        thread.start()
        maths.fetched.wait()
    maths.gone_on.set()
    thread.join()
    assert found == [3.0]
    assert maths.root is math.sqrt
