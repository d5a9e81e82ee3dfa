"""A file is judged against the PyTorch model that it was exported from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import enginebay as eb
from enginebay.errors import EnginebayError, InputError, NotVerifiedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

IDS, MASK = torch.randint(0, 50, (2, 6)), torch.ones(2, 6, dtype=torch.int64)
AXES = {0: "batch", 1: "tokens"}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 8), nn.Linear(8, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        hidden = self.table(ids) * mask[..., None]
        return {"logits": self.head(hidden), "steps": (hidden, hidden.sum(1))}


class Window(nn.Module):
    """Takes the mean of half of the columns: a number that a tracer freezes."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x[..., : (int(x.shape[-1]) + 1) // 2].mean(-1, keepdim=True)


class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3 if x.sum().item() == 7 else x + 1


def write(model: nn.Module, folder: Path, args: tuple[Tensor, ...], **options: Any) -> Path:
    path = folder / "model.onnx"
    torch.onnx.export(model.eval(), args, path, dynamo=False, **options)
    return path


def deploy(file: Path, model: object, args: Any = None, **verify: Any) -> eb.Deployment:
    return eb.deploy(
        file,
        args,
        backend="loopback",
        work_dir=file.parent / "out",
        verify={"reference": model, **verify},
    )


def write_encoder(model: Encoder, folder: Path, outputs: tuple[str, ...]) -> Path:
    return write(
        model,
        folder,
        (IDS, MASK),
        input_names=["ids", "mask"],
        output_names=[*outputs],
        # As transformers' exporter does it, each input has names of its own.
        dynamic_axes={"ids": AXES, "mask": {0: "b", 1: "n"}},
    )


def test_a_right_file_is_verified_on_the_domain_of_its_model(tmp_path: Path) -> None:
    model = Encoder().eval()
    file = write_encoder(model, tmp_path, ("logits", "steps.0", "steps.1"))
    found = deploy(file, (model, (IDS, MASK))).verification
    assert found.verdict == "verified"
    assert found.reference == "the PyTorch model, unpatched ('Encoder')"
    assert found.basis is not None
    assert found.basis.range is not None
    text = found.basis.range.describe()
    assert "ids below 50 of 50" in text
    assert "mask 0%..100% ones" in text
    assert "batch 1..16" in text
    assert "tokens 1..24" in text


@pytest.mark.parametrize("row", [2, 12, 23, 49])
def test_a_wrong_row_of_a_table_is_found_wherever_it_is(tmp_path: Path, row: int) -> None:
    model, ids = Encoder().eval(), torch.randint(4, 10, (2, 6))
    file = write_encoder(model, tmp_path, ("logits", "steps.0", "steps.1"))
    with torch.no_grad():
        model.table.weight[row] += 1
    with pytest.raises(NotVerifiedError, match="mismatched"):
        deploy(file, (model, (ids, MASK)))


def test_a_file_with_a_frozen_number_is_refused_at_the_size_where_it_differs(
    tmp_path: Path,
) -> None:
    example = {"x": torch.randn(1, 8)}
    # At the example's size, the frozen number is right.
    fixed = write(Window(), tmp_path, (torch.randn(1, 8),), input_names=["x"])
    found = deploy(fixed, Window(), example, probes=0, allow_unverified=True)
    assert found.verdict == "verified"
    found.artifact.path.rename(tmp_path / "fixed")
    file = write(
        Window(), tmp_path, (torch.randn(1, 8),), dynamic_axes={"x": {1: "w"}}, input_names=["x"]
    )
    with pytest.raises(NotVerifiedError, match="w=") as caught:
        deploy(file, Window(), example)
    assert caught.value.verdict.verdict == "mismatched"


def test_what_python_reads_is_a_limit_of_a_file_of_another_exporter(tmp_path: Path) -> None:
    file = write(Step(), tmp_path, (torch.randn(1, 8),), input_names=["x"])
    with pytest.warns(eb.VerdictWarning, match="Python reads a value that depends on the inputs"):
        deploy(file, Step(), {"x": torch.randn(1, 8)})


@pytest.mark.parametrize(
    "outputs", [("logits", "steps.0", "steps.1"), ("a", "b", "c")], ids=["by name", "in order"]
)
def test_outputs_are_found_by_name_or_in_order(outputs: tuple[str, ...], tmp_path: Path) -> None:
    model = Encoder().eval()
    file = write_encoder(model, tmp_path, outputs)
    found = deploy(file, model, {"ids": IDS, "mask": MASK}).verification
    assert [output.name for output in found.outputs] == [*outputs]


def test_a_file_may_have_some_of_the_outputs(tmp_path: Path) -> None:
    model = Encoder().eval()
    file = write_encoder(model, tmp_path, ("logits", "steps.0", "steps.1"))
    proto = onnx.load(file)
    del proto.graph.output[1:]
    onnx.save(proto, file)
    found = deploy(file, model, {"ids": IDS, "mask": MASK}).verification
    assert [output.name for output in found.outputs] == ["logits"]


class Narrow(nn.Module):
    """Refuses fewer than four columns, and keeps what it has seen then."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1

    def forward(self, x: Tensor) -> Tensor:
        self.factor = min(self.factor, x.shape[1] // 4)
        if not self.factor:
            raise ValueError("too narrow")
        return x * self.factor


def test_a_run_that_fails_leaves_nothing_in_the_model(tmp_path: Path) -> None:
    file = write(
        Narrow(), tmp_path, (torch.randn(2, 8),), input_names=["x"], dynamic_axes={"x": {1: "w"}}
    )
    found = deploy(file, Narrow(), {"x": torch.randn(2, 8)}).verification
    assert found.verdict == "verified"
    assert found.basis is not None
    assert any("too narrow" in each for each in found.basis.dropped)


class Bare(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return ids * 2.0


class Single(nn.Module):
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return ids * mask * 2.0


WRONG: list[tuple[Any, type[EnginebayError], str]] = [
    (Bare(), InputError, "the reference 'Bare' does not fit 'model.onnx'"),
    (Single(), InputError, "the model returns output; expected outputs: logits, steps.0, steps.1"),
    ("model.onnx", UsageError, "the reference 'model.onnx' is not a PyTorch model"),
    ("net.py:missing", EnginebayError, "net.py"),
]


@pytest.mark.parametrize(
    ("model", "kind", "text"), WRONG, ids=["inputs", "outputs", "file", "name"]
)
def test_a_reference_that_does_not_fit_is_refused_by_name(
    model: Any, kind: type[EnginebayError], text: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_encoder(Encoder().eval(), tmp_path, ("logits", "steps.0", "steps.1"))
    with pytest.raises(kind, match=text):
        deploy(file.relative_to(tmp_path), model, {"ids": IDS, "mask": MASK})


def test_an_artifact_of_a_file_is_verified_again_against_its_model(tmp_path: Path) -> None:
    model = Encoder().eval()
    file = write_encoder(model, tmp_path, ("logits", "steps.0", "steps.1"))
    inputs = {"ids": IDS, "mask": MASK}
    built = eb.deploy(file, inputs, backend="loopback", work_dir=tmp_path / "out")
    found = eb.verify(built.artifact, reference=model)
    assert found.verdict == "verified"
    assert found.basis is not None
    # The file takes ids below 0, which the model refuses.
    assert any("index out of range" in each for each in found.basis.dropped)
