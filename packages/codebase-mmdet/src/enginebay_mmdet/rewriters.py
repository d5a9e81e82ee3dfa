"""What replaces parts of mmdet while a detector is exported.

mmdet selects boxes by lists whose lengths depend on the image. Here everything stays where it is,
and what mmdet drops has a score of 0: the shapes are fixed, and one image's computation is mapped
over all images.
"""

from __future__ import annotations

from contextlib import ExitStack
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from mmcv.ops.nms import batched_nms
from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
from mmengine.structures import InstanceData
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

import enginebay as eb
from enginebay_mmdet import joining, nms, roi_align
from enginebay_mmdet.source import suppressions

if TYPE_CHECKING:
    from enginebay_mmdet.detector import Detector

REWRITERS = eb.RewriterSet()

REWRITERS.symbolic(
    "enginebay_mmdet::nms",
    is_pytorch=True,
    ir="onnx",
    arg_descriptors=["v", "v", "f", "i"],
)(nms.symbolic)
REWRITERS.symbolic(
    "enginebay_mmdet::roi_align",
    is_pytorch=True,
    ir="onnx",
    arg_descriptors=["v", "v", "f", "i", "i", "i", "b"],
)(roi_align.symbolic)


@REWRITERS.module("enginebay_mmdet.detector.Detector")
class Deployed(nn.Module):
    """The same detections, of all images at once.

    Args:
        ctx: The rewriter's context.
        module: The detector.
    """

    def __init__(self, ctx: Any, module: Detector) -> None:  # noqa: ARG002  # it is the same for every engine
        super().__init__()
        self.detector = deepcopy(module)
        for part in self.detector.modules():
            for config in suppressions(getattr(part, "test_cfg", None)):
                # Our batched_nms learns from its own options how many rows are wanted, and which
                # boxes mmdet drops before.
                config.nms.max_num = config.max_per_img
                config.nms.setdefault("min_size", config.pop("min_bbox_size", -1))

    def forward(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # as the original has it
        """Find the objects of ``Detector.forward``."""
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # torch's
            # torch.jit.trace cannot trace torch.vmap; Enginebay then traces torch.export's graph.
            raise torch.onnx.errors.UnsupportedOperatorError("torch::vmap", 1, None)
        # A map that is one pixel small in some images is none that always is.
        sizes: Any = torch.fx.experimental._config
        with sizes.patch(backed_size_oblivious=True):
            return self._detect(input)

    def _detect(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # as the original has it
        network = self.detector.network
        maps = network.extract_feat(input)
        head = getattr(network, "bbox_head", None) or network.rpn_head
        dense = isinstance(head, BaseDenseHead)
        # torch.vmap fixes the number of images at a convolution: these have run before.
        tensors, structure = tree_flatten((maps, head(maps) if dense else ()))

        def detect(image: Tensor, *mapped: Tensor) -> tuple[Tensor, Tensor]:
            maps, results = tree_unflatten([each[None] for each in mapped], structure)
            with ExitStack() as undo:
                _replace(undo, network, "extract_feat", maps)
                if dense:
                    _replace(undo, head, "forward", results)
                dets, labels = self.detector.detect(image[None])
            is_box = dets[:, 4] > 0
            return dets * is_box[:, None], torch.where(is_box, labels, -1)

        dets, labels = torch.vmap(detect)(input, *tensors)
        return {"dets": dets, "labels": labels}


def _replace(undo: ExitStack, owner: Any, method: str, result: Any) -> None:
    """Let a method of one object return a result that is there already."""
    setattr(owner, method, lambda *_: result)
    undo.callback(delattr, owner, method)


@REWRITERS.function("mmdet.models.utils.misc.filter_scores_and_topk")
def best_scores(
    ctx: Any,  # noqa: ARG001  # it is the same for every engine
    scores: Tensor,
    score_thr: float,
    topk: int,
    results: Any = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Take the best scores of one level, and set those below the threshold to 0."""
    classes = scores.shape[1]
    flat = torch.where(scores > score_thr, scores, 0).flatten()
    size: Any = flat.shape[0]
    if isinstance(size, int):
        topk = min(topk, size)
    else:  # of an image of any size: as many as there may be
        flat = torch.cat([flat, flat.new_zeros(topk)])
    best, places = flat.topk(topk)
    places = places % size  # those that fill up score 0, whatever they point to
    rows, labels = places // classes, places % classes
    if isinstance(results, dict):
        results = {name: values[rows] for name, values in results.items()}
    elif isinstance(results, list):
        results = [values[rows] for values in results]
    elif results is not None:
        results = results[rows]
    return best, labels, rows, results


@REWRITERS.function("mmcv.ops.nms.batched_nms")
def suppressed(
    ctx: Any,
    boxes: Tensor,
    scores: Tensor,
    idxs: Tensor,
    nms_cfg: Any,
    class_agnostic: bool = False,
) -> tuple[Tensor, Tensor]:
    """Suppress boxes of the same class, and sort: those that stay come first.

    What is suppressed has the best box again, with a score of 0.
    """
    if nms_cfg is None:
        every: tuple[Tensor, Tensor] = ctx.origin_func(boxes, scores, idxs, None, class_agnostic)
        return every
    size = boxes[:, 2:] - boxes[:, :2]
    scores = torch.where((size > nms_cfg.get("min_size", -1)).all(1), scores, 0)
    most = min(nms_cfg["max_num"], scores.shape[0])
    apart = boxes
    if not nms_cfg.get("class_agnostic", class_agnostic):
        apart = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
    mask = nms.kept(apart[None], scores[None], nms_cfg["iou_threshold"], most)[0]
    best, places = (scores * mask).topk(most)
    places = torch.where(best > 0, places, places[:1])
    return torch.cat([boxes[places], best[:, None]], 1), places


@REWRITERS.function("torch.onnx.is_in_onnx_export")
def no_branch_for_onnx(ctx: Any) -> bool:  # noqa: ARG001  # as all rewriters
    """Take the code that the reference takes: the other calls functions that mmdet has no more."""
    return False


@REWRITERS.function("torch.Tensor.clamp_")
def clamp_a_copy(ctx: Any, self: Tensor, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002, ARG001  # torch's names
    """Limit values as ``clamp`` does, which torch.vmap can map: it cannot map ``clamp_``."""
    return self.copy_(torch.clamp(self, min, max))


@REWRITERS.function("torch.cat")
def joined(ctx: Any, tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors of mapped images; all others as torch does."""
    if not any(map(torch._C._functorch.is_batchedtensor, tensors)):
        result: Tensor = ctx.origin_func(tensors, dim)
        return result
    joint: Tensor = joining.cat(list(tensors), dim if dim < 0 else dim - tensors[0].dim())
    return joint


@REWRITERS.function("mmdet.models.dense_heads.yolox_head.YOLOXHead.predict_by_feat")
def yolox_boxes(
    ctx: Any,  # noqa: ARG001  # as all rewriters
    self: Any,
    cls_scores: list[Tensor],
    bbox_preds: list[Tensor],
    objectnesses: list[Tensor],
    batch_img_metas: Any = None,
    cfg: Any = None,
    rescale: bool = False,
    with_nms: bool = True,
) -> list[Any]:
    """Decode all boxes of one image; those below the threshold score 0."""
    cfg = self.test_cfg if cfg is None else cfg
    first = cls_scores[0]
    priors = self.prior_generator.grid_priors(
        [each.shape[2:] for each in cls_scores], first.dtype, first.device, with_stride=True
    )
    classes, boxes, objects = (
        torch.cat([each[0].flatten(1) for each in maps], 1).T
        for maps in (cls_scores, bbox_preds, objectnesses)
    )
    scores, labels = classes.sigmoid().max(1)
    scores = scores * objects[:, 0].sigmoid()
    results = InstanceData(
        bboxes=self._bbox_decode(torch.cat(priors), boxes),
        scores=torch.where(scores >= cfg.score_thr, scores, 0),
        labels=labels,
    )
    (meta,) = batch_img_metas
    return [self._bbox_post_process(results, cfg, rescale, with_nms, meta)]


@REWRITERS.function("mmdet.models.layers.bbox_nms.multiclass_nms")
def suppressed_by_class(
    ctx: Any,
    multi_bboxes: Tensor,
    multi_scores: Tensor,
    score_thr: float,
    nms_cfg: Any,
    max_num: int = -1,
    score_factors: Tensor | None = None,
    return_inds: bool = False,
    box_dim: int = 4,
) -> Any:
    """Suppress the boxes of all classes; those below the threshold score 0."""
    if return_inds:
        return ctx.origin_func(
            multi_bboxes, multi_scores, score_thr, nms_cfg, max_num, score_factors, True, box_dim
        )
    scores = torch.where(multi_scores[:, :-1] > score_thr, multi_scores[:, :-1], 0)
    if score_factors is not None:
        scores = scores * score_factors[:, None]
    boxes = multi_bboxes.reshape(scores.shape[0], -1, box_dim).expand(*scores.shape, box_dim)
    labels = torch.arange(scores.shape[1], device=scores.device).expand_as(scores).flatten()
    dets, places = batched_nms(
        boxes.flatten(0, 1), scores.flatten(), labels, {**nms_cfg, "max_num": max_num}
    )
    return dets, labels[places]


@REWRITERS.function(
    "mmdet.models.roi_heads.roi_extractors.single_level_roi_extractor.SingleRoIExtractor.forward"
)
def pooled_regions(
    ctx: Any,  # noqa: ARG001  # as all rewriters
    self: Any,
    feats: tuple[Tensor, ...],
    rois: Tensor,
    roi_scale_factor: float | None = None,
) -> Tensor:
    """Pool each region of one image at every level, and take that of its own."""
    levels = self.map_roi_levels(rois, len(feats))
    if roi_scale_factor is not None:
        rois = self.roi_rescale(rois, roi_scale_factor)
    found = torch.zeros((), dtype=feats[0].dtype, device=feats[0].device)
    for level, (maps, layer) in enumerate(zip(feats, self.roi_layers, strict=False)):
        part = roi_align.pooled(
            maps,
            rois[None, :, 1:],
            layer.spatial_scale,
            *layer.output_size,
            layer.sampling_ratio,
            layer.aligned,
        )
        found = found + part * (levels == level).to(part.dtype)[:, None, None, None]
    return found


@REWRITERS.function("mmdet.models.task_modules.coders.delta_xywh_bbox_coder.delta2bbox")
def boxes_of_deltas(
    ctx: Any,
    rois: Tensor,
    deltas: Tensor,
    means: Any = (0.0, 0.0, 0.0, 0.0),
    stds: Any = (1.0, 1.0, 1.0, 1.0),
    max_shape: Any = None,
    wh_ratio_clip: float = 16 / 1000,
    clip_border: bool = True,
    *rest: Any,
) -> Tensor:
    """Decode boxes, and limit them to the image in a copy: the original changes views."""
    boxes = ctx.origin_func(rois, deltas, means, stds, None, wh_ratio_clip, False, *rest)
    return _inside(boxes, max_shape) if clip_border and max_shape is not None else boxes


@REWRITERS.function("mmdet.structures.bbox.transforms.distance2bbox")
def boxes_of_distances(ctx: Any, points: Tensor, distance: Tensor, max_shape: Any = None) -> Tensor:
    """Decode boxes, and limit them to the image in a copy: the original changes views."""
    boxes: Tensor = ctx.origin_func(points, distance)
    return boxes if max_shape is None else _inside(boxes, max_shape)


def _inside(boxes: Tensor, shape: Any) -> Tensor:
    x, y = boxes.reshape(*boxes.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((x.clamp(0, shape[1]), y.clamp(0, shape[0])), -1).flatten(-2)


@REWRITERS.function("mmdet.models.utils.misc.select_single_mlvl")
def maps_of_one(ctx: Any, mlvl_tensors: Any, batch_id: int, detach: bool = True) -> list[Tensor]:
    """Take the maps of the one image there is: ncnn has no layer that takes a batch apart."""
    if any(each.shape[0] != 1 for each in mlvl_tensors):
        every: list[Tensor] = ctx.origin_func(mlvl_tensors, batch_id, detach)
        return every
    return [each.squeeze(0) for each in mlvl_tensors]
