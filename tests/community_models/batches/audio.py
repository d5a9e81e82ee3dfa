"""Speech, music and sound: torchaudio, speechbrain, codecs, vocoders, separation."""

from __future__ import annotations

from typing import Any

SECOND = 8000


def conv_tasnet() -> tuple[Any, Any]:
    """torchaudio's separation of two speakers."""
    import torch
    from torchaudio.models import ConvTasNet

    model = ConvTasNet(enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32)
    return model, torch.randn(1, 1, SECOND)


def hdemucs() -> tuple[Any, Any]:
    """torchaudio's separation of a song, in time and in frequency."""
    import torch
    from torchaudio.models import HDemucs

    model = HDemucs(["drums", "voice"], channels=8, depth=4, nfft=1024)
    return model, torch.randn(1, 2, SECOND)


def conformer() -> tuple[Any, Any]:
    """torchaudio's encoder, whose second input is the length of each sample."""
    import torch
    from torchaudio.models import Conformer

    model = Conformer(
        input_dim=16,
        num_heads=4,
        ffn_dim=32,
        num_layers=2,
        depthwise_conv_kernel_size=7,
    )
    return model, (torch.randn(2, 20, 16), torch.tensor([20, 15]))


def emformer() -> tuple[Any, Any]:
    """torchaudio's streaming encoder."""
    import torch
    from torchaudio.models import Emformer

    model = Emformer(16, 4, 32, 2, segment_length=4, right_context_length=1)
    return model, (torch.randn(1, 17, 16), torch.tensor([17]))


def wav2vec2() -> tuple[Any, Any]:
    """torchaudio's, at its smallest."""
    import torch
    from torchaudio.models import wav2vec2_model

    model = wav2vec2_model(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(32, 10, 5), (32, 3, 2), (32, 2, 2)],
        extractor_conv_bias=False,
        encoder_embed_dim=32,
        encoder_projection_dropout=0.1,
        encoder_pos_conv_kernel=16,
        encoder_pos_conv_groups=4,
        encoder_num_layers=2,
        encoder_num_heads=4,
        encoder_attention_dropout=0.1,
        encoder_ff_interm_features=64,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.1,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.0,
        aux_num_out=12,
    )
    return model, torch.randn(1, 4000)


def deepspeech() -> tuple[Any, Any]:
    """A recurrent layer between linear layers."""
    import torch
    from torchaudio.models import DeepSpeech

    return DeepSpeech(16, n_hidden=32, n_class=10), torch.randn(2, 1, 12, 16)


def wavernn() -> tuple[Any, Any]:
    """The vocoder that people train with it."""
    import torch
    from torchaudio.models import WaveRNN

    model = WaveRNN(
        upsample_scales=[4, 4],
        n_classes=16,
        hop_length=16,
        n_rnn=16,
        n_fc=16,
        n_freq=20,
        n_hidden=16,
        n_output=16,
    )
    return model, (torch.randn(1, 1, 96), torch.randn(1, 1, 20, 10))


def melspectrogram() -> tuple[Any, Any]:
    """The transform in front of most of these models."""
    import torch
    from torchaudio.transforms import AmplitudeToDB, MelSpectrogram

    return torch.nn.Sequential(
        MelSpectrogram(16000, n_fft=400, n_mels=40), AmplitudeToDB()
    ), torch.randn(1, SECOND)


def ecapa() -> tuple[Any, Any]:
    """speechbrain's embedding of a speaker."""
    import torch
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

    channels = [16, 16, 16, 16, 48]
    model = ECAPA_TDNN(20, channels=channels, lin_neurons=16, attention_channels=8)
    return model, torch.randn(1, 30, 20)


def crdnn() -> tuple[Any, Any]:
    """speechbrain's convolutions, LSTM and linear layers in a row."""
    import torch
    from speechbrain.lobes.models.CRDNN import CRDNN

    model = CRDNN(input_shape=(None, None, 20), cnn_channels=(8, 8), rnn_neurons=16, dnn_neurons=16)
    return model, torch.randn(2, 24, 20)


def hifigan() -> tuple[Any, Any]:
    """speechbrain's vocoder."""
    import torch
    from speechbrain.lobes.models.HifiGAN import HifiganGenerator

    model = HifiganGenerator(
        in_channels=20,
        out_channels=1,
        resblock_type="1",
        resblock_dilation_sizes=[[1, 3, 5]],
        resblock_kernel_sizes=[3],
        upsample_kernel_sizes=[8, 8],
        upsample_initial_channel=16,
        upsample_factors=[4, 4],
    )
    return model, torch.randn(1, 20, 12)


def sepformer() -> tuple[Any, Any]:
    """speechbrain's dual-path transformer."""
    import torch
    from speechbrain.lobes.models.dual_path import (
        Dual_Path_Model,
        SBTransformerBlock,
    )

    blocks = [
        SBTransformerBlock(num_layers=1, d_model=16, nhead=4, d_ffn=32, norm_before=True)
        for _ in range(2)
    ]
    model = Dual_Path_Model(16, 16, *blocks, num_layers=1, K=10, num_spks=2, norm="ln")
    return model, torch.randn(1, 16, 50)


def encodec() -> tuple[Any, Any]:
    """Meta's codec: an LSTM between convolutions that reflect the signal at its ends."""
    import torch
    from encodec.model import EncodecModel

    model = EncodecModel._get_model([6.0], 24000, 1, causal=True)
    for layer in model.quantizer.vq.layers:  # an untrained table is all zeros
        layer._codebook.embed.normal_()
    return model, torch.randn(1, 1, 4800)


def vocos() -> tuple[Any, Any]:
    """A vocoder that ends in an inverse Fourier transform."""
    import torch
    from vocos.heads import ISTFTHead
    from vocos.models import VocosBackbone

    return torch.nn.Sequential(
        VocosBackbone(20, 32, 64, 2), ISTFTHead(32, n_fft=64, hop_length=16)
    ), torch.randn(1, 20, 12)


def openunmix() -> tuple[Any, Any]:
    """A song's spectrogram through a bidirectional LSTM."""
    import torch
    from openunmix.model import OpenUnmix

    return OpenUnmix(nb_bins=129, nb_channels=2, hidden_size=32), torch.rand(1, 2, 129, 10)


def torchcrepe() -> tuple[Any, Any]:
    """A network that estimates the pitch of a voice."""
    import torch
    from torchcrepe import Crepe

    return Crepe("tiny"), torch.randn(2, 1024)


def whisper() -> tuple[Any, Any]:
    """OpenAI's own, with the spectrogram and the text so far."""
    import torch
    from whisper.model import ModelDimensions, Whisper

    model = Whisper(ModelDimensions(16, 20, 32, 4, 2, 50, 12, 32, 4, 2))
    model.decoder.positional_embedding.normal_()  # loaded later
    return model, (torch.randn(1, 16, 40), torch.randint(0, 50, (1, 6)))


def asteroid() -> tuple[Any, Any]:
    """asteroid's dual-path recurrent network."""
    import torch
    from asteroid.models import DPRNNTasNet

    model = DPRNNTasNet(
        2, n_filters=16, kernel_size=16, hid_size=16, bn_chan=16, n_repeats=2, chunk_size=20
    )
    return model, torch.randn(1, 2000)


MODELS = {
    "conv-tasnet": conv_tasnet,
    "hdemucs": hdemucs,
    "conformer": conformer,
    "emformer": emformer,
    "torchaudio-wav2vec2": wav2vec2,
    "deepspeech": deepspeech,
    "wavernn": wavernn,
    "mel-spectrogram": melspectrogram,
    "ecapa-tdnn": ecapa,
    "crdnn": crdnn,
    "hifigan": hifigan,
    "sepformer": sepformer,
    "encodec": encodec,
    "vocos": vocos,
    "openunmix": openunmix,
    "torchcrepe": torchcrepe,
    "openai-whisper": whisper,
    "asteroid-dprnn": asteroid,
}
