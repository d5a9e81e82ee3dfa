from __future__ import annotations

import logging
import sys
import threading
import warnings

import pytest
import torch

from enginebay.ir.noise import quiet


def test_nothing_gets_out_but_what_other_threads_print(capsys) -> None:
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


def test_everything_is_back_after_an_exception() -> None:
    before = sys.stdout, sys.stderr, logging.getLogger("torch").level, warnings.filters[:]
    with pytest.raises(RuntimeError), quiet():
        raise RuntimeError
    after = sys.stdout, sys.stderr, logging.getLogger("torch").level, warnings.filters[:]
    assert after == before
