"""A narrow FCN on ResNet-18: a config of mmseg."""

model = {
    "type": "EncoderDecoder",
    "data_preprocessor": {"type": "SegDataPreProcessor", "size": (512, 512)},
    "backbone": {
        "type": "ResNetV1c",
        "depth": 18,
        "base_channels": 8,
        "stem_channels": 8,
        "contract_dilation": True,
        "dilations": (1, 1, 2, 4),
        "strides": (1, 2, 1, 1),
    },
    "decode_head": {
        "type": "FCNHead",
        "in_channels": 64,
        "channels": 16,
        "num_convs": 1,
        "concat_input": False,
        "num_classes": 4,
    },
    "test_cfg": {"mode": "whole"},
}
