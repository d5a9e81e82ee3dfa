"""torchvision's models of pictures and videos."""

from __future__ import annotations

from typing import Any


def build(path: str, *shapes: tuple[int, ...], **options: Any) -> tuple[Any, Any]:
    """A model by its place in ``torchvision.models``, and noise of its inputs' shapes."""
    import operator

    import torch
    import torchvision

    model = operator.attrgetter(path)(torchvision.models)(weights=None, **options)
    return model, tuple(torch.rand(1, *shape) for shape in shapes)


def detector(path: str) -> tuple[Any, Any]:
    """A detector, whose input is a list of pictures."""
    import torch
    from torchvision.models import detection

    model = getattr(detection, path)(weights=None, weights_backbone=None, num_classes=4)
    if hasattr(model, "transform"):  # so that one picture takes seconds
        model.transform.min_size, model.transform.max_size = (96,), 128
    return model, ([torch.rand(3, 96, 128)],)


PICTURE = (3, 64, 64)
PATHS: dict[str, tuple[Any, ...]] = {
    "alexnet": (PICTURE,),
    "densenet121": (PICTURE,),
    "efficientnet_b0": (PICTURE,),
    "mnasnet0_5": (PICTURE,),
    "regnet_y_400mf": (PICTURE,),
    "shufflenet_v2_x0_5": (PICTURE,),
    "squeezenet1_1": (PICTURE,),
    "swin_v2_t": (PICTURE,),
    "maxvit_t": ((3, 224, 224),),
}
SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50")

MODELS = {
    **{name: (lambda name=name: build(name, *PATHS[name])) for name in PATHS},
    "googlenet": lambda: build("googlenet", PICTURE, init_weights=False, aux_logits=False),
    **{
        name: (lambda name=name: build(f"segmentation.{name}", PICTURE, weights_backbone=None))
        for name in SEGMENTERS
    },
    "r2plus1d_18": lambda: build("video.r2plus1d_18", (3, 8, 32, 32)),
    "s3d": lambda: build("video.s3d", (3, 16, 224, 224)),
    "mvit_v2_s": lambda: build("video.mvit_v2_s", (3, 16, 224, 224)),
    "swin3d_t": lambda: build("video.swin3d_t", (3, 8, 64, 64)),
    "raft_small": lambda: build("optical_flow.raft_small", (3, 128, 128), (3, 128, 128)),
    **{
        name: (lambda name=name: detector(name))
        for name in (
            "fasterrcnn_mobilenet_v3_large_320_fpn",
            "retinanet_resnet50_fpn",
            "ssdlite320_mobilenet_v3_large",
            "keypointrcnn_resnet50_fpn",
        )
    },
}
