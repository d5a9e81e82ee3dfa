"""A small RTMDet-Ins: a config of mmdet."""

_base_ = ["mmdet::rtmdet/rtmdet-ins_tiny_8xb32-300e_coco.py"]
model = {
    "backbone": {"deepen_factor": 0.1, "widen_factor": 0.125, "init_cfg": None},
    "neck": {"in_channels": [32, 64, 128], "out_channels": 32},
    "bbox_head": {"num_classes": 6, "in_channels": 32, "feat_channels": 32},
    "test_cfg": {"nms_pre": 20, "max_per_img": 10},
}
test_pipeline = [{"type": "Resize", "scale": (640, 640), "keep_ratio": True}]
