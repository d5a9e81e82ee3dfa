"""Decoding step by step, and recurrent networks with states as inputs and outputs."""

from __future__ import annotations

from typing import Any

from tests.zoo.models import GROUPED, SMALL


def decoder(name: str, **config: Any) -> Any:
    """A small decoder of transformers."""
    import transformers

    transformers.logging.set_verbosity_error()
    architecture: Any = getattr(
        transformers, name if name.endswith("Model") else f"{name}ForCausalLM"
    )
    small = {**SMALL, **config, "use_cache": True}
    return architecture(architecture.config_class(**small))


def with_cache(name: str, **config: Any) -> tuple[Any, Any]:
    """The next token of a text of seven, whose keys and values are in a cache."""
    import torch
    from transformers import DynamicCache

    model = decoder(name, **config).eval()
    past = DynamicCache(config=model.config)
    model(input_ids=torch.randint(3, 99, (1, 7)), past_key_values=past)
    return model, {
        "input_ids": torch.randint(3, 99, (1, 1)),
        "attention_mask": torch.ones(1, 8, dtype=torch.int64),
        "past_key_values": past,
    }


def first_step(name: str, **config: Any) -> tuple[Any, Any]:
    """The first tokens, after which the model returns a cache."""
    import torch

    return decoder(name, **config), {"input_ids": torch.randint(3, 99, (1, 7)), "use_cache": True}


def plain_cache() -> tuple[Any, Any]:
    """Keys and values as tuples of tensors, in a model of one's own."""
    import torch
    from torch import nn

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 16)
            self.layers = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
            self.head = nn.Linear(16, 20)

        def forward(
            self, token: torch.Tensor, past: tuple[tuple[torch.Tensor, torch.Tensor], ...]
        ) -> tuple[torch.Tensor, tuple[tuple[torch.Tensor, torch.Tensor], ...]]:
            x, present = self.embed(token), []
            for layer, (keys, held) in zip(self.layers, past, strict=True):
                query, key, value = layer(x).view(len(x), -1, 4, 12).transpose(1, 2).chunk(3, -1)
                key, value = torch.cat([keys, key], 2), torch.cat([held, value], 2)
                present.append((key, value))
                mixed = nn.functional.scaled_dot_product_attention(query, key, value)
                x = x + mixed.transpose(1, 2).flatten(2)
            return self.head(x), tuple(present)

    past = tuple((torch.randn(1, 4, 5, 4), torch.randn(1, 4, 5, 4)) for _ in range(2))
    return Step(), (torch.tensor([[3]]), past)


class Stated:
    """Recurrent layers by name, with their states as inputs and as outputs."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.options = options

    def __call__(self) -> tuple[Any, Any]:
        """Build the layer, its input and its states."""
        import torch

        layer = getattr(torch.nn, self.name)(6, 10, batch_first=True, **self.options)
        layers = layer.num_layers * (2 if layer.bidirectional else 1)
        states = [torch.randn(layers, 2, layer.proj_size or 10)]
        if self.name == "LSTM":
            states.append(torch.randn(layers, 2, 10))
        return layer, (torch.randn(2, 5, 6), tuple(states) if len(states) > 1 else states[0])


def cell() -> tuple[Any, Any]:
    """One step of two cells, as in a loop around the model."""
    import torch
    from torch import nn

    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTMCell(6, 10), nn.GRUCell(10, 10)

        def forward(
            self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, other: torch.Tensor
        ) -> dict[str, torch.Tensor]:
            hidden, cell = self.first(x, (hidden, cell))
            return {"hidden": hidden, "cell": cell, "other": self.second(hidden, other)}

    return Cells(), {
        "x": torch.randn(2, 6),
        **{name: torch.randn(2, 10) for name in ("hidden", "cell", "other")},
    }


def packed() -> tuple[Any, Any]:
    """Sequences of different lengths, packed inside of the model."""
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(6, 10, batch_first=True, bidirectional=True)
            self.head = nn.Linear(20, 3)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            rows = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, _ = pad_packed_sequence(self.layer(rows)[0], batch_first=True)
            return self.head(out)

    return Packed(), (torch.randn(3, 7, 6), torch.tensor([7, 3, 5]))


def encoder_decoder() -> tuple[Any, Any]:
    """A translation's next token, from the encoder's output for the sentence."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration
    from transformers.modeling_outputs import BaseModelOutput

    config = BartConfig(
        **{**SMALL, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2},
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
    )
    return BartForConditionalGeneration(config), {
        "encoder_outputs": BaseModelOutput(last_hidden_state=torch.randn(1, 9, 32)),
        "decoder_input_ids": torch.tensor([[2, 5, 7]]),
    }


def voice_activity() -> tuple[Any, Any]:
    """A detector of speech that stores its state between pieces of sound."""
    import torch
    from torch import nn

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = nn.Conv1d(1, 16, 32, stride=16)
            self.memory = nn.LSTMCell(16, 16)
            self.out = nn.Conv1d(16, 1, 1)

        def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[Any, torch.Tensor]:
            x = self.front(nn.functional.pad(x, (0, 16), "reflect")[:, None]).relu().mean(-1)
            hidden, cell = self.memory(x, (state[0], state[1]))
            speech = torch.sigmoid(self.out(hidden[..., None].relu()))
            return speech.squeeze(1).mean(1, keepdim=True), torch.stack([hidden, cell])

    return Detector(), (torch.randn(1, 512), torch.zeros(2, 1, 16))


MODELS = {
    "llama-step": lambda: with_cache("Llama", **GROUPED),
    "gpt2-step": lambda: with_cache("GPT2LMHeadModel"),
    "qwen3-step": lambda: with_cache("Qwen3", **GROUPED),
    "gemma3-step": lambda: with_cache("Gemma3", **GROUPED, sliding_window=4),
    "mamba-first": lambda: first_step("Mamba", state_size=4),
    "llama-first": lambda: first_step("Llama", **GROUPED),
    "plain-cache": plain_cache,
    "encoder-decoder-step": encoder_decoder,
    "lstm-states": Stated("LSTM", num_layers=2),
    "lstm-projected": Stated("LSTM", proj_size=4),
    "gru-states": Stated("GRU", bidirectional=True),
    "rnn-states": Stated("RNN", nonlinearity="relu"),
    "cells": cell,
    "packed": packed,
    "voice-activity": voice_activity,
}
