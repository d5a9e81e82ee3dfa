"""A small RetinaNet: a config of mmdet."""

model = {
    "type": "RetinaNet",
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
        "out_channels": 16,
        "start_level": 1,
        "add_extra_convs": "on_input",
        "num_outs": 5,
    },
    "bbox_head": {
        "type": "RetinaHead",
        "num_classes": 6,
        "in_channels": 16,
        "feat_channels": 16,
        "stacked_convs": 1,
        "anchor_generator": {
            "type": "AnchorGenerator",
            "octave_base_scale": 4,
            "scales_per_octave": 3,
            "ratios": [0.5, 1.0, 2.0],
            "strides": [8, 16, 32, 64, 128],
        },
    },
    "test_cfg": {
        "nms_pre": 200,
        "min_bbox_size": 0,
        "score_thr": 0.05,
        "nms": {"type": "nms", "iou_threshold": 0.5},
        "max_per_img": 100,
    },
}
test_pipeline = [{"type": "Resize", "scale": (320, 320), "keep_ratio": True}]
