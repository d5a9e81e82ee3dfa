"""``mmdet:NAME`` and ``mmdet:CONFIG.py``: any detector of mmdet."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors import (
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    quiet,
    read_options,
)
from enginebay.errors import ModelSourceError, nearest
from enginebay_mmdet.library import library
from enginebay_mmdet.model_config import image_size_of, read_config
from enginebay_mmdet.task import task_of

if TYPE_CHECKING:
    from enginebay.hooks import ModelRequest

TASK = "ObjectDetection"
#: The detections of an image where neither the model's config nor the deploy config says.
_ROWS = 100
#: What of ``mmcv.ops`` and of its suppressions can be exported; the attention has a form in Python.
_REPLACED = {"RoIAlign", "MultiScaleDeformableAttention", "nms"}
_OWN = ("model_type", "post_processing")
#: What ``post_processing`` has in MMDeploy's configs, and whether it has an effect here.
_POST_PROCESSING = {
    "score_threshold": True,
    "iou_threshold": True,
    "keep_top_k": True,
    "confidence_threshold": False,
    "max_output_boxes_per_class": False,
    "pre_top_k": False,
    "background_label_id": False,
}

_log = logging.getLogger("enginebay.mmdet")


def build(request: ModelRequest) -> Any:
    """Build a detector; an image, ``1×C×H×W float32``, of the size it is tested with; its task.

    Its pixels are noise of mean 0 and deviation 1, since the model takes normalised images.

    Raises:
        ModelSourceError: There is no such detector, or the deploy config is wrong.
        MissingDependencyError: mmdet is missing or does not import.
    """
    given = dict(request.codebase_config)
    own = {name: given.pop(name) for name in _OWN if name in given}
    options = read_options(msgspec.structs.replace(request, codebase_config=given))
    _check_task(options.task)
    if options.pretrained:
        raise ModelSourceError(
            "mmdet's own weights are not downloaded here",
            hint="download the checkpoint of the model zoo, and give it: --weights FILE",
        )
    _check_post_processing(own.get("post_processing", {}))
    with quiet():  # mmdet prints each of its optional parts that it cannot import
        return _build(request, options, own, library())


def _build(request: ModelRequest, options: Any, own: dict[str, Any], mmdet: Any) -> Any:
    import torch

    config = read_config(mmdet, request.name)
    if options.arguments:
        config.merge_from_dict({"model": options.arguments})
    size = image_size(request) or image_size_of(config)
    rows = _set_post_processing(config.model, own.get("post_processing", {}))
    from mmdet.registry import MODELS
    from mmengine.registry import DefaultScope

    with fixed_seed(), DefaultScope.overwrite_default_scope("mmdet"):
        network = MODELS.build(config.model).eval()
        _check_operators(network, request.name)
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        else:
            _vary(network, torch.randn(4, *size))
        image = torch.randn(1, *size)
    head = getattr(network, "bbox_head", None)
    if head is not None and not hasattr(head, "loss_cls"):
        head.loss_cls = None  # mmdet's heads read it, and SSD's has none
    kind = own.get("model_type", "end2end")
    model = _model(network, rows, kind).eval()
    task = task_of(config, size, candidates=kind != "end2end")
    return model, image, task, options.weights


def _model(network: Any, rows: int, kind: str) -> Any:
    """Return the detector as a module with the outputs that ``model_type`` names."""
    from mmdet.models.detectors import SingleStageDetector

    if kind == "end2end":
        from enginebay_mmdet.detector import Detector

        return Detector(network, rows)
    if kind != "ncnn_end2end":
        raise ModelSourceError(
            f"codebase_config.model_type: '{kind}' is no model_type of mmdet; there is end2end, "
            "ncnn_end2end"
        )
    if not isinstance(network, SingleStageDetector):
        raise ModelSourceError(
            f"codebase_config.model_type: ncnn_end2end is for single-stage detectors, and "
            f"this is a {type(network).__name__}",
            hint="model_type='end2end', on another backend",
        )
    from enginebay_mmdet.candidates import Candidates

    return Candidates(network)


def _check_operators(network: Any, name: str) -> None:
    """Check that mmcv's compiled operators are not needed where nothing replaces them.

    Raises:
        ModelSourceError: Some are; the message has all of them.
    """
    parts = list(network.modules())
    kinds = {type(part).__name__ for part in parts if type(part).__module__.startswith("mmcv.ops.")}
    kinds |= {
        str(test.nms.get("type", "nms"))
        for part in parts
        for test in suppressions(getattr(part, "test_cfg", None))
    }
    if missing := sorted(kinds - _REPLACED):
        raise ModelSourceError(
            f"'{name}' needs operators of mmcv that nothing replaces: {', '.join(missing)}",
            hint=f"replaced are {', '.join(sorted(_REPLACED))}",
        )


def suppressions(test_cfg: Any) -> list[Any]:
    """Return the parts of a ``test_cfg`` that say how boxes are suppressed."""
    if not test_cfg:
        return []
    parts = [test_cfg, *(test_cfg.get(name) for name in ("rpn", "rcnn"))]
    return [part for part in parts if part and part.get("nms")]


def _check_post_processing(given: Any) -> None:
    """Say which keys have no effect, and refuse those that MMDeploy does not have either.

    Raises:
        ModelSourceError: There is such a key.
    """
    for key in given:
        if key not in _POST_PROCESSING:
            guess = nearest(key, _POST_PROCESSING)
            raise ModelSourceError(
                f"codebase_config.post_processing: '{key}' is not a key of it; there is "
                f"{', '.join(_POST_PROCESSING)}",
                hint=f"did you mean '{guess}'?" if guess else None,
            )
    if idle := [key for key in given if not _POST_PROCESSING[key]]:
        _log.warning("codebase_config.post_processing: without effect: %s", ", ".join(idle))


def _set_post_processing(model: Any, given: Any) -> int:
    """Fill in what the model's ``test_cfg`` leaves out; return how many detections there are."""
    test = model.test_cfg.get("rcnn", model.test_cfg)
    if "score_threshold" in given:
        test.setdefault("score_thr", given["score_threshold"])
    if test.get("nms") and "keep_top_k" in given:
        test.setdefault("max_per_img", given["keep_top_k"])
    if test.get("nms"):
        test.nms.setdefault("iou_threshold", given.get("iou_threshold", 0.5))
        return int(test.setdefault("max_per_img", _ROWS))
    return int(test.get("max_per_img", model.get("num_queries", _ROWS)))


def _vary(network: Any, images: Any) -> None:
    """Draw the weights of neck and heads so that scores and boxes depend on the image.

    mmdet's own start values give every box of every image the same score, to two digits. Here each
    layer's results have the deviation ¼ where it is first called.
    """
    from torch import nn

    def scale(layer: Any, _: Any, result: Any) -> Any:
        hooks.pop(layer).remove()
        deviation = result.std() * 4
        layer.weight /= deviation
        return result / deviation

    hooks: dict[Any, Any] = {}
    for name in ("neck", "bbox_head", "rpn_head", "roi_head"):
        for part in getattr(network, name, nn.Module()).modules():
            if isinstance(part, nn.Conv2d | nn.Linear):
                nn.init.normal_(part.weight)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
                hooks[part] = part.register_forward_hook(scale)
    measure_norms(_whole(network), images)
    for hook in hooks.values():
        hook.remove()


def _whole(network: Any) -> Any:
    """Return a module that calls every layer of a network, for all images at once."""
    from mmdet.models.detectors import SingleStageDetector
    from torch import nn

    from enginebay_mmdet.detector import sample_of

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Any) -> Any:
            if isinstance(network, SingleStageDetector):
                return network._forward(images)
            return network.predict(images, [sample_of(images) for _ in images], rescale=False)

    return Whole()


def _check_task(task: str | None) -> None:
    if task in (None, TASK):
        return
    guess = nearest(str(task), [TASK])
    raise ModelSourceError(
        f"codebase_config.task: '{task}' is no task of mmdet; there is {TASK}",
        hint=f"did you mean '{guess}'?" if guess else f"task='{TASK}', or leave it out",
    )
