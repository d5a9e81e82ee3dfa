"""The share of each layer of an engine, and the modules that it comes from."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from enginebay.hooks import TimedLayer
from enginebay_lab.measurement.layer_timing import _add_shares


@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_shares_are_fractions_that_sum_to_one(seconds: list[float]) -> None:
    timed = [TimedLayer(name=str(index), seconds=each) for index, each in enumerate(seconds)]
    layers = _add_shares(timed, {})
    assert [layer.name for layer in layers] == [layer.name for layer in timed]
    assert [layer.seconds for layer in layers] == seconds
    assert all(0 <= layer.share <= 1 for layer in layers)
    total = sum(layer.share for layer in layers)
    assert total == (pytest.approx(1) if sum(seconds) else 0)


def test_layers_that_took_no_time_have_no_share() -> None:
    assert [layer.share for layer in _add_shares([TimedLayer(name="a", seconds=0.0)] * 2, {})] == [
        *(0.0, 0.0)
    ]


def test_a_fused_layer_names_each_module_once() -> None:
    timed = TimedLayer(name="fused", seconds=1.0, nodes=("conv", "bias", "relu", "unknown"))
    (layer,) = _add_shares([timed], {"conv": "body.0", "bias": "body.0", "relu": "body.1"})
    assert layer.modules == ("body.0", "body.1")
    assert layer.nodes == ("conv", "bias", "relu", "unknown")
