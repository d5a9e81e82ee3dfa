"""A YOLOv3 on MobileNetV2: a config of mmdet."""

model = {
    "type": "YOLOV3",
    "data_preprocessor": {"type": "DetDataPreprocessor", "pad_size_divisor": 32},
    "backbone": {"type": "MobileNetV2", "out_indices": (2, 4, 6), "widen_factor": 0.5},
    "neck": {
        "type": "YOLOV3Neck",
        "num_scales": 3,
        "in_channels": [160, 48, 16],
        "out_channels": [32, 32, 32],
    },
    "bbox_head": {
        "type": "YOLOV3Head",
        "num_classes": 6,
        "in_channels": [32, 32, 32],
        "out_channels": [32, 32, 32],
        "anchor_generator": {
            "type": "YOLOAnchorGenerator",
            "base_sizes": [
                [(220, 125), (128, 222), (264, 266)],
                [(35, 87), (102, 96), (60, 170)],
                [(10, 15), (24, 36), (72, 42)],
            ],
            "strides": [32, 16, 8],
        },
        "bbox_coder": {"type": "YOLOBBoxCoder"},
        "featmap_strides": [32, 16, 8],
    },
    "test_cfg": {
        "nms_pre": 1000,
        "min_bbox_size": 0,
        "score_thr": 0.05,
        "conf_thr": 0.005,
        "nms": {"type": "nms", "iou_threshold": 0.45},
        "max_per_img": 100,
    },
}
test_pipeline = [{"type": "Resize", "scale": (416, 416), "keep_ratio": True}]
