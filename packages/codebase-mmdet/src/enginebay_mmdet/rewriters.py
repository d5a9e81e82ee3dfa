"""Rewriters that replace parts of mmdet while a detector is exported.

In mmdet, the number of selected boxes depends on the image. The rewriters remove no box: a box that
mmdet removes gets a score of 0. So the shapes are fixed, and torch.vmap maps the computation for
one image over all images.
"""

from __future__ import annotations

from contextlib import ExitStack
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from mmcv.ops.nms import batched_nms
from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
from mmdet.models.dense_heads.yolo_head import YOLOV3Head
from mmdet.models.utils.misc import filter_scores_and_topk
from mmengine.structures import InstanceData
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

import enginebay as eb
from enginebay_mmdet import joining, nms, roi_align
from enginebay_mmdet.detector import OUTPUTS, select_class
from enginebay_mmdet.source import has_box_masks, suppressions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmdet.models.dense_heads.rtmdet_ins_head import RTMDetInsHead
    from mmdet.models.dense_heads.yolox_head import YOLOXHead
    from mmdet.models.roi_heads import StandardRoIHead
    from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor
    from mmengine.config import ConfigDict

    from enginebay.authors import Context
    from enginebay_mmdet.detector import Detector

REWRITERS = eb.RewriterSet()

REWRITERS.symbolic(
    "enginebay_mmdet::nms", is_pytorch=True, ir="onnx", arg_descriptors=["v", "v", "f", "i"]
)(nms.symbolic)
REWRITERS.symbolic(
    "enginebay_mmdet::roi_align",
    is_pytorch=True,
    ir="onnx",
    arg_descriptors=["v", "v", "f", "i", "i", "i", "b"],
)(roi_align.symbolic)


@REWRITERS.module("enginebay_mmdet.detector.Detector")
class Deployed(nn.Module):
    """Module that returns the detections of ``Detector``, computed for all images at once.

    Args:
        ctx: The rewriter's context.
        module: The detector.
    """

    def __init__(self, ctx: Context, module: Detector) -> None:  # noqa: ARG002  # the same for every engine
        super().__init__()
        self.detector = deepcopy(module)  # the original computes the reference
        for part in self.detector.modules():
            for config in suppressions(getattr(part, "test_cfg", None)):
                # The rewriter of batched_nms reads the number of rows and the minimum box size from
                # these options.
                config.nms.max_num = config.max_per_img
                config.nms.setdefault("min_size", config.pop("min_bbox_size", -1))
        if has_box_masks(self.detector.network):
            # Their convolutions run after torch.vmap, which would fix the batch size in them.
            self.detector.network.roi_head.predict_mask = lambda _, __, results, **___: results

    def forward(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # the name in the original
        """Return the same detections as ``Detector.forward``."""
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # torch's
            # torch.jit.trace cannot trace torch.vmap; Enginebay then traces torch.export's graph.
            raise torch.onnx.errors.UnsupportedOperatorError("torch::vmap", 1, None)
        # Do not specialise dynamic sizes that may be 1.
        sizes: Any = torch.fx.experimental._config
        with sizes.patch(backed_size_oblivious=True):
            return self._detect(input)

    def _detect(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # the name in the original
        network = self.detector.network
        maps = network.extract_feat(eb.mark(input, "detector_forward:input_0"))
        head = getattr(network, "bbox_head", None) or network.rpn_head
        dense = isinstance(head, BaseDenseHead)
        # torch.vmap fixes the batch size in convolutions: they run before it.
        results = head(maps) if dense else ()
        if isinstance(head, YOLOV3Head):
            results = (_mark_maps(*results),)
        tensors, structure = tree_flatten((maps, results))

        def detect(image: Tensor, *mapped: Tensor) -> tuple[Tensor, ...]:
            maps, results = tree_unflatten([level[None] for level in mapped], structure)
            with ExitStack() as undo:
                _replace_method(undo, network, "extract_feat", maps)
                if dense:
                    _replace_method(undo, head, "forward", results)
                dets, labels, *masks = self.detector.detect(image[None])
            # A box with score 0 is one that mmdet drops: its row becomes padding, as in Detector.
            is_box = dets[:, 4] > 0
            masks = [values.logical_and(is_box[:, None, None]) for values in masks]
            return dets * is_box[:, None], torch.where(is_box, labels, -1), *masks

        found = torch.vmap(detect)(input, *tensors)
        if has_box_masks(network):
            found += (_cut_masks(network.roi_head, maps, *found),)
        # Exporters do not infer the sizes of these: a graph without the shapes names them all.
        shape = (input.shape[0], self.detector.rows)
        return {
            name: values.reshape(*shape, *values.shape[-sizes:] if sizes else ())
            for name, values, sizes in zip(OUTPUTS, found, (1, 0, 2), strict=False)
        }


def _cut_masks(
    head: StandardRoIHead, maps: Sequence[Tensor], dets: Tensor, labels: Tensor
) -> Tensor:
    """Compute the mask of each box, for all images at once; 0 for padding."""
    labels = labels.flatten()
    # mmdet's first column is the image; pool_by_level knows it by the row.
    rois = nn.functional.pad(dets[..., :4].flatten(0, 1), (1, 0))
    logits = head._mask_forward(maps, rois)["mask_preds"]
    # Not clamp(): before operator set 12, ONNX clips floats only.
    masks = select_class(head, logits, torch.where(labels >= 0, labels, 0)).sigmoid()
    return masks * (labels >= 0)[:, None, None]


def _mark_maps(maps: Sequence[Tensor]) -> list[Tensor]:
    """Mark the predictions at which MMDeploy's ``yolov3_partition`` ends."""
    return [eb.mark(level, f"yolo_head:input_{i}") for i, level in enumerate(maps)]


def _replace_method(undo: ExitStack, owner: object, method: str, result: object) -> None:
    """Make a method of ``owner`` return ``result`` until the ``with`` block of ``undo`` ends."""
    setattr(owner, method, lambda *_: result)
    undo.callback(delattr, owner, method)


@REWRITERS.function("mmdet.models.utils.misc.filter_scores_and_topk")
def select_scores(
    ctx: Context,  # noqa: ARG001  # the same for every engine
    scores: Tensor,
    score_thr: float,
    topk: int,
    results: dict[str, Tensor] | list[Tensor] | Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, object]:
    """Return the ``topk`` best scores of a feature level, and the label and row of each score.

    The fourth returned value is ``results`` with only these rows. ``results`` has tensors, such as
    boxes, with the same rows as ``scores``. Scores of at most ``score_thr`` become 0.
    """
    classes = scores.shape[1]
    flat = torch.where(scores > score_thr, scores, 0).flatten()
    size: Any = flat.shape[0]
    if isinstance(size, int):
        topk = min(topk, size)
    else:  # dynamic image size: pad to the maximum
        flat = torch.cat([flat, flat.new_zeros(topk)])
    best, indices = flat.topk(topk)
    indices = indices % size  # padding has score 0, so its index does not matter
    rows, labels = indices // classes, indices % classes
    if isinstance(results, dict):
        results = {name: values[rows] for name, values in results.items()}
    elif isinstance(results, list):
        results = [values[rows] for values in results]
    elif results is not None:
        results = results[rows]
    return best, labels, rows, results


@REWRITERS.function("mmcv.ops.nms.batched_nms")
def suppress_boxes(
    ctx: Context,
    boxes: Tensor,
    scores: Tensor,
    idxs: Tensor,
    nms_cfg: ConfigDict | None,
    class_agnostic: bool = False,
) -> tuple[Tensor, Tensor]:
    """Suppress overlapping boxes of each class.

    Returns:
        The boxes with the score as fifth column, and the index of each box in ``boxes``. Selected
        boxes come first. Each suppressed box is replaced by the best box, with the score 0.
    """
    if nms_cfg is None:
        unchanged: tuple[Tensor, Tensor] = ctx.origin_func(
            boxes, scores, idxs, None, class_agnostic
        )
        return unchanged
    size = boxes[:, 2:] - boxes[:, :2]
    scores = torch.where((size > nms_cfg.get("min_size", -1)).all(1), scores, 0)
    # Boxes of different classes are moved apart, so that they do not overlap.
    separated = boxes
    if not nms_cfg.get("class_agnostic", class_agnostic):
        # Without idxs.to(): torch.vmap cannot decompose its check of a dynamic number of boxes.
        separated = boxes + (idxs * (boxes.max() + 1))[:, None]
    iou, most = nms_cfg["iou_threshold"], nms_cfg["max_num"]
    mask = nms.select_boxes(separated[None], scores[None], iou, most)[0]
    kept = scores * mask
    if isinstance(kept.shape[0], int):
        best, indices = kept.topk(min(most, kept.shape[0]))
        first = indices[:1]
    else:
        # The smaller of a number and a dynamic one cannot be traced: zeros fill up the number.
        best, indices = nn.functional.pad(kept, (0, most)).topk(most)
        first = kept.argmax()
    indices = torch.where(best > 0, indices, first)
    return torch.cat([boxes[indices], best[:, None]], 1), indices


@REWRITERS.function("torch.onnx.is_in_onnx_export")
def disable_onnx_branch(ctx: Context) -> bool:  # noqa: ARG001  # as all rewriters
    """Return False: if this were True, mmdet would import a module that no longer exists."""
    return False


@REWRITERS.function("torch.Tensor.clamp_")
def clamp_a_copy(
    ctx: Context,  # noqa: ARG001  # as all rewriters
    self: Tensor,
    min: float | None = None,  # noqa: A002  # torch's name
    max: float | None = None,  # noqa: A002  # torch's name
) -> Tensor:
    """Replace ``clamp_``, which torch.vmap cannot map, by ``clamp`` and ``copy_``."""
    return self.copy_(torch.clamp(self, min, max))


@REWRITERS.function("torch.cat")
def join_mapped(ctx: Context, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Call ``joining.cat`` for tensors that torch.vmap maps, and ``torch.cat`` for others."""
    if not any(map(torch._C._functorch.is_batchedtensor, tensors)):
        result: Tensor = ctx.origin_func(tensors, dim)
        return result
    joint: Tensor = joining.cat(list(tensors), dim if dim < 0 else dim - tensors[0].dim())
    return joint


@REWRITERS.function("torch.nn.functional.interpolate")
def enlarge_mapped(ctx: Context, input: Tensor, *rest: object, **options: Any) -> Tensor:  # noqa: A002  # torch's name
    """Enlarge tensors that torch.vmap maps by multiplications with weights of rows and columns.

    Of the operator torch makes a gather of the neighbours of each pixel there, which operator set
    11 cannot express.
    """
    mapped = torch._C._functorch.is_batchedtensor(input)
    if not mapped or rest or options.keys() != {"scale_factor", "mode"}:  # as RTMDet-Ins calls it
        result: Tensor = ctx.origin_func(input, *rest, **options)
        return result
    rows, columns = (_weigh_neighbours(side, options["scale_factor"]) for side in input.shape[2:])
    return rows @ input @ columns.T


def _weigh_neighbours(size: int, factor: int) -> Tensor:
    """Return the weights of bilinear interpolation, ``(size·factor)×size``."""
    places = ((torch.arange(size * factor) + 0.5) / factor - 0.5).clamp(0, size - 1)
    return (1 - (places[:, None] - torch.arange(size)).abs()).clamp(min=0)


@REWRITERS.function("mmdet.models.dense_heads.yolox_head.YOLOXHead.predict_by_feat")
def decode_yolox(
    ctx: Context,  # noqa: ARG001  # as all rewriters
    self: YOLOXHead,
    cls_scores: list[Tensor],
    bbox_preds: list[Tensor],
    objectnesses: list[Tensor],
    batch_img_metas: Any = None,
    cfg: ConfigDict | None = None,
    rescale: bool = False,
    with_nms: bool = True,
) -> list[InstanceData]:
    """Return the detections of one image; boxes with scores below the threshold get score 0."""
    cfg = self.test_cfg if cfg is None else cfg
    first = cls_scores[0]
    priors = self.prior_generator.grid_priors(
        [level.shape[2:] for level in cls_scores], first.dtype, first.device, with_stride=True
    )
    classes, boxes, objects = (
        torch.cat([level[0].flatten(1) for level in maps], 1).T
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


@REWRITERS.function("mmdet.models.dense_heads.yolo_head.YOLOV3Head.predict_by_feat")
def decode_yolov3(
    ctx: Context,  # noqa: ARG001  # as all rewriters
    self: YOLOV3Head,
    pred_maps: Sequence[Tensor],
    batch_img_metas: Any = None,
    cfg: ConfigDict | None = None,
    rescale: bool = False,
    with_nms: bool = True,
) -> list[InstanceData]:
    """Return the detections of one image; boxes below ``conf_thr`` get score 0."""
    cfg = self.test_cfg if cfg is None else cfg
    sizes = [level.shape[-2:] for level in pred_maps]
    anchors = self.prior_generator.grid_priors(sizes, device=pred_maps[0].device)
    rows = [level[0].permute(1, 2, 0).reshape(-1, self.num_attrib) for level in pred_maps]
    strides = [
        level.new_tensor(stride).expand(level.shape[0], 1)
        for level, stride in zip(rows, self.featmap_strides, strict=True)
    ]
    values = torch.cat(rows)
    boxes = self.bbox_coder.decode(
        torch.cat(anchors),
        torch.cat([values[:, :2].sigmoid(), values[:, 2:4]], 1),
        torch.cat(strides),
    )
    objects = values[:, 4].sigmoid()
    is_object = objects >= cfg.get("conf_thr", -1)
    scores, labels, chosen, _ = filter_scores_and_topk(
        values[:, 5:].sigmoid() * is_object[:, None], cfg.score_thr, cfg.nms_pre
    )
    results = InstanceData(
        scores=scores, labels=labels, bboxes=boxes[chosen], score_factors=objects[chosen]
    )
    (meta,) = batch_img_metas
    return [self._bbox_post_process(results, cfg, rescale, with_nms, meta)]


@REWRITERS.function(
    "mmdet.models.dense_heads.rtmdet_ins_head.RTMDetInsHead._mask_predict_by_feat_single"
)
def multiply_masks(
    ctx: Context,  # noqa: ARG001  # as all rewriters
    self: RTMDetInsHead,
    mask_feat: Tensor,
    kernels: Tensor,
    priors: Tensor,
) -> Tensor:
    """Multiply matrices, where mmdet convolves with a group and kernels of 1×1 for each object."""
    height, width = mask_feat.shape[-2:]
    points = self.prior_generator.single_level_grid_priors(
        (height, width), level_idx=0, device=mask_feat.device
    )
    offsets = (priors[:, None, :2] - points) / (priors[:, None, 2:3] * 8)
    features = mask_feat.flatten(1).expand(priors.shape[0], -1, -1)
    values = torch.cat([offsets.transpose(1, 2), features], 1)
    weights, biases = self.parse_dynamic_params(kernels)
    last = len(weights) - 1
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        matrix = weight.reshape(priors.shape[0], -1, values.shape[1])
        values = matrix @ values + bias.reshape(priors.shape[0], -1, 1)
        values = values.relu() if i < last else values
    return values.reshape(-1, height, width)


@REWRITERS.function("mmdet.models.layers.bbox_nms.multiclass_nms")
def suppress_by_class(
    ctx: Context,
    multi_bboxes: Tensor,
    multi_scores: Tensor,
    score_thr: float,
    nms_cfg: Mapping[str, object],
    max_num: int = -1,
    score_factors: Tensor | None = None,
    return_inds: bool = False,
    box_dim: int = 4,
) -> object:
    """Suppress overlapping boxes of each class; scores below the threshold become 0.

    Returns:
        The boxes with the score as fifth column, and the label of each box. If ``return_inds``
        is True, mmdet's own function is called instead, and its result is returned.
    """
    if return_inds:
        return ctx.origin_func(
            multi_bboxes, multi_scores, score_thr, nms_cfg, max_num, score_factors, True, box_dim
        )
    scores = torch.where(multi_scores[:, :-1] > score_thr, multi_scores[:, :-1], 0)
    if score_factors is not None:
        scores = scores * score_factors[:, None]
    boxes = multi_bboxes.reshape(scores.shape[0], -1, box_dim).expand(*scores.shape, box_dim)
    labels = torch.arange(scores.shape[1], device=scores.device).expand_as(scores).flatten()
    dets, indices = batched_nms(
        boxes.flatten(0, 1), scores.flatten(), labels, {**nms_cfg, "max_num": max_num}
    )
    return dets, labels[indices]


@REWRITERS.function(
    "mmdet.models.roi_heads.roi_extractors.single_level_roi_extractor.SingleRoIExtractor.forward"
)
def pool_by_level(
    ctx: Context,  # noqa: ARG001  # as all rewriters
    self: SingleRoIExtractor,
    feats: tuple[Tensor, ...],
    rois: Tensor,
    roi_scale_factor: float | None = None,
) -> Tensor:
    """Pool each region at all feature levels; return each region's result at its assigned level.

    The regions are those of all images in turn, as many of each.
    """
    levels = self.map_roi_levels(rois, len(feats))
    if roi_scale_factor is not None:
        rois = self.roi_rescale(rois, roi_scale_factor)
    pooled = torch.zeros((), dtype=feats[0].dtype, device=feats[0].device)
    for level, (maps, layer) in enumerate(zip(feats, self.roi_layers, strict=False)):
        part = roi_align.pool_regions(
            maps,
            rois[:, 1:].reshape(maps.shape[0], -1, 4),
            layer.spatial_scale,
            *layer.output_size,
            layer.sampling_ratio,
            layer.aligned,
        )
        pooled = pooled + part * (levels == level).to(part.dtype)[:, None, None, None]
    return pooled


@REWRITERS.function("mmdet.models.task_modules.coders.delta_xywh_bbox_coder.delta2bbox")
def decode_deltas(
    ctx: Context,
    rois: Tensor,
    deltas: Tensor,
    means: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
    stds: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    max_shape: Sequence[int] | None = None,
    wh_ratio_clip: float = 16 / 1000,
    clip_border: bool = True,
    *rest: object,
) -> Tensor:
    """Decode boxes, and return clipped copies, whereas mmdet's code clips views in place."""
    boxes = ctx.origin_func(rois, deltas, means, stds, None, wh_ratio_clip, False, *rest)
    return _clip_boxes(boxes, max_shape) if clip_border and max_shape is not None else boxes


@REWRITERS.function("mmdet.structures.bbox.transforms.distance2bbox")
def decode_distances(
    ctx: Context, points: Tensor, distance: Tensor, max_shape: Sequence[int] | None = None
) -> Tensor:
    """Decode boxes, and return clipped copies, whereas mmdet's code clips views in place."""
    boxes: Tensor = ctx.origin_func(points, distance)
    return boxes if max_shape is None else _clip_boxes(boxes, max_shape)


def _clip_boxes(boxes: Tensor, shape: Sequence[int]) -> Tensor:
    x, y = boxes.reshape(*boxes.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((x.clamp(0, shape[1]), y.clamp(0, shape[0])), -1).flatten(-2)


@REWRITERS.function("mmdet.models.utils.misc.select_single_mlvl")
def select_maps(
    ctx: Context, mlvl_tensors: Sequence[Tensor], batch_id: int, detach: bool = True
) -> list[Tensor]:
    """Return the feature maps of one image of a batch."""
    if any(level.shape[0] != 1 for level in mlvl_tensors):
        unchanged: list[Tensor] = ctx.origin_func(mlvl_tensors, batch_id, detach)
        return unchanged
    return [level.squeeze(0) for level in mlvl_tensors]  # ncnn has no layer that splits a batch
