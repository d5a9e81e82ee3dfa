"""``mmdet:NAME`` and ``mmdet:CONFIG.py``: any detector of mmdet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from enginebay.authors.files import quiet
from enginebay.authors.sources import Options, fixed_seed, image_size, load_weights
from enginebay.errors import ModelSourceError
from enginebay_mmdet.library import MMDET
from enginebay_mmdet.task import make_task
from enginebay_openmmlab import check_post_processing, spread_outputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmdet.models.detectors import BaseDetector
    from mmengine.config import ConfigDict
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest

#: The number of detections if neither the model's config nor the deploy config specifies it.
_DEFAULT_ROWS = 100
#: Modules and suppressions of ``mmcv.ops`` that can be exported; the attention is pure Python.
_REPLACED_OPERATORS = {"RoIAlign", "MultiScaleDeformableAttention", "nms"}


class DetectorOptions(Options, frozen=True, kw_only=True):
    """The keys of ``codebase_config`` for detectors.

    Attributes:
        task: The only task.
        model_type: ``ncnn_end2end`` for a model without non-maximum suppression.
        post_processing: Settings that are used if the model's ``test_cfg`` does not have them.
    """

    task: Literal["ObjectDetection"] | None = None
    model_type: Literal["end2end", "ncnn_end2end"] = "end2end"
    post_processing: dict[str, Any] = {}


def build_detector(request: ModelRequest) -> tuple[nn.Module, Tensor, dict[str, object], str]:
    """Build a detector.

    Returns:
        The detector; an example image, ``1×C×H×W float32``; the detector's image task; and the
        origin of the weights as text.

    Raises:
        ModelSourceError: The detector does not exist, or ``codebase_config`` is wrong.
        MissingDependencyError: mmdet is missing or cannot be imported.
    """
    options = check_section(request)
    config = MMDET.read_config(request.name, options.arguments)
    import torch

    size = image_size(request) or read_image_size(config)
    rows = _set_post_processing(config.model, options.post_processing)
    with quiet(), fixed_seed():
        network: Any = MMDET.build(config, request.name)
        _check_operators(network, request.name)
        _check_masks(network, request.name, options)
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        else:
            heads = ("neck", "bbox_head", "rpn_head", "roi_head")
            parts = [getattr(network, name) for name in heads if hasattr(network, name)]
            # mmdet's own initial values give every box of every image nearly the same score.
            spread_outputs(_make_full_network(network), parts, torch.randn(4, *size))
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size)
    head = getattr(network, "bbox_head", None)
    if head is not None and not hasattr(head, "loss_cls"):
        head.loss_cls = None  # mmdet reads this attribute, which SSD's head lacks
    model = _wrap_network(network, rows, options.model_type).eval()
    candidates = options.model_type != "end2end"
    masks = "" if candidates else read_mask_form(network)
    task = make_task(config, size, candidates=candidates, masks=masks)
    return model, image, task, options.weights


def check_section(request: ModelRequest) -> DetectorOptions:
    """Check ``codebase_config``, and return its options.

    Raises:
        ModelSourceError: A key is unknown, or a value is wrong for any detector.
    """
    options = MMDET.read_options(request, DetectorOptions)
    check_post_processing(options.post_processing)
    return options


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of a config's test images after resizing and padding.

    Example:
        >>> resize = {"type": "Resize", "scale": (1333, 800), "keep_ratio": True}
        >>> read_image_size({"model": {}, "test_pipeline": [resize]})
        (3, 800, 1344)
    """
    sizes = [step["scale"] for step in config.get("test_pipeline", ()) if "scale" in step]
    width, height = sizes[-1] if sizes else (640, 640)
    divisor = config["model"].get("data_preprocessor", {}).get("pad_size_divisor", 32)
    return 3, -(-height // divisor) * divisor, -(-width // divisor) * divisor


def _wrap_network(network: BaseDetector, rows: int, kind: str) -> nn.Module:
    from mmdet.models.detectors import SingleStageDetector

    if kind == "end2end":
        from enginebay_mmdet.detector import Detector, return_box_masks

        if has_box_masks(network):
            return_box_masks(network.roi_head)
        return Detector(network, rows)
    if not isinstance(network, SingleStageDetector):
        raise ModelSourceError(
            "codebase_config.model_type: 'ncnn_end2end' is for single-stage detectors, but the "
            f"model is a {type(network).__name__}",
            hint="use model_type='end2end' and another backend",
        )
    from enginebay_mmdet.candidates import Candidates

    return Candidates(network)


def _check_operators(network: BaseDetector, name: str) -> None:
    """Check that all compiled operators of mmcv that a detector needs have a replacement.

    Raises:
        ModelSourceError: Some operators have no replacement; the message lists them.
    """
    parts = list(network.modules())
    kinds = {type(part).__name__ for part in parts if type(part).__module__.startswith("mmcv.ops.")}
    kinds |= {
        str(test.nms.get("type", "nms"))
        for part in parts
        for test in suppressions(getattr(part, "test_cfg", None))
    }
    if missing := sorted(kinds - _REPLACED_OPERATORS):
        raise ModelSourceError(
            f"'{name}' requires operators of mmcv that cannot be replaced: {', '.join(missing)}",
            hint=f"operators with a replacement: {', '.join(sorted(_REPLACED_OPERATORS))}",
        )


def has_box_masks(network: BaseDetector) -> bool:
    """Whether a network computes a mask inside of each box, as Mask R-CNN does."""
    return bool(getattr(getattr(network, "roi_head", None), "with_mask", False))


def read_mask_form(network: BaseDetector) -> str:
    """Return how a network's masks lie: ``box``, ``image``, or an empty text without masks."""
    if has_box_masks(network):
        return "box"
    kinds = type(getattr(network, "bbox_head", None)).__mro__
    return "image" if any(kind.__name__ == "RTMDetInsHead" for kind in kinds) else ""


def _check_masks(network: BaseDetector, name: str, options: DetectorOptions) -> None:
    """Check that a network with masks is one whose masks can be exported as the config asks.

    Raises:
        ModelSourceError: The head is not Mask R-CNN's, or its masks are asked for as pixels of the
            image.
    """
    if not has_box_masks(network):
        return
    kinds = type(network.roi_head).__name__, type(network.roi_head.mask_head).__name__
    if kinds != ("StandardRoIHead", "FCNMaskHead"):
        raise ModelSourceError(
            f"'{name}' has masks that cannot be exported: of {' and '.join(kinds)}",
            hint="the masks of StandardRoIHead with FCNMaskHead, and of RTMDet-Ins, can be",
        )
    if options.post_processing.get("export_postprocess_mask"):
        raise ModelSourceError(
            "codebase_config.post_processing.export_postprocess_mask: True is not for "
            f"'{name}', whose masks are exported as they lie in the boxes",
            hint="set export_postprocess_mask=False",
        )


def suppressions(test_cfg: ConfigDict | None) -> list[ConfigDict]:
    """Return the parts of a ``test_cfg`` that configure non-maximum suppression."""
    if not test_cfg:
        return []
    parts = [test_cfg, *(test_cfg.get(name) for name in ("rpn", "rcnn"))]
    return [part for part in parts if part and part.get("nms")]


def _set_post_processing(model: ConfigDict, section: Mapping[str, Any]) -> int:
    """Copy options from ``section`` to the model's ``test_cfg``, except options set there already.

    Args:
        model: The model's config.
        section: The section ``post_processing`` of ``codebase_config``.

    Returns:
        The number of detections for each image.
    """
    if not model.get("test_cfg"):
        model.test_cfg = {}  # mmdet's own default is None
    test = model.test_cfg.get("rcnn", model.test_cfg)
    if "score_threshold" in section:
        test.setdefault("score_thr", section["score_threshold"])
    if test.get("nms") and "keep_top_k" in section:
        test.setdefault("max_per_img", section["keep_top_k"])
    if test.get("nms"):
        test.nms.setdefault("iou_threshold", section.get("iou_threshold", 0.5))
        return int(test.setdefault("max_per_img", _DEFAULT_ROWS))
    return int(test.get("max_per_img", model.get("num_queries", _DEFAULT_ROWS)))


def _make_full_network(network: BaseDetector) -> nn.Module:
    """Return a module that calls every layer of a network, for all images at once."""
    from mmdet.models.detectors import SingleStageDetector
    from torch import nn

    from enginebay_mmdet.detector import make_sample

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Tensor) -> object:
            if isinstance(network, SingleStageDetector):
                return network._forward(images)
            return network.predict(images, [make_sample(images) for _ in images], rescale=False)

    return Whole()
