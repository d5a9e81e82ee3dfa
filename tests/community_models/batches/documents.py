"""Text in images, faces, matching of images, images with text."""

from __future__ import annotations

from typing import Any


def easyocr_recogniser() -> tuple[Any, Any]:
    """A line of text; its second argument is left over from training."""
    import torch
    from easyocr.model.vgg_model import Model

    return Model(1, 32, 32, 40), (torch.rand(1, 1, 32, 100), torch.zeros(1, 25, dtype=torch.int64))


def craft() -> tuple[Any, Any]:
    """Where the characters are."""
    import torch
    from easyocr.craft import CRAFT

    return CRAFT(), torch.rand(1, 3, 64, 96)


def doctr(kind: str, name: str, height: int, width: int, **options: Any) -> tuple[Any, Any]:
    """A detector or a recogniser, which return logits where they are to be exported."""
    import torch
    from doctr import models

    network = getattr(getattr(models, kind), name)
    return network(pretrained=False, exportable=True, **options), torch.rand(1, 3, height, width)


def kornia_feature(name: str, *shape: int, **options: Any) -> tuple[Any, Any]:
    """A descriptor of patches or of a picture."""
    import torch
    from kornia import feature

    return getattr(feature, name)(**options), torch.rand(1, *shape)


def loftr() -> tuple[Any, Any]:
    """The matching of two pictures; how many matches there are depends on them."""
    import torch
    from kornia.feature import LoFTR

    pictures = {name: torch.rand(1, 1, 64, 64) for name in ("image0", "image1")}
    return LoFTR(pretrained=None), (pictures,)


def kornia_filter(name: str, *arguments: Any) -> tuple[Any, Any]:
    """A filter of pictures."""
    import torch
    from kornia import filters

    return getattr(filters, name)(*arguments), torch.rand(1, 3, 32, 40)


def augmentation() -> tuple[Any, Any]:
    """The preprocessing of an image."""
    import torch
    from kornia import augmentation, enhance

    return torch.nn.Sequential(
        augmentation.CenterCrop(24),
        augmentation.Normalize(torch.tensor([0.5]), torch.tensor([0.2])),
        enhance.AdjustContrast(0.7),
    ), torch.rand(1, 3, 32, 40)


def facenet() -> tuple[Any, Any]:
    """The embedding of a face."""
    import torch
    from facenet_pytorch import InceptionResnetV1

    return InceptionResnetV1(pretrained=None), torch.rand(1, 3, 96, 96)


def perceptual() -> tuple[Any, Any]:
    """The similarity of two images."""
    import lpips
    import torch

    model = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
    return model, (torch.rand(1, 3, 64, 64), torch.rand(1, 3, 64, 64))


def open_clip() -> tuple[Any, Any]:
    """A picture and a text in one space."""
    import torch
    from open_clip.model import CLIP

    vision = {"layers": 2, "width": 32, "head_width": 8, "patch_size": 8, "image_size": 32}
    text = {"context_length": 12, "vocab_size": 50, "width": 32, "heads": 4, "layers": 2}
    return CLIP(24, vision, text), {
        "image": torch.rand(1, 3, 32, 32),
        "text": torch.randint(1, 50, (1, 12)),
    }


def coca() -> tuple[Any, Any]:
    """The same, with a decoder that writes captions."""
    import torch
    from open_clip.coca_model import CoCa

    vision = {"layers": 2, "width": 32, "head_width": 8, "patch_size": 8, "image_size": 32}
    text = {"context_length": 12, "vocab_size": 50, "width": 32, "heads": 4, "layers": 2}
    vision |= {"attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True}
    text |= {"embed_cls": True, "output_tokens": True}
    caption = text | {"attn_pooler_heads": 4}
    return CoCa(32, caption, text, vision), {
        "image": torch.rand(1, 3, 32, 32),
        "text": torch.randint(1, 50, (1, 12)),
    }


def segment_anything() -> tuple[Any, Any]:
    """The half that runs for every click."""
    import torch
    from segment_anything.modeling import MaskDecoder, TwoWayTransformer

    transformer = TwoWayTransformer(depth=2, embedding_dim=32, num_heads=4, mlp_dim=64)
    model = MaskDecoder(transformer_dim=32, transformer=transformer)
    return model, {
        "image_embeddings": torch.randn(1, 32, 8, 8),
        "image_pe": torch.randn(1, 32, 8, 8),
        "sparse_prompt_embeddings": torch.randn(1, 2, 32),
        "dense_prompt_embeddings": torch.randn(1, 32, 8, 8),
        "multimask_output": True,
    }


def segment_anything_encoder() -> tuple[Any, Any]:
    """The half that runs once for a picture, with its windows."""
    import torch
    from segment_anything.modeling import ImageEncoderViT

    model = ImageEncoderViT(
        img_size=64,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        out_chans=16,
        use_rel_pos=True,
        window_size=3,
        global_attn_indexes=(1,),
    )
    return model, torch.rand(1, 3, 64, 64)


def esm() -> tuple[Any, Any]:
    """A protein's embedding and its contacts."""
    import torch
    from esm.model.esm2 import ESM2

    return ESM2(num_layers=2, embed_dim=32, attention_heads=4), {
        "tokens": torch.randint(4, 24, (1, 11)),
        "repr_layers": [2],
    }


MODELS = {
    "easyocr-recogniser": easyocr_recogniser,
    "craft": craft,
    "doctr-crnn": lambda: doctr(
        "recognition", "crnn_mobilenet_v3_small", 32, 128, pretrained_backbone=False
    ),
    "doctr-vitstr": lambda: doctr("recognition", "vitstr_small", 32, 128),
    "doctr-parseq": lambda: doctr("recognition", "parseq", 32, 128),
    "doctr-sar": lambda: doctr("recognition", "sar_resnet31", 32, 128, pretrained_backbone=False),
    "doctr-db": lambda: doctr(
        "detection", "db_mobilenet_v3_large", 64, 64, pretrained_backbone=False
    ),
    "doctr-linknet": lambda: doctr(
        "detection", "linknet_resnet18", 64, 64, pretrained_backbone=False
    ),
    "doctr-fast": lambda: doctr("detection", "fast_tiny", 64, 64, pretrained_backbone=False),
    "kornia-hardnet": lambda: kornia_feature("HardNet", 1, 32, 32, pretrained=False),
    "kornia-sift": lambda: kornia_feature("SIFTDescriptor", 1, 41, 41),
    "kornia-xfeat": lambda: kornia_feature("XFeatModel", 1, 64, 64),
    "loftr": loftr,
    "kornia-canny": lambda: kornia_filter("Canny"),
    "kornia-bilateral": lambda: kornia_filter("BilateralBlur", (5, 5), 0.1, (1.5, 1.5)),
    "kornia-median": lambda: kornia_filter("MedianBlur", (3, 3)),
    "kornia-augmentation": augmentation,
    "facenet": facenet,
    "lpips": perceptual,
    "open-clip": open_clip,
    "coca": coca,
    "sam-mask-decoder": segment_anything,
    "sam-image-encoder": segment_anything_encoder,
    "esm2": esm,
}
