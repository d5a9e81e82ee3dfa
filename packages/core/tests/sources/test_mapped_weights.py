"""Large weights are mapped from a file, with the same values and the same sharing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from enginebay.sources import map_weights

#: 600 MB, above the size from which weights are mapped.
_SIDE = 12288


def _anonymous_memory() -> int:
    """Return the bytes of this process that stand in no file."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the figure is Linux's")
def test_large_weights_leave_the_memory_and_keep_their_values(tmp_path: Path) -> None:
    tied = nn.Linear(3, 3)
    model = nn.Sequential(nn.Linear(_SIDE, _SIDE, bias=False), tied, tied)
    model.register_buffer("steps", torch.tensor(7))
    model.register_buffer("coarse", torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
    shared = torch.arange(6.0)
    model.register_buffer("low", shared[:3])
    with torch.no_grad():
        model[0].weight.fill_(0.5)
        model[0].weight[5, 7] = -3
    before = _anonymous_memory()
    small = {name: x.clone() for name, x in model.state_dict().items() if x.numel() < _SIDE}
    map_weights(model, tmp_path)
    assert before - _anonymous_memory() > 0.9 * 4 * _SIDE**2
    assert list(tmp_path.iterdir()) == []
    weight = model[0].weight
    assert isinstance(weight, nn.Parameter)
    assert weight[5, 7] == -3
    assert (weight != 0.5).sum() == 1
    assert model[1].weight is model[2].weight
    assert all(torch.equal(model.state_dict()[name], x) for name, x in small.items())
    shared[0] = 9
    assert model.low[0] == 9  # memory that somebody else holds is theirs
    with torch.no_grad():
        weight[0] = 2  # a private copy of the page
    assert weight[0, 0] == 2
    assert weight[5, 7] == -3


def test_small_weights_and_a_folder_that_cannot_be_written_change_nothing(tmp_path: Path) -> None:
    small, large = nn.Linear(3, 3), nn.Linear(_SIDE, _SIDE, bias=False)
    places = [x.data_ptr() for x in (small.weight, large.weight)]
    map_weights(small, tmp_path)
    map_weights(large, tmp_path / "absent")
    assert [x.data_ptr() for x in (small.weight, large.weight)] == places
