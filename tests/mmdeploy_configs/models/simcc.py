"""A shallow SimCC on AlexNet: a config of mmpose."""

model = {
    "type": "TopdownPoseEstimator",
    "data_preprocessor": {
        "type": "PoseDataPreprocessor",
        "mean": [123.675, 116.28, 103.53],
        "std": [58.395, 57.12, 57.375],
        "bgr_to_rgb": True,
    },
    "backbone": {"type": "AlexNet"},
    "head": {
        "type": "SimCCHead",
        "in_channels": 256,
        "out_channels": 17,
        "input_size": (192, 256),
        "in_featuremap_size": (5, 7),
        "simcc_split_ratio": 2.0,
        "deconv_out_channels": None,
        "decoder": {
            "type": "SimCCLabel",
            "input_size": (192, 256),
            "sigma": 6.0,
            "simcc_split_ratio": 2.0,
        },
    },
}
