from __future__ import annotations

import io
import logging
import sys
import threading
import time
import warnings

import pytest
import torch
from rich.console import Console
from rich.progress import Progress

from enginebay.ir.muted_output import quiet


def test_only_output_of_other_threads_is_shown(capsys) -> None:
    with quiet() as notes:
        warnings.warn("noise", DeprecationWarning, stacklevel=1)
        logging.getLogger("torch.onnx").error("noise")
        print("noise")
        print("noise", file=sys.stderr)
        other = threading.Thread(target=lambda: print("progress", file=sys.stderr))
        other.start()
        other.join()
    assert capsys.readouterr() == ("", "progress\n")
    assert notes == []


def test_tracer_warnings_become_notes_once() -> None:
    with quiet() as notes:
        for _ in range(2):
            warnings.warn("Be careful. Very long.", torch.jit.TracerWarning, stacklevel=1)
    assert len(notes) == 1
    assert notes[0].startswith("tracing: Be careful (ir/test_quiet.py:")


def test_streams_and_filters_are_restored_after_an_exception() -> None:
    before = sys.stdout, sys.stderr, logging.getLogger("torch").level, warnings.filters[:]
    with pytest.raises(RuntimeError), quiet():
        raise RuntimeError
    after = sys.stdout, sys.stderr, logging.getLogger("torch").level, warnings.filters[:]
    assert after == before


def test_nested_progress_bar_is_hidden_and_does_not_hang(monkeypatch) -> None:
    """Two of rich's proxies once wrote to each other forever, on every terminal."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")

    def calibrate() -> None:
        with Progress(console=Console()) as ours:
            task = ours.add_task("before")
            with quiet():
                ours.update(task, description="ours")
                time.sleep(0.3)  # three refreshes of the bar
                assert "ours" in terminal.getvalue()
                with Progress(console=Console()) as theirs:
                    for _ in theirs.track(range(4), description="theirs", update_period=0.01):
                        time.sleep(0.05)

    thread = threading.Thread(target=calibrate, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert "theirs" not in terminal.getvalue()
