"""Ten of mmpretrain's architectures, through MMDeploy's configs, on three engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

#: The smallest model of each architecture.
MODELS = (
    "resnet18_8xb32_in1k",
    "vgg11_8xb32_in1k",
    "mobilenet-v2_8xb32_in1k",
    "shufflenet-v2-1x_16xb64_in1k",
    "densenet121_3rdparty_in1k",
    "efficientnet-b0_3rdparty_8xb32_in1k",
    "repvgg-a0_8xb32_in1k",
    "convnext-v2-atto_fcmae-pre_3rdparty_in1k",
    "deit-tiny_4xb256_in1k",
    "swin-tiny_16xb64_in1k",
)
CONFIGS = {
    "onnxruntime": "onnxruntime_static",
    "openvino": "openvino_dynamic-224x224",
    "ncnn": "ncnn_static",
}
BATCH = {"dynamic": {"input": {0: "batch"}}}
#: Arguments in addition to the config's, which makes height and width dynamic for OpenVINO: the
#: graphs of these three are for one size, and deploy reports this at other sizes. ncnn converts
#: the windows of a Swin from TorchScript, not from the ONNX that the config requests.
MORE_ARGUMENTS: dict[tuple[str, str], dict[str, Any]] = {
    ("efficientnet-b0_3rdparty_8xb32_in1k", "openvino"): BATCH,
    ("deit-tiny_4xb256_in1k", "openvino"): BATCH,
    ("swin-tiny_16xb64_in1k", "openvino"): BATCH,
    ("swin-tiny_16xb64_in1k", "ncnn"): {"export": {"ir": "torchscript"}},
}


# The softmax of a network with random weights, on inputs with ten times the spread: its rounding
# errors depend on the processor.
@pytest.mark.filterwarnings("ignore:rounding alone decides:enginebay.VerdictWarning")
@pytest.mark.parametrize("backend", CONFIGS)
@pytest.mark.parametrize("model", MODELS)
def test_a_config_of_mmdeploy_deploys_a_model(
    configs: Path, tmp_path: Path, model: str, backend: str
) -> None:
    config = configs / f"classification_{CONFIGS[backend]}.py"
    more = MORE_ARGUMENTS.get((model, backend), {})
    deployment = eb.deploy(model, config=config, work_dir=tmp_path / "out", **more)
    assert deployment.verdict == "verified"
    assert deployment.rewriting is not None
    assert deployment.rewriting.fired["enginebay_mmpretrain.classifier.Classifier"] == 1
    manifest = deployment.artifact.manifest
    assert [spec.name for spec in manifest.inputs] == ["input"]
    assert [spec.name for spec in manifest.outputs] == ["output"]
    assert manifest.model_files[0].startswith("end2end.")
    (scores,) = deployment.verification.outputs
    print(f"\n{model} on {backend}: off by {scores.max_abs_error:.1e}")
