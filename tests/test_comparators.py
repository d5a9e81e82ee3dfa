"""Comparators on real engines: a detector with suppression in the graph, and wrong detectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.comparators import find_comparators
from enginebay.errors import UsageError
from enginebay.hooks import ComparisonResult
from enginebay.verification.sample_comparison import compare_sample
from enginebay.verification.set_comparison import ToleranceOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay_testing.command_runs import Ran

#: Each engine has a single thread: on a busy machine, thread pools wait for each other.
THREADS = {"onnxruntime": "intra_op_threads", "openvino": "threads", "ncnn": "threads"}

OUTPUTS = "boxes,scores,labels"
IMAGE = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 3, 32, 32)).astype(np.float32))


class Detector(nn.Module):
    """64 anchors and 3 labels, with non-maximum suppression in the graph.

    Four neighbours each have the same score, so their order depends on the engine.

    Args:
        overlap: The largest overlap with a box of the same label and a higher score.
        least: The lowest score of a detection.
        moved: Pixels by which the boxes are moved.
        lost: The index, in the order of scores, of a detection that is lost.
        label: A number that is added to the labels.
    """

    def __init__(self, overlap=0.5, least=0.6, moved=0.0, lost=None, label=0) -> None:
        super().__init__()
        self.overlap, self.least = overlap, least
        self.moved, self.lost, self.label = moved, lost, label
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU()
        )
        self.boxes = nn.Conv2d(8, 4, 1)
        self.scores = nn.Conv2d(8, 3, 3, 2, 1)
        self.wider = nn.Upsample(scale_factor=2, mode="nearest")
        lines, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        self.register_buffer("centres", torch.stack([columns, lines], -1).reshape(-1, 2) * 4 + 2)

    def forward(self, image):
        features = self.body(image)
        offsets = self.boxes(features)[0].flatten(1).transpose(0, 1)
        scores = self.wider(self.scores(features))[0].flatten(1).transpose(0, 1)
        score, label = (scores * 8).sigmoid().max(1)
        centre = self.centres + offsets[:, :2] * 4
        half = offsets[:, 2:].sigmoid() * 8 + 3
        boxes = torch.cat([centre - half, centre + half], 1)
        score = torch.where(self._is_beaten(boxes, score, label), torch.zeros_like(score), score)
        score, order = score.topk(64)
        if self.lost is not None:
            score = score * (torch.arange(64) != self.lost)
        return boxes[order] + self.moved, score, label[order] + self.label

    def _is_beaten(self, boxes, score, label):
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        overlap = shared / (area[:, None] + area[None] - shared)
        better = (score[None] > score[:, None]) & (label[None] == label[:, None])
        return ((overlap > self.overlap) & better).any(1) | (score < self.least)


def detector(seed=0, **wrong) -> nn.Module:
    """Return a detector whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    return Detector(**wrong).eval()


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An artifact of the detector on each engine."""
    made = tmp_path_factory.mktemp("detectors")
    for backend in THREADS:
        deployment = deploy(
            backend, made / backend, verify={"compare": {OUTPUTS: "detections:0.5"}}
        )
        assert deployment.verdict == "verified", deployment.verification.summary()
    return {backend: made / backend for backend in THREADS}


def deploy(
    backend: str,
    work_dir: Path,
    model: nn.Module | None = None,
    *,
    precision="fp32",
    export=None,
    verify=None,
    **more,
):
    return eb.deploy(
        model or detector(),
        IMAGE,
        backend=backend,
        work_dir=work_dir,
        params={THREADS[backend]: 1, "precision": precision},
        export={
            "output_names": OUTPUTS.split(","),
            **(export or {}),
            **({"ir": "torchscript"} if backend == "ncnn" else {"exporter": "torchscript"}),
        },
        verify={"allow_unverified": True, **(verify or {})},
        **more,
    )


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")  # the probes that are left out warn
@pytest.mark.parametrize("backend", THREADS)
def test_detector_is_verified_in_any_order_of_detections(
    artifacts: dict[str, Path], backend: str, tmp_path: Path
) -> None:
    """Elementwise the verdict is open; as a set the detections are verified, now and later."""
    verification = eb.verify(artifacts[backend])
    assert verification.passed
    (matching,) = verification.matchings
    assert (matching.comparator, matching.outputs) == ("detections:0.5", tuple(OUTPUTS.split(",")))
    assert matching.matched > 20 * verification.samples
    assert (matching.expected_alone, matching.found_alone, matching.excused) == (0, 0, 0)
    assert {output.comparator for output in verification.outputs} == {"detections:0.5"}
    assert not eb.verify(artifacts[backend], options=eb.VerifyOptions(compare={})).passed
    (record,) = eb.open_artifact(artifacts[backend]).manifest.comparators
    assert record.comparator == "detections:0.5"
    if backend == "onnxruntime":
        found = deploy(backend, tmp_path / "elementwise")
        assert found.verification is not None
        assert found.verdict == "unverified"
        assert "name outputs whose order may differ (--compare)" in found.verification.reason


def planted():
    """Yield the arguments of detectors that are wrong in a single way."""
    rng = np.random.default_rng(0)
    for number in range(1, 13):
        change = 0.02 * number * float(rng.choice([-1, 1]))
        yield {"lost": int(rng.integers(0, 20))}
        yield {"moved": float(rng.choice([-3, 3]))}
        yield {"label": int(rng.integers(1, 3))}
        yield {"least": 0.6 + change}
        yield {"overlap": 0.5 + change}


def test_no_wrong_suppression_is_verified(artifacts: dict[str, Path]) -> None:
    """Compares an engine with wrong detectors on all samples of an artifact."""
    with eb.load(artifacts["openvino"]) as wrapper:
        images = [
            sample.inputs["image"] for sample in eb.open_artifact(artifacts["openvino"]).samples()
        ]
        found = [wrapper({"image": image}) for image in images]
    comparators = find_comparators({OUTPUTS: "detections:0.5"})
    right = [outputs_of(detector(), image) for image in images]

    def agrees(expected):
        return all(
            output.passed
            for pair in zip(expected, found, strict=True)
            for output in compare_sample(*pair, ToleranceOptions(), comparators).outputs
        )

    assert agrees(right)
    compared = []
    for wrong in planted():
        expected = [outputs_of(detector(**wrong), image) for image in images]
        if wrong.keys() & {"least", "overlap"} and not differ(expected, right):
            continue  # it makes no difference for these images
        compared.append((agrees(expected), wrong))
    assert len(compared) > 50
    assert [wrong for agreed, wrong in compared if agreed] == []


def outputs_of(model: nn.Module, image: np.ndarray) -> dict[str, np.ndarray]:
    with torch.no_grad():
        outputs = model(torch.from_numpy(image))
    return {name: array.numpy() for name, array in zip(OUTPUTS.split(","), outputs, strict=True)}


def differ(left, right) -> bool:
    """True if the detections differ, or their number."""
    pairs = zip(left, right, strict=True)
    return not all(np.array_equal(one["scores"], other["scores"]) for one, other in pairs)


class Empty(nn.Module):
    """A detector whose number of boxes depends on the input."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least = least

    def forward(self, x):
        kept = x[:, 0] > self.least
        return torch.stack([x[kept, 1], x[kept, 1], x[kept, 1] + 1, x[kept, 1] + 2], 1)


def rows(least: float, work_dir: Path, compare):
    return eb.deploy(
        Empty(least),
        torch.from_numpy(np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)),
        backend="onnxruntime",
        work_dir=work_dir,
        export={"exporter": "torchscript", "output_names": ["boxes"]},
        verify={"compare": compare, "allow_unverified": True},
    )


def test_data_dependent_number_of_detections_is_verified(tmp_path: Path) -> None:
    deployment = rows(0.0, tmp_path / "some", compare={"boxes": "detections"})
    assert deployment.verdict == "verified"
    shapes = {sample.outputs["boxes"].shape for sample in deployment.artifact.samples()}
    assert len(shapes) > 1


def test_no_detection_in_any_sample_is_unverified(tmp_path: Path) -> None:
    deployment = rows(1e9, tmp_path / "none", compare={"boxes": "detections"})
    assert deployment.verdict == "unverified"
    assert deployment.verification.reason == (
        "detections of boxes finds nothing to match in any of 7 samples"
    )


class Boxes(nn.Module):
    """A detector without labels: 8 bits exchange two labels of nearly the same score."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image):
        boxes, scores, _ = self.detector(image)
        return boxes, scores


# Its thresholds are off, so no sample takes both sides of these conditions.
@pytest.mark.filterwarnings("ignore:.*conditions never change:enginebay.VerdictWarning")
def test_wrong_int8_calibration_of_a_detector_is_a_mismatch(tmp_path: Path) -> None:
    """The verdict finds a wrong calibration, although the tolerance is a quarter."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(8, 1, 3, 32, 32)).astype(np.float32)
    np.savez(tmp_path / "good.npz", image=images)
    np.savez(tmp_path / "bad.npz", image=images * 0.1)
    good, bad = (
        deploy(
            "openvino",
            tmp_path / name,
            Boxes(detector(overlap=1.0, least=0.0)),
            precision="int8",
            data=tmp_path / f"{name}.npz",
            verify={"compare": {"boxes,scores": "detections:0.2"}, "allow_mismatch": True},
            export={"output_names": ["boxes", "scores"]},
        ).verification
        for name in ("good", "bad")
    )
    assert good.verdict == "verified", good.summary()
    assert [(one.output, one.place) for one in good.signals] == [
        ("boxes", "items"),
        ("scores", "items"),
        ("boxes", "the example"),
        ("scores", "the example"),
    ]
    assert bad.verdict == "mismatched"
    assert not bad.signals[3].passed
    assert bad.signals[3].decibels < good.signals[3].decibels - 10


MODEL = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.sigmoid(), x.nonzero()

def build():
    return Net(), torch.randn(3, 8)
"""


def test_compare_flag_applies_comparators_and_refuses_unfitting(
    cli: Callable[..., Ran],
) -> None:
    """If a comparator does not fit, the old artifact remains."""
    Path("net.py").write_text(MODEL)
    base = ("deploy", "net.py:build", "--backend", "onnxruntime", "--work-dir", "art")
    base += ("--overwrite", "--exporter", "torchscript")
    made = cli(*base, "--compare", "output_0=top-k:3", "--compare", "output_1=set")
    assert made.code == 0, made.err
    assert "compared  top-k:3 of output_0:" in made.out
    before = Path("art/manifest.json").read_bytes()
    for wrong, message in {
        "output_0=top-k:9": (
            "error: comparator 'top-k:9' expects at least 9 classes, but 'output_0' has 8"
        ),
        "output_1=detections": "error: the comparator 'detections' expects boxes of shape [N, 4]",
        "outptu_0=set": "error: unknown output 'outptu_0' for the comparator 'set'; available: ",
        "output_0=sets": "error: unknown comparator 'sets'; available: top-k",
    }.items():
        ran = cli(*base, "--compare", wrong)
        assert (ran.code, ran.err.startswith(message)) == (2, True), ran.err
    assert Path("art/manifest.json").read_bytes() == before
    again = cli("verify", "art", "--json")
    assert again.code == 0
    found = again.document["verification"]
    assert [one["comparator"] for one in found["matchings"]] == ["top-k:3", "set"]
    assert [one["comparator"] for one in found["outputs"]] == ["top-k:3", "set"]
    other = cli("verify", "art", "--compare", "output_0=top-k:1", "--json").document
    assert [one["comparator"] for one in other["verification"]["outputs"]] == ["top-k:1", ""]


def test_a_function_is_recorded_and_not_run_by_its_name(tmp_path: Path) -> None:
    def same_count(request):
        same = request.expected["boxes"].shape == request.found["boxes"].shape
        return ComparisonResult(passed=same, matched=1, reason="" if same else "another count")

    rows(0.0, tmp_path / "art", compare={"boxes": same_count})
    with pytest.raises(UsageError, match="which is Python code: an artifact may not run code"):
        eb.verify(tmp_path / "art")
    assert eb.verify(
        tmp_path / "art", options=eb.VerifyOptions(compare={"boxes": same_count})
    ).passed
