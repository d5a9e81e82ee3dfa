"""Recurrent networks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from enginebay.errors import ConversionError
from enginebay_ncnn.lowerings import recurrent

OPTIONS = [
    {},
    {"bidirectional": True, "num_layers": 2, "bias": False},
    {"batch_first": True, "bidirectional": True},
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_match_torch(check, kind):
    parts = [kind(4, 3, **options) for options in OPTIONS]
    if kind is nn.RNN:
        parts.append(kind(4, 3, nonlinearity="relu"))
    check(*((part.eval(), torch.randn(2, 5, 4)) for part in parts))


def test_initial_states_as_inputs_match_torch(check):
    lstm, gru = nn.LSTM(4, 3).eval(), nn.GRU(4, 3).eval()
    x, hidden, cell = torch.randn(5, 2, 4), torch.randn(1, 2, 3), torch.randn(1, 2, 3)
    check((lambda x, h, c: lstm(x, (h, c)), x, hidden, cell), (gru, x, hidden))


@pytest.mark.parametrize("first", [False, True])
def test_too_many_steps_are_refused(lowered, monkeypatch, first):
    monkeypatch.setattr(recurrent, "_MAX_STEPS", 8)
    gru = nn.GRU(2, 2, batch_first=first).eval()
    x = torch.randn(9, 1, 2)
    with pytest.raises(ConversionError, match="expected at most 8, found 9"):
        lowered(gru, [x.transpose(0, 1) if first else x])
