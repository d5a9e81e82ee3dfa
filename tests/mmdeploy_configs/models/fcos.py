"""A small FCOS: a config of mmdet."""

model = {
    "type": "FCOS",
    "data_preprocessor": {"type": "DetDataPreprocessor", "pad_size_divisor": 32},
    "backbone": {
        "type": "ResNet",
        "depth": 18,
        "base_channels": 8,
        "num_stages": 4,
        "out_indices": (0, 1, 2, 3),
    },
    "neck": {
        "type": "FPN",
        "in_channels": [8, 16, 32, 64],
        "out_channels": 64,
        "start_level": 1,
        "add_extra_convs": "on_output",
        "num_outs": 5,
        "relu_before_extra_convs": True,
    },
    "bbox_head": {
        "type": "FCOSHead",
        "num_classes": 6,
        "in_channels": 64,
        "feat_channels": 64,
        "stacked_convs": 1,
    },
    "test_cfg": {
        "nms_pre": 1000,
        "min_bbox_size": 0,
        "score_thr": 0.05,
        "nms": {"type": "nms", "iou_threshold": 0.5},
        "max_per_img": 100,
    },
}
test_pipeline = [{"type": "Resize", "scale": (320, 320), "keep_ratio": True}]
