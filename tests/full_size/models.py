"""The models: published architectures with random weights, at the sizes of their inputs.

If an architecture has several widths, this list has a small width, to save memory and time. A new
model is a line in :data:`MODELS`, as in the zoo.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.zoo.models import FOUR, Animal, grow, pixels, tokens, values

if TYPE_CHECKING:
    from torch import nn

    from tests.zoo.models import Inputs

#: Options of every config.
COMMON = {"use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

SIZES = ("224²", "384²", "640²", "512 tokens", "10 s of sound")
SMALL_IMAGE, IMAGE, LARGE_IMAGE, TEXT, SOUND = (partial(Animal, size) for size in SIZES)

TINY = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
NARROW = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
SIX = {**NARROW, "num_hidden_layers": 6}
RESNET_18 = {
    "model_type": "resnet",
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
}
B0 = {"hidden_dim": 1280, "width_coefficient": 1.0, "depth_coefficient": 1.0}
QUERIES = {"backbone_config": {**RESNET_18, "out_features": ["stage4"]}, "use_timm_backbone": False}
SECONDS = values("input_values", 1, 160_000)
FRAMES = {"encoder_layers": 4, "decoder_layers": 4, "d_model": 384}
FRAMES |= {"encoder_attention_heads": 6, "decoder_attention_heads": 6}
FRAMES |= {"encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536}

MODELS: dict[str, Animal] = {
    "resnet-18": SMALL_IMAGE("ResNetForImageClassification", pixels(224), RESNET_18),
    "resnet-50": SMALL_IMAGE("ResNetForImageClassification", pixels(224), {}),
    "mobilenet-v2": SMALL_IMAGE("MobileNetV2ForImageClassification", pixels(224), {}),
    "efficientnet-b0": SMALL_IMAGE("EfficientNetForImageClassification", pixels(224), B0),
    "convnext-tiny": SMALL_IMAGE("ConvNextForImageClassification", pixels(224), {}),
    "vit-tiny": SMALL_IMAGE("ViTForImageClassification", pixels(224), TINY),
    "swin-tiny": SMALL_IMAGE("SwinForImageClassification", pixels(224), {}),
    "poolformer-s12": SMALL_IMAGE("PoolFormerForImageClassification", pixels(224), {}),
    "levit-128": SMALL_IMAGE("LevitForImageClassification", pixels(224), {}),
    "pvt-v2-b0": SMALL_IMAGE(
        "PvtV2ForImageClassification", pixels(224), {"hidden_sizes": [32, 64, 160, 256]}
    ),
    "vit-small": IMAGE("ViTForImageClassification", pixels(384), {**NARROW, "image_size": 384}),
    "deit-tiny": IMAGE("DeiTForImageClassification", pixels(384), {**TINY, "image_size": 384}),
    "beit-small": IMAGE(
        "BeitForImageClassification",
        pixels(384),
        {**NARROW, "image_size": 384, "use_relative_position_bias": True},
    ),
    "swin-tiny-384": IMAGE(
        "SwinForImageClassification", pixels(384), {"image_size": 384, "window_size": 12}
    ),
    "convnext-v2-atto": IMAGE(
        "ConvNextV2ForImageClassification",
        pixels(384),
        {"hidden_sizes": [40, 80, 160, 320], "depths": [2, 2, 6, 2]},
    ),
    "mobilevit-v2": IMAGE("MobileViTV2ForImageClassification", pixels(384), {"image_size": 384}),
    "dinov2-small": IMAGE(
        "Dinov2ForImageClassification", pixels(384), {**NARROW, "image_size": 384, "patch_size": 16}
    ),
    "focalnet-tiny": IMAGE("FocalNetForImageClassification", pixels(384), {"image_size": 384}),
    "regnet-y-004": IMAGE(
        "RegNetForImageClassification",
        pixels(384),
        {"hidden_sizes": [48, 104, 208, 440], "depths": [1, 3, 6, 6], "groups_width": 8},
    ),
    "dpt-small": IMAGE(
        "DPTForDepthEstimation",
        pixels(384),
        {**NARROW, "image_size": 384, "is_hybrid": False, "num_hidden_layers": 12}
        | {"backbone_out_indices": [2, 5, 8, 11], "neck_hidden_sizes": [48, 96, 192, 384]}
        | {"fusion_hidden_size": 64},
    ),
    "yolos-tiny": LARGE_IMAGE(
        "YolosForObjectDetection", pixels(640), {**TINY, "image_size": [640, 640]}
    ),
    "detr": LARGE_IMAGE("DetrForObjectDetection", pixels(640), QUERIES),
    "conditional-detr": LARGE_IMAGE("ConditionalDetrForObjectDetection", pixels(640), QUERIES),
    "segformer-b0": LARGE_IMAGE("SegformerForSemanticSegmentation", pixels(640), {}),
    "upernet": LARGE_IMAGE(
        "UperNetForSemanticSegmentation",
        pixels(640),
        {"backbone_config": {**RESNET_18, "out_features": FOUR}, "hidden_size": 128}
        | {"auxiliary_in_channels": 256},
    ),
    "deeplab": LARGE_IMAGE("MobileNetV2ForSemanticSegmentation", pixels(640), {"output_stride": 8}),
    "pvt-v2-b0-640": LARGE_IMAGE(
        "PvtV2ForImageClassification", pixels(640), {"hidden_sizes": [32, 64, 160, 256]}
    ),
    "glpn": LARGE_IMAGE("GLPNForDepthEstimation", pixels(640), {"depths": [2, 2, 2, 2]}),
    "efficientnet-b0-640": LARGE_IMAGE("EfficientNetForImageClassification", pixels(640), B0),
    "vitdet": LARGE_IMAGE(
        "VitDetModel",
        pixels(640),
        {**TINY, "image_size": 640, "window_block_indices": [0, 1, 3, 4, 6, 7, 9, 10]}
        | {"window_size": 14, "use_relative_position_embeddings": True},
    ),
    "minilm": TEXT("BertModel", tokens(512), SIX),
    "distilbert": TEXT("DistilBertForSequenceClassification", tokens(512), {}),
    "roberta": TEXT(
        "RobertaForTokenClassification", tokens(512), {**SIX, "max_position_embeddings": 514}
    ),
    "albert": TEXT(
        "AlbertModel", tokens(512), {**NARROW, "embedding_size": 128, "num_hidden_layers": 12}
    ),
    "electra-small": TEXT("ElectraForPreTraining", tokens(512), {}),
    "deberta-v3": TEXT(
        "DebertaV2Model",
        tokens(512),
        {**SIX, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
        | {"position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True},
    ),
    "modernbert": TEXT("ModernBertModel", tokens(512), {**SIX, "intermediate_size": 576}),
    "gpt2": TEXT("GPT2LMHeadModel", tokens(512), {"n_embd": 384, "n_layer": 6, "n_head": 6}),
    "llama": TEXT(
        "LlamaForCausalLM",
        tokens(512),
        {**SIX, "num_key_value_heads": 2, "vocab_size": 32_000},
    ),
    "t5-small": TEXT("T5EncoderModel", tokens(512), {}),
    "wav2vec2": SOUND("Wav2Vec2ForCTC", SECONDS, SIX),
    "hubert": SOUND("HubertForCTC", SECONDS, SIX),
    "wavlm": SOUND("WavLMForCTC", SECONDS, SIX),
    "unispeech-sat": SOUND("UniSpeechSatForCTC", SECONDS, SIX),
    "sew": SOUND("SEWForCTC", SECONDS, SIX),
    "data2vec-audio": SOUND("Data2VecAudioForCTC", SECONDS, SIX),
    "audio-spectrogram": SOUND(
        "ASTForAudioClassification", values("input_values", 1, 1024, 128), TINY
    ),
    "whisper-tiny": SOUND(
        "WhisperForConditionalGeneration",
        lambda: {
            **values("input_features", 1, 80, 1000)(),
            "decoder_input_ids": tokens(64)()["input_ids"],
        },
        {**FRAMES, "max_source_positions": 500},
    ),
    "speech-to-text": SOUND(
        "Speech2TextForConditionalGeneration",
        lambda: {
            **values("input_features", 1, 1000, 80)(),
            "decoder_input_ids": tokens(64)()["input_ids"],
        },
        FRAMES,
    ),
    "parakeet": SOUND("ParakeetEncoder", values("input_features", 1, 1000, 80), SIX),
}


def build(name: str) -> tuple[nn.Module, Inputs]:
    """Return the model and its example inputs, the same at every call."""
    return grow(name, MODELS[name], COMMON)
