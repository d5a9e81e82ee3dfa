"""Recurrent networks: torch's own decompositions, for an engine that has no such operator."""

from __future__ import annotations

import pytest
import torch
from packages.core.tests.rewriters.portable.engine import SMALL_ENGINE
from packages.core.tests.rewriting.lowered import lower


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(
    "network",
    [
        torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2),
        torch.nn.LSTM(3, 4, bias=False, batch_first=True),
        torch.nn.GRU(3, 4, 2, bidirectional=True),
        torch.nn.RNN(3, 4, nonlinearity="relu"),
    ],
    ids=str,
)
def test_recurrent_networks_match_torch(network):
    x = torch.randn(5, 2, 3)
    program, _ = lower(network, (x,), operators=SMALL_ENGINE, builtin=True)
    torch.testing.assert_close(program.module()(x), network(x))
