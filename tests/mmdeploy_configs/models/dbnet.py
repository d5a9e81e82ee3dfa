"""A narrow DBNet: a config of mmocr."""

_base_ = "mmocr::textdet/dbnet/dbnet_resnet18_fpnc_1200e_icdar2015.py"

model = {
    "backbone": {"base_channels": 8},
    "neck": {"in_channels": [8, 16, 32, 64], "lateral_channels": 64, "out_channels": 16},
    "det_head": {"in_channels": 64},
}
