"""A narrow YOLOX-Pose of which few boxes have a score above the threshold: a config of mmpose."""

_base_ = "mmpose::body_2d_keypoint/yoloxpose/coco/yoloxpose_tiny_4xb64-300e_coco-416.py"

model = {
    "backbone": {"widen_factor": 0.125},
    "neck": {"in_channels": [32, 64, 128], "out_channels": 32},
    "head": {"head_module_cfg": {"widen_factor": 0.125}},
    "test_cfg": {"score_thr": 0.35},
}
