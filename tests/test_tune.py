"""The settings that change only the speed, on the backends themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab

if TYPE_CHECKING:
    from pathlib import Path

#: Backend → a parameter of each kind: one that a load reads, and one that is built into the engine.
TRIED = {
    "onnxruntime": {"graph_optimization": ["all", "basic"], "intra_op_threads": [1]},
    "openvino": {"threads": [1], "performance_hint": ["throughput"]},
    "ncnn": {"threads": [1], "winograd": [False]},
}


@pytest.mark.parametrize("name", TRIED)
def test_each_value_to_try_is_valid(name: str) -> None:
    kind = eb.get_backend(name).Params
    assert kind.speed_values
    for device in ("cpu", "cuda"):
        try:
            params = kind(device=device)
        except eb.EnginebayError:
            continue  # a device of another backend
        for field, values in kind.speed_values.items():
            found = list(values(params) if callable(values) else values)
            assert [getattr(params.replace(**{field: value}), field) for value in found] == found


@pytest.mark.parametrize("name", TRIED)
def test_an_engine_is_tuned(name: str, tmp_path: Path) -> None:
    if not eb.get_backend(name).is_available():
        pytest.skip("the engine is not installed")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3))
    options: dict[str, Any] = {"backend": name, "export": {"keep_ir": True}}
    eb.deploy(net, torch.randn(1, 3, 12, 12), work_dir=tmp_path / "net", **options)
    tuning = lab.tune(
        tmp_path / "net", work_dir=tmp_path / "fast", params=TRIED[name], duration=0.1
    )
    tried = {field for row in tuning.rows for field in row.params}
    assert tried == {*TRIED[name]}
    assert {row.verdict for row in tuning.rows} == {"verified"}
    assert all(row.latency for row in tuning.rows)
    assert (tmp_path / "fast").exists() == bool(tuning.written)
    if tuning.written and tuning.chosen:
        made = eb.open_artifact(tuning.written)
        assert tuning.chosen.params.items() <= made.manifest.params.items()
        assert eb.verify(made).verdict == "verified"
