"""The request that a plugin's model source receives, and the errors for missing sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb
from enginebay.environment import install_command
from enginebay.errors import ModelSourceError
from enginebay.models.example_inputs import shapes_of
from enginebay.sources.plugin_sources import find_model
from enginebay.tensors.spec import TensorSpec
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ZOO = """
import enginebay as eb, torch

rewriters_ = eb.RewriterSet()

class Sized(torch.nn.Module):
    def __init__(self, request):
        super().__init__()
        self.asked = request

    def forward(self, image):
        return image * len(self.asked.codebase_config)

@rewriters_.function("torch.Tensor.__mul__")
def mul(ctx, self, other):
    return ctx.origin_func(self, other)

def build(request):
    shapes = list(request.input_shapes.values())
    return Sized(request), torch.rand(shapes[0] if shapes else (1, 3))

@eb.hookimpl
def model_sources():
    return {"zoo": build}

@eb.hookimpl
def rewriters(request):
    return rewriters_ if request.backend == "" else eb.RewriterSet()
"""


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with temporary_backend("zoo", ZOO, group="enginebay.plugins"):
        yield


@pytest.mark.parametrize(
    ("args", "shapes"),
    [
        (None, {}),
        (torch.ones(2, 3), {"": (2, 3)}),
        ((torch.ones(2, 3),), {"": (2, 3)}),
        ((torch.ones(2), torch.ones(3)), {}),
        ({"x": torch.ones(2), "y": TensorSpec("y", "float32", (4, 5))}, {"x": (2,), "y": (4, 5)}),
        ({"x": 3}, {}),
    ],
)
def test_shapes_are_read_from_example_inputs(args: Any, shapes: dict[str, Any]) -> None:
    assert shapes_of(args) == shapes


def test_model_source_receives_the_example_shapes(zoo: None, loopback: str) -> None:
    spec = {"image": TensorSpec("image", "float32", (4, 5))}
    assert eb.export("zoo:net", spec, path="net.onnx").inputs[0].dims == (4, 5)
    done = eb.deploy(
        "zoo:net",
        spec,
        backend=loopback,
        work_dir="net",
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(allow_unverified=True),
    )
    assert done.artifact.inputs[0].dims == (4, 5)


def test_export_passes_codebase_config_to_the_source(zoo: None) -> None:
    section = {"type": "zoo", "width": 7}
    source = find_model("net", section, {"": (1, 2)})
    assert source.model.asked.codebase_config == section
    assert source.model.asked.input_shapes == {"": (1, 2)}
    exported = eb.export("net", config={"codebase_config": section}, path="net.onnx")
    assert exported.inputs[0].dims == (1, 3)


def test_config_path_names_a_model_only_with_codebase_type(zoo: None) -> None:
    source = find_model("configs/net.py", {"type": "zoo"})
    assert source.model.asked.name == "configs/net.py"
    assert source.name == "net"
    with pytest.raises(
        ModelSourceError, match=r"^'configs/net\.py' does not specify which model in the file"
    ):
        find_model("configs/net.py")


def test_plugin_rewriters_apply_without_a_backend(zoo: None) -> None:
    with eb.rewrite(torch.nn.ReLU(), backend=None) as rewriting:
        torch.ones(1) * 2
    assert rewriting.report.fired["torch.Tensor.__mul__"] == 1


@pytest.mark.parametrize(
    ("model", "install"),
    [
        ("mmpretrain:resnet18", install_command("enginebay-mmpretrain")),
        ("timm:resnet18", install_command("enginebay-models[timm]")),
    ],
)
def test_missing_model_source_hints_at_its_package(
    model: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay.sources.plugin_sources.contributed", lambda hook: {})
    scheme = model.partition(":")[0]
    with pytest.raises(ModelSourceError) as caught:
        find_model(model)
    assert str(caught.value) == (
        f"'{model}' is a model of {scheme}, but no installed plugin provides this model source"
    )
    assert caught.value.hint == install
    with pytest.raises(ModelSourceError) as caught:
        find_model("resnet18", {"type": scheme})
    assert caught.value.hint == f"{install}, or name the model as file.py:attr"
