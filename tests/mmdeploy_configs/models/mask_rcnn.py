"""A small Mask R-CNN: a config of mmdet.

Before operator set 16, ``RoiAlign`` makes regions smaller than a feature as large as one. Proposals
of 8 pixels, which the second stage hardly changes, are larger than a feature of the first map.
"""

_base_ = ["mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py"]
model = {
    "backbone": {"depth": 18, "base_channels": 8, "init_cfg": None},
    "neck": {"in_channels": [8, 16, 32, 64], "out_channels": 16},
    "rpn_head": {"in_channels": 16, "feat_channels": 16},
    "roi_head": {
        "bbox_roi_extractor": {"out_channels": 16},
        "bbox_head": {
            "in_channels": 16,
            "fc_out_channels": 32,
            "num_classes": 6,
            "bbox_coder": {"target_stds": [0.01, 0.01, 0.02, 0.02]},
        },
        "mask_roi_extractor": {"out_channels": 16},
        "mask_head": {
            "in_channels": 16,
            "conv_out_channels": 16,
            "num_convs": 1,
            "num_classes": 6,
        },
    },
    "test_cfg": {
        "rpn": {"nms_pre": 20, "max_per_img": 20, "min_bbox_size": 8},
        "rcnn": {"max_per_img": 10},
    },
}
test_pipeline = [{"type": "Resize", "scale": (128, 128), "keep_ratio": True}]
