"""The models of the zoo: small models from transformers, random weights, nothing to download.

A new model is a line in :data:`ZOO`: its family, its class in transformers, a kind of inputs, and
its config on top of :data:`SMALL`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    Inputs = dict[str, torch.Tensor]

#: Options of every config; transformers maps the names if an architecture has different names.
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "use_cache": False,
    "num_labels": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Animal(NamedTuple):
    """How to build a model.

    Attributes:
        family: Its row in the summary: ``text``, ``LLM``, ``vision`` …
        architecture: The class in transformers.
        inputs: Makes the example inputs by name.
        config: Its config on top of :data:`SMALL`; a dict in it is an inner config.
    """

    family: str
    architecture: str
    inputs: Callable[[], Inputs]
    config: dict[str, Any]


def tokens(length: int = 12, *also: str) -> Callable[[], Inputs]:
    """Return token ids and a mask that hides the last two; ``also`` names further ids."""

    def make() -> Inputs:
        import torch

        mask = torch.ones(1, length, dtype=torch.int64)
        mask[:, -2:] = 0
        ids = {name: torch.randint(3, 99, (1, length)) for name in ("input_ids", *also)}
        return {**ids, "attention_mask": mask}

    return make


def tokens_around_image() -> Inputs:
    """A place for each of an image's sixteen patches, then some text."""
    import torch

    ids = torch.tensor([[1, *[98] * 16, 5, 6, 7]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def pixels(size: int = 32, channels: int = 3, *batch: int) -> Callable[[], Inputs]:
    """An image, or a video where ``batch`` has the number of frames."""

    def make() -> Inputs:
        import torch

        return {"pixel_values": torch.randn(1, *batch, channels, size, size)}

    return make


def values(name: str, *shape: int) -> Callable[[], Inputs]:
    """One tensor of floating-point numbers: sound, spectrograms, series."""

    def make() -> Inputs:
        import torch

        return {name: torch.randn(*shape)}

    return make


def both(*kinds: Callable[[], Inputs]) -> Callable[[], Inputs]:
    """The inputs of several kinds together."""
    return lambda: {name: value for kind in kinds for name, value in kind().items()}


def boxes(length: int = 12) -> Callable[[], Inputs]:
    """Return the box of each token on a page of 1000 by 1000."""

    def make() -> Inputs:
        import torch

        corner = torch.randint(0, 40, (1, length, 2))
        return {"bbox": torch.cat([corner, corner + 20], -1)}

    return make


TWO = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 32}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
STAGES = {"hidden_sizes": [16, 32], "depths": [1, 1]}
WINDOWS = {"embed_dim": 16, "depths": [2, 2], "num_attention_heads": [2, 4], "window_size": 4}
PATCHES = {"image_size": 32, "patch_size": 8}
FOUR = ["stage1", "stage2", "stage3", "stage4"]
RESNET = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [16, 32],
    "depths": [1, 1],
    "layer_type": "basic",
    "out_features": ["stage2"],
}
CONVS = {
    "conv_dim": [16, 16],
    "conv_stride": [5, 4],
    "conv_kernel": [10, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
EXPERTS = {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
TEXT_TOWER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4} | {
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 32,
}
IMAGE_TOWER = {**TEXT_TOWER, **PATCHES}

ZOO: dict[str, Animal] = {
    # Text encoders
    "bert": Animal("text", "BertModel", tokens(12), {}),
    "roberta": Animal("text", "RobertaForSequenceClassification", tokens(), {}),
    "distilbert": Animal("text", "DistilBertForTokenClassification", tokens(), {"hidden_dim": 64}),
    "albert": Animal("text", "AlbertModel", tokens(), {"embedding_size": 16}),
    "electra": Animal("text", "ElectraForPreTraining", tokens(), {"embedding_size": 16}),
    "deberta-v2": Animal(
        "text",
        "DebertaV2Model",
        tokens(),
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "mpnet": Animal("text", "MPNetModel", tokens(), {}),
    "fnet": Animal("text", "FNetModel", values("inputs_embeds", 1, 12, 32), {}),
    "modernbert": Animal(
        "text", "ModernBertModel", tokens(), {"local_attention": 8, "cls_token_id": 1}
    ),
    "squeezebert": Animal("text", "SqueezeBertModel", tokens(), {"embedding_size": 32}),
    "layoutlm": Animal("text", "LayoutLMModel", both(tokens(), boxes()), {}),
    "convbert": Animal(
        "text", "ConvBertModel", tokens(), {"embedding_size": 32, "conv_kernel_size": 3}
    ),
    "longformer": Animal("text", "LongformerModel", tokens(16), {"attention_window": 4}),
    "esm": Animal("text", "EsmModel", tokens(), {"position_embedding_type": "rotary"}),
    "mobilebert": Animal(
        "text",
        "MobileBertModel",
        tokens(),
        {"embedding_size": 32, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    "perceiver": Animal(
        "text",
        "PerceiverModel",
        values("inputs", 1, 16, 24),
        {"d_model": 24, "d_latents": 32, "num_latents": 8, "num_blocks": 1}
        | {"num_self_attends_per_block": 2, "num_self_attention_heads": 4}
        | {"num_cross_attention_heads": 4},
    ),
    # Language models
    "gpt2": Animal("LLM", "GPT2LMHeadModel", tokens(), {}),
    "gpt-neox": Animal("LLM", "GPTNeoXForCausalLM", tokens(), {}),
    "opt": Animal("LLM", "OPTForCausalLM", tokens(), {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": Animal("LLM", "BloomForCausalLM", tokens(), {"n_head": 4}),
    "falcon": Animal("LLM", "FalconForCausalLM", tokens(), {}),
    "llama": Animal("LLM", "LlamaForCausalLM", tokens(), GROUPED),
    "mistral": Animal("LLM", "MistralForCausalLM", tokens(), {**GROUPED, "sliding_window": 6}),
    "qwen2": Animal("LLM", "Qwen2ForCausalLM", tokens(), GROUPED),
    "qwen3": Animal("LLM", "Qwen3ForCausalLM", tokens(), GROUPED),
    "gemma2": Animal("LLM", "Gemma2ForCausalLM", tokens(), {**GROUPED, "sliding_window": 6}),
    "phi": Animal("LLM", "PhiForCausalLM", tokens(), {}),
    "stablelm": Animal("LLM", "StableLmForCausalLM", tokens(), {"num_key_value_heads": 2}),
    "olmo2": Animal("LLM", "Olmo2ForCausalLM", tokens(), {"num_key_value_heads": 2}),
    "gptj": Animal("LLM", "GPTJForCausalLM", tokens(), {"rotary_dim": 4}),
    "cohere": Animal(
        "LLM", "CohereForCausalLM", tokens(), {"num_key_value_heads": 2, "logit_scale": 1.0}
    ),
    # Mixtures of experts
    "mixtral": Animal("MoE", "MixtralForCausalLM", tokens(), {**GROUPED, "num_local_experts": 4}),
    "qwen3-moe": Animal("MoE", "Qwen3MoeForCausalLM", tokens(), EXPERTS),
    "granite-moe": Animal(
        "MoE",
        "GraniteMoeForCausalLM",
        tokens(),
        {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "phimoe": Animal(
        "MoE",
        "PhimoeForCausalLM",
        tokens(),
        {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "deepseek-v3": Animal(
        "MoE",
        "DeepseekV3ForCausalLM",
        tokens(),
        {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "v_head_dim": 8}
        | {"qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "n_group": 2, "topk_group": 1}
        | {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
        | {"first_k_dense_replace": 1},
    ),
    # State spaces and other recurrences
    "mamba": Animal("state space", "MambaForCausalLM", tokens(), {"state_size": 8}),
    "mamba2": Animal(
        "state space",
        "Mamba2ForCausalLM",
        tokens(),
        {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
    ),
    "rwkv": Animal("state space", "RwkvForCausalLM", tokens(), {"attention_hidden_size": 32}),
    "recurrent-gemma": Animal(
        "state space",
        "RecurrentGemmaForCausalLM",
        tokens(),
        {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 8}
        | {"num_key_value_heads": 1},
    ),
    # Encoder and decoder
    "t5": Animal("encoder-decoder", "T5Model", tokens(12, "decoder_input_ids"), T5),
    "bart": Animal(
        "encoder-decoder", "BartModel", tokens(12, "decoder_input_ids"), {**TWO, **HEADS}
    ),
    "marian": Animal(
        "encoder-decoder",
        "MarianModel",
        tokens(12, "decoder_input_ids"),
        {**TWO, **HEADS, "decoder_vocab_size": 99},
    ),
    "whisper": Animal(
        "encoder-decoder",
        "WhisperForConditionalGeneration",
        lambda: {
            **values("input_features", 1, 16, 40)(),
            "decoder_input_ids": tokens(8)()["input_ids"],
        },
        {**TWO, **HEADS, "num_mel_bins": 16, "max_source_positions": 20},
    ),
    "speech-to-text": Animal(
        "encoder-decoder",
        "Speech2TextModel",
        lambda: {
            **values("input_features", 1, 24, 8)(),
            "decoder_input_ids": tokens(8)()["input_ids"],
        },
        {**TWO, **HEADS, "input_feat_per_channel": 8, "conv_channels": 16}
        | {"max_source_positions": 64, "max_target_positions": 64},
    ),
    # Images
    "vit": Animal("vision", "ViTForImageClassification", pixels(), PATCHES),
    "deit": Animal("vision", "DeiTModel", pixels(), PATCHES),
    "beit": Animal(
        "vision", "BeitModel", pixels(), {**PATCHES, "use_relative_position_bias": True}
    ),
    "dinov2": Animal("vision", "Dinov2Model", pixels(), PATCHES),
    "swin": Animal(
        "vision",
        "SwinForImageClassification",
        pixels(),
        {**WINDOWS, "image_size": 32, "patch_size": 2},
    ),
    "swinv2": Animal(
        "vision", "Swinv2Model", pixels(), {**WINDOWS, "image_size": 32, "patch_size": 2}
    ),
    "convnext": Animal(
        "vision", "ConvNextForImageClassification", pixels(), {**STAGES, "num_stages": 2}
    ),
    "resnet": Animal(
        "vision",
        "ResNetForImageClassification",
        pixels(),
        {**STAGES, "embedding_size": 16, "layer_type": "bottleneck"},
    ),
    "mobilenet-v2": Animal("vision", "MobileNetV2Model", pixels(), {"depth_multiplier": 0.25}),
    "efficientnet": Animal(
        "vision",
        "EfficientNetModel",
        pixels(),
        {"image_size": 32, "hidden_dim": 640, "width_coefficient": 0.5, "depth_coefficient": 0.2},
    ),
    "mobilevit": Animal(
        "vision",
        "MobileViTForImageClassification",
        pixels(64),
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 16, 16, 24, 24, 32, 32],
        },
    ),
    "poolformer": Animal(
        "vision",
        "PoolFormerModel",
        pixels(),
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_encoder_blocks": 2}
        | {"patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1]},
    ),
    "focalnet": Animal(
        "vision",
        "FocalNetModel",
        pixels(),
        {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32]}
        | {"focal_levels": [2, 2], "focal_windows": [3, 3]},
    ),
    "pvt-v2": Animal(
        "vision",
        "PvtV2Model",
        pixels(),
        {"image_size": 32, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}
        | {"num_attention_heads": [1, 2, 2, 4]},
    ),
    "hiera": Animal(
        "vision",
        "HieraModel",
        pixels(),
        {"embed_dim": 16, "image_size": [32, 32], "depths": [1, 1], "num_attention_heads": [1, 2]}
        | {"query_stride": [2, 2], "num_query_pool": 1, "masked_unit_size": [4, 4]},
    ),
    "levit": Animal(
        "vision",
        "LevitModel",
        pixels(64),
        {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 2, 4]}
        | {"depths": [1, 1, 1], "key_dim": [8, 8, 8]},
    ),
    "mobilevit-v2": Animal(
        "vision", "MobileViTV2Model", pixels(64), {"image_size": 64, "width_multiplier": 0.25}
    ),
    "dinov3": Animal("vision", "DINOv3ViTModel", pixels(), {**PATCHES, "num_register_tokens": 2}),
    "vitdet": Animal(
        "vision",
        "VitDetModel",
        pixels(),
        {**PATCHES, "window_block_indices": [0], "window_size": 2}
        | {"use_relative_position_embeddings": True},
    ),
    "timesformer": Animal(
        "video",
        "TimesformerModel",
        pixels(16, 3, 4),
        {"image_size": 16, "patch_size": 8, "num_frames": 4},
    ),
    "videomae": Animal(
        "video",
        "VideoMAEForVideoClassification",
        pixels(16, 3, 4),
        {"image_size": 16, "patch_size": 8, "num_frames": 4, "tubelet_size": 2},
    ),
    # Dense prediction
    "segformer": Animal(
        "segmentation",
        "SegformerForSemanticSegmentation",
        pixels(),
        {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "decoder_hidden_size": 16}
        | {"num_attention_heads": [1, 2, 2, 4]},
    ),
    "upernet": Animal(
        "segmentation",
        "UperNetForSemanticSegmentation",
        pixels(64),
        {
            "backbone_config": {
                **RESNET,
                "hidden_sizes": [8, 16, 16, 32],
                "depths": [1, 1, 1, 1],
                "out_features": FOUR,
            },
            "auxiliary_in_channels": 16,
            "hidden_size": 16,
            "pool_scales": [1, 2],
        },
    ),
    "dpt": Animal(
        "depth",
        "DPTForDepthEstimation",
        pixels(),
        {**PATCHES, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 16, 16, 32]}
        | {"num_hidden_layers": 4, "fusion_hidden_size": 16, "is_hybrid": False},
    ),
    "depth-anything": Animal(
        "depth",
        "DepthAnythingForDepthEstimation",
        pixels(),
        {
            "backbone_config": {
                **PATCHES,
                "model_type": "dinov2",
                "hidden_size": 32,
                "num_hidden_layers": 4,
                "num_attention_heads": 4,
                "out_features": FOUR,
                "reshape_hidden_states": False,
            },
            "reassemble_hidden_size": 32,
            "patch_size": 8,
            "neck_hidden_sizes": [8, 16, 16, 32],
            "fusion_hidden_size": 16,
            "head_hidden_size": 8,
        },
    ),
    "zoedepth": Animal(
        "depth",
        "ZoeDepthForDepthEstimation",
        pixels(),
        {
            "backbone_config": {
                **PATCHES,
                "model_type": "beit",
                "hidden_size": 32,
                "num_hidden_layers": 4,
                "num_attention_heads": 4,
                "intermediate_size": 64,
                "out_features": FOUR,
                "reshape_hidden_states": False,
                "use_relative_position_bias": True,
            },
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
            "bottleneck_features": 16,
            "bin_embedding_dim": 8,
            "num_relative_features": 8,
            "num_attractors": [4, 2, 2, 1],
            "bin_configurations": [
                {"n_bins": 8, "min_depth": 0.1, "max_depth": 10.0, "name": None}
            ],
        },
    ),
    "swin2sr": Animal(
        "super-resolution",
        "Swin2SRForImageSuperResolution",
        pixels(16),
        {**WINDOWS, "image_size": 16, "patch_size": 1, "upscale": 2},
    ),
    # Detection
    "detr": Animal(
        "detection",
        "DetrForObjectDetection",
        pixels(64),
        {**TWO, **HEADS, "num_queries": 5, "backbone_config": RESNET, "use_timm_backbone": False},
    ),
    "conditional-detr": Animal(
        "detection",
        "ConditionalDetrForObjectDetection",
        pixels(64),
        {**TWO, **HEADS, "num_queries": 5, "backbone_config": RESNET, "use_timm_backbone": False},
    ),
    "yolos": Animal(
        "detection",
        "YolosForObjectDetection",
        pixels(),
        {"image_size": [32, 32], "patch_size": 8, "num_detection_tokens": 5},
    ),
    "deformable-detr": Animal(
        "detection",
        "DeformableDetrForObjectDetection",
        pixels(64),
        {**TWO, **HEADS, "num_queries": 5, "backbone_config": RESNET, "use_timm_backbone": False}
        | {"num_feature_levels": 2},
    ),
    "owlvit": Animal(
        "detection",
        "OwlViTForObjectDetection",
        both(tokens(), pixels()),
        {"text_config": TEXT_TOWER, "vision_config": IMAGE_TOWER, "projection_dim": 32},
    ),
    # Sound
    "wav2vec2": Animal("audio", "Wav2Vec2Model", values("input_values", 1, 400), CONVS),
    "hubert": Animal("audio", "HubertModel", values("input_values", 1, 400), CONVS),
    "wavlm": Animal("audio", "WavLMModel", values("input_values", 1, 400), CONVS),
    "audio-spectrogram": Animal(
        "audio",
        "ASTForAudioClassification",
        values("input_values", 1, 32, 16),
        {"patch_size": 8, "num_mel_bins": 16, "max_length": 32}
        | {"frequency_stride": 8, "time_stride": 8},
    ),
    "parakeet": Animal(
        "audio",
        "ParakeetEncoder",
        values("input_features", 1, 32, 16),
        {"num_mel_bins": 16, "subsampling_conv_channels": 8, "conv_kernel_size": 5}
        | {"subsampling_factor": 4},
    ),
    # Time series
    "patchtst": Animal(
        "series",
        "PatchTSTForPrediction",
        values("past_values", 1, 32, 2),
        {"context_length": 32, "prediction_length": 8, "patch_length": 8, "patch_stride": 8}
        | {"num_input_channels": 2, "d_model": 32, "ffn_dim": 64, "loss": "mse"},
    ),
    "patchtsmixer": Animal(
        "series",
        "PatchTSMixerForPrediction",
        values("past_values", 1, 32, 2),
        {"context_length": 32, "prediction_length": 8, "patch_length": 8, "patch_stride": 8}
        | {"num_input_channels": 2, "d_model": 16, "loss": "mse"},
    ),
    # Image and text
    "clip": Animal(
        "image and text",
        "CLIPModel",
        both(tokens(), pixels()),
        {"text_config": TEXT_TOWER, "vision_config": IMAGE_TOWER, "projection_dim": 16},
    ),
    "siglip": Animal(
        "image and text",
        "SiglipModel",
        both(tokens(), pixels()),
        {"text_config": TEXT_TOWER, "vision_config": IMAGE_TOWER},
    ),
    "vilt": Animal("image and text", "ViltModel", both(tokens(), pixels()), PATCHES),
    "blip": Animal(
        "image and text",
        "BlipForImageTextRetrieval",
        both(tokens(), pixels()),
        {
            "text_config": {**TEXT_TOWER, "encoder_hidden_size": 32},
            "vision_config": IMAGE_TOWER,
        },
    ),
    "llava": Animal(
        "image and text",
        "LlavaForConditionalGeneration",
        both(tokens_around_image, pixels()),
        {
            "text_config": {**TEXT_TOWER, **GROUPED, "model_type": "llama", "use_cache": False},
            "vision_config": {**IMAGE_TOWER, "model_type": "clip_vision_model"},
            "image_token_index": 98,
        },
    ),
}


#: The least root mean square of the largest output for which differences are meaningful.
ORDER_ONE = (0.03, 30.0)


def build(name: str) -> tuple[nn.Module, Inputs]:
    """Return the model and its example inputs, the same at every call.

    Raises:
        ValueError: Its outputs are not of order 1.
    """
    return grow(name, ZOO[name], SMALL)


def grow(name: str, animal: Animal, common: dict[str, Any]) -> tuple[nn.Module, Inputs]:
    """Build a model: its own config over the common config of a zoo.

    Raises:
        ValueError: Its outputs are not of order 1.
    """
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    architecture: Any = getattr(transformers, animal.architecture)
    model = architecture(architecture.config_class(**{**common, **animal.config})).eval()
    inputs = animal.inputs()
    with torch.no_grad():
        _scale(model)
        if _fades(model, inputs):
            _record_statistics(model, inputs)
        outputs = _outputs(model, inputs)
    size = max(each.float().square().mean().sqrt() for each in outputs)
    if not ORDER_ONE[0] < size < ORDER_ONE[1]:
        raise ValueError(f"the outputs of '{name}' are {size:.2g}, expected {ORDER_ONE}")
    return model, inputs


def _outputs(model: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    import torch

    return [each for each in model(**inputs).to_tuple() if torch.is_tensor(each)]


def _fades(model: nn.Module, inputs: Inputs) -> bool:
    """True if different floats change the outputs by less than a thousandth, as biases alone do."""
    other = {n: -value if value.is_floating_point() else value for n, value in inputs.items()}
    pairs = zip(_outputs(model, inputs), _outputs(model, other), strict=True)
    return any(value.is_floating_point() for value in inputs.values()) and all(
        (left - right).abs().max() < 1e-3 * left.abs().max() for left, right in pairs
    )


def _scale(model: nn.Module) -> None:
    """Set weights that preserve a signal's size from layer to layer, for outputs of order 1.

    transformers starts from deviations of 0.02, after which outputs differ in the fourth digit.
    """
    import torch

    for module in model.modules():
        for weight in module.parameters(recurse=False):
            if weight.dim() < 2:
                weight.add_(torch.randn_like(weight), alpha=0.1)
            else:
                fan = 4 if isinstance(module, torch.nn.Embedding) else weight[0].numel()
                weight.normal_(std=1 / math.sqrt(fan))


def _record_statistics(model: nn.Module, inputs: Inputs) -> None:
    """Set batch statistics from eight random inputs, as training would.

    With different statistics the signal of some deep networks fades. With random weights, they make
    other networks chaotic: MobileNet's float32 is then off by 1e-4 from its float64.
    """
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0  # the last batch alone counts
    model(
        **{
            name: torch.randn(8 * len(value), *value.shape[1:])
            if value.dtype.is_floating_point
            else value.repeat_interleave(8, 0)
            for name, value in inputs.items()
        }
    )
    model.eval()
