"""``mmpose:NAME`` and ``mmpose:CONFIG.py``: any estimator of mmpose for points in single images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from enginebay.authors.files import quiet
from enginebay.authors.sources import Options, fixed_seed, image_size, load_weights
from enginebay.errors import ModelSourceError
from enginebay_mmpose.library import MMPOSE
from enginebay_mmpose.task import make_task
from enginebay_openmmlab import check_post_processing, spread_outputs, wrap_size_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest

#: The number of people if the deploy config does not specify it.
_DEFAULT_ROWS = 100
#: What each head returns; a subclass that is listed before its base returns something else.
_HEADS = {
    "AssociativeEmbeddingHead": "",
    "Heatmap3DHead": "",
    "HeatmapHead": "heatmaps",
    "CPMHead": "heatmaps",
    "MSPNHead": "heatmaps",
    "RTMCCHead": "simcc",
    "RTMWHead": "simcc",
    "SimCCHead": "simcc",
    "RegressionHead": "coordinates",
    "RLEHead": "coordinates",
    "YOLOXPoseHead": "people",
}


class EstimatorOptions(Options, frozen=True, kw_only=True):
    """The keys of ``codebase_config`` for pose estimators.

    Attributes:
        task: The only task.
        export_postprocess: Only False: the artifact's task finds the points in SimCC's scores.
        post_processing: Settings that are used if the model's ``test_cfg`` does not have them.
    """

    task: Literal["PoseDetection"] | None = None
    export_postprocess: bool = False
    post_processing: dict[str, float] = {}


def build_estimator(
    request: ModelRequest,
) -> tuple[nn.Module, Tensor, dict[str, object] | None, str]:
    """Build a pose estimator.

    Returns:
        The estimator; an example image, ``1×C×H×W float32``; the estimator's image task, or None;
        and the origin of the weights as text.

    Raises:
        ModelSourceError: The estimator does not exist, or ``codebase_config`` is wrong.
        MissingDependencyError: mmpose is missing or cannot be imported.
    """
    options = check_section(request)
    config = MMPOSE.read_config(request.name, options.arguments)
    size = image_size(request) or read_image_size(config)
    import torch

    with quiet(), fixed_seed():
        network: Any = MMPOSE.build(config, request.name)
        form = _head_form(network, request.name)
        model = _wrap_network(network, form, options.post_processing)
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size)
        hint = (
            "--input sets another size, but some networks and heads are made for one, such as "
            + "x".join(map(str, read_image_size(config)))
        )
        with wrap_size_errors(request.name, size, hint):
            if not options.checkpoint:
                # As many as a norm of small maps needs: of few, it amplifies what they differ in.
                count = max(2, 2**18 // (size[1] * size[2]))
                heads = [part for name, part in network.named_children() if name != "backbone"]
                spread_outputs(model, heads, torch.randn(count, *size))
            with torch.no_grad():
                points = next(iter(model(image).values())).shape[1]
    return model, image, make_task(config, size, form, points), options.weights


def check_section(request: ModelRequest) -> EstimatorOptions:
    """Check ``codebase_config``, and return its options.

    Raises:
        ModelSourceError: A key is unknown, or a value is wrong for any estimator.
    """
    options = MMPOSE.read_options(request, EstimatorOptions)
    if options.export_postprocess:
        raise ModelSourceError(
            "codebase_config.export_postprocess: True is not supported",
            hint="remove it: the artifact's task finds the points in the outputs",
        )
    check_post_processing(options.post_processing)
    return options


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of the images that a config tests with.

    Example:
        >>> read_image_size({"model": {"head": {"decoder": {"input_size": (192, 256)}}}})
        (3, 256, 192)
    """
    model = config["model"]
    decoder = (model.get("head") or {}).get("decoder") or {}
    # A head with several stages has a decoder for each.
    decoder = decoder[-1] if isinstance(decoder, list) else decoder
    size = decoder.get("input_size") or (model.get("test_cfg") or {}).get("input_size")
    width, height = size or (192, 256)
    return (model.get("backbone") or {}).get("in_channels", 3), height, width


def _head_form(network: Any, name: str) -> str:
    """Return what the head returns: ``heatmaps``, ``simcc``, ``coordinates`` or ``people``.

    Raises:
        ModelSourceError: The head returns something else, such as points in space.
    """
    parents = [parent.__name__ for parent in type(getattr(network, "head", None)).__mro__]
    form = next((form for known, form in _HEADS.items() if known in parents), "")
    if not form:
        listed = ", ".join(known for known, form in _HEADS.items() if form)
        raise ModelSourceError(
            f"'{name}' has a head that cannot be deployed: {parents[0]}",
            hint=f"heads that can be deployed: {listed}, and classes derived from them",
        )
    return form


def _wrap_network(network: Any, form: str, section: Mapping[str, float]) -> nn.Module:
    from enginebay_mmpose.estimator import Estimator, PeopleFinder

    if form != "people":
        return Estimator(network).eval()
    test = network.head.test_cfg
    # As in MMDeploy, what the model's config says comes first.
    test.setdefault("score_thr", section.get("score_threshold", 0.05))
    test.setdefault("nms_thr", section.get("iou_threshold", 0.5))
    return PeopleFinder(network, max(1, int(section.get("keep_top_k", _DEFAULT_ROWS)))).eval()
