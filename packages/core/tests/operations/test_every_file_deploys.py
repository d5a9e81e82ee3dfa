"""Every file that ``export`` writes deploys without options and preserves its names."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["m.onnx", "m.pt", "m.pt2"]


class One(nn.Module):
    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"mean": image.mean(1), "doubled": image * 2}


class Two(nn.Module):
    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return ids * scale


class Nested(nn.Module):
    def forward(
        self, x: torch.Tensor, extra: dict[str, list[torch.Tensor]], *, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return x + extra["a"][0], mask * extra["a"][1]


ONES = torch.ones(2, 3)
MODELS: dict[str, tuple[nn.Module, Any, list[str], list[str]]] = {
    "one": (One(), ONES, ["image"], ["mean", "doubled"]),
    "two": (Two(), (torch.arange(6).reshape(2, 3), ONES), ["ids", "scale"], ["output"]),
    "nested": (
        Nested(),
        {"x": ONES, "extra": {"a": [ONES, ONES * 2]}, "mask": ONES},
        ["x", "extra.a.0", "extra.a.1", "mask"],
        ["output_0", "output_1"],
    ),
}


def names(specs: Any) -> list[str]:
    return [spec.name for spec in specs]


def _pairs() -> list[Any]:
    """Each model as each file type, alternating fixed and open sizes; the rest is slow."""
    cases = []
    for number, (kind, file) in enumerate(product(MODELS, FILES)):
        for size in ("fixed", "open"):
            marks = [] if size == ("fixed", "open")[number % 2] else [pytest.mark.slow]
            cases.append(pytest.param(kind, file, size, marks=marks))
    return cases


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("kind", "file", "size"), _pairs())
def test_an_exported_file_deploys(
    loopback: str, tmp_path: Path, kind: str, file: str, size: str
) -> None:
    model, args, inputs, outputs = MODELS[kind]
    opened = {name: {0: "batch"} for name in inputs} if size == "open" else None
    ir = eb.export(model, args, path=tmp_path / file, dynamic=opened)
    assert (names(ir.inputs), names(ir.outputs)) == (inputs, outputs)

    deployed = eb.deploy(str(ir.path), backend=loopback, work_dir=tmp_path / "artifact")
    assert deployed.verdict == "verified"
    manifest = deployed.artifact.manifest
    assert (names(manifest.inputs), names(manifest.outputs)) == (inputs, outputs)

    again = eb.verify(deployed.artifact, reference=str(ir.path))
    assert again.verdict == "verified"


@pytest.mark.parametrize("file", FILES[1:])
def test_exporting_an_exported_file_preserves_names(tmp_path: Path, file: str) -> None:
    model, args, inputs, outputs = MODELS["one"]
    written = eb.export(model, args, path=tmp_path / file)
    for again in ("again.onnx", "again.pt"):
        ir = eb.export(str(written.path), path=tmp_path / again)
        assert (names(ir.inputs), names(ir.outputs)) == (inputs, outputs)


def test_dynamic_range_of_an_exported_program_is_preserved(loopback: str, tmp_path: Path) -> None:
    opened = {"image": {0: ("batch", 1, 5)}}
    ir = eb.export(One(), ONES, path=tmp_path / "m.pt2", dynamic=opened)
    deployed = eb.deploy(str(ir.path), backend=loopback, work_dir=tmp_path / "artifact")
    (image,) = deployed.artifact.inputs
    assert image.dims == ("batch", 3)
    sizes = [sample.inputs["image"].shape[0] for sample in deployed.artifact.samples()]
    assert sizes[:3] == [2, 1, 5]
    assert 3 in sizes  # and a prime size in between


def test_converted_file_verifies_against_the_models_example(loopback: str, tmp_path: Path) -> None:
    model, args, inputs, outputs = MODELS["nested"]
    eb.export(model, args, path=tmp_path / "m.onnx")
    converted = eb.convert(tmp_path / "m.onnx", backend=loopback, work_dir=tmp_path / "artifact")
    verification = eb.verify(converted, reference=(model, args))
    assert verification.verdict == "verified"
    assert names(converted.inputs) == inputs
    assert [output.name for output in verification.outputs] == outputs


def test_verifying_without_example_inputs_is_refused(loopback: str, tmp_path: Path) -> None:
    model, args, *_ = MODELS["two"]
    eb.export(model, args, path=tmp_path / "m.onnx")
    converted = eb.convert(tmp_path / "m.onnx", backend=loopback, work_dir=tmp_path / "artifact")
    with pytest.raises(InputError, match=r"has no example inputs\nhint: [^\n]+$"):
        eb.verify(converted, reference=model)
    with pytest.raises(UsageError, match=r"it contains no expected outputs\nhint: [^\n]+$"):
        eb.verify(converted, reference={"output": ONES})


def test_artifact_with_given_names_verifies_against_its_model(
    loopback: str, tmp_path: Path
) -> None:
    model, args, *_ = MODELS["two"]
    deployed = eb.deploy(
        *(model, args),
        backend=loopback,
        work_dir=tmp_path / "artifact",
        export=eb.ExportOptions(input_names=["a", "b"], output_names=["c"]),
    )
    for reference in (model, (model, args)):
        assert eb.verify(deployed.artifact, reference=reference).verdict == "verified"


def test_a_file_says_what_it_takes_if_no_example_is_given(loopback: str, tmp_path: Path) -> None:
    file = eb.export(One(), ONES, path=tmp_path / "m.onnx", dynamic="batch")
    bare = onnx.load(file.path)
    del bare.metadata_props[:]
    onnx.save(bare, file.path)
    with pytest.raises(InputError) as caught:
        eb.deploy(str(file.path), backend=loopback, work_dir=tmp_path / "artifact")
    assert str(caught.value).partition("\n")[0].endswith("it takes image float32[batch, 3]")
    assert str(caught.value.hint) == "--input image=1x3"


def test_a_hint_for_a_file_names_no_flag_that_files_refuse(loopback: str, tmp_path: Path) -> None:
    file = eb.export(One(), ONES, path=tmp_path / "m.onnx")
    with pytest.raises(InputError) as caught:
        eb.deploy(
            str(file.path), torch.ones(7, 3), backend=loopback, work_dir=tmp_path / "artifact"
        )
    assert str(caught.value.hint) == "give it 2: the file fixes this size"
