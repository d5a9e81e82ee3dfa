"""Tables, clicks, graphs, time series and policies."""

from __future__ import annotations

from typing import Any

ROWS = 4
SIZES = (5, 3, 7)


def columns() -> Any:
    """The categories of a few rows."""
    import torch

    return torch.stack([torch.randint(0, size, (ROWS,)) for size in SIZES], -1)


def tabnet(mask: str) -> tuple[Any, Any]:
    """TabNet by the function that makes its masks."""
    import torch
    from pytorch_tabnet.tab_network import TabNet

    grouped = torch.eye(8)
    model = TabNet(8, 2, n_steps=2, mask_type=mask, group_attention_matrix=grouped)
    return model, torch.randn(ROWS, 8)


def ft_transformer() -> tuple[Any, Any]:
    """Numbers and categories, each as a token."""
    import torch
    from rtdl_revisiting_models import FTTransformer

    model = FTTransformer(
        n_cont_features=4,
        cat_cardinalities=list(SIZES),
        d_out=2,
        n_blocks=2,
        d_block=16,
        attention_n_heads=4,
        attention_dropout=0.1,
        ffn_d_hidden_multiplier=2,
        ffn_dropout=0.1,
        residual_dropout=0.0,
    )
    return model, (torch.randn(ROWS, 4), columns())


def embeddings(name: str) -> tuple[Any, Any]:
    """rtdl's embeddings of numbers, before linear layers."""
    import rtdl_num_embeddings
    import torch

    if name.startswith("Piecewise"):
        bins = rtdl_num_embeddings.compute_bins(torch.randn(50, 4), n_bins=6)
        options = {"activation": False, "version": "B"} if name.endswith("Embeddings") else {}
        layer = getattr(rtdl_num_embeddings, name)(bins, *([5] if options else []), **options)
    else:
        layer = getattr(rtdl_num_embeddings, name)(4, 5, lite=False)
    return torch.nn.Sequential(layer, torch.nn.Flatten(1)), torch.randn(ROWS, 4)


def tab_transformer() -> tuple[Any, Any]:
    """The transformer for tables of lucidrains."""
    import torch
    from tab_transformer_pytorch import TabTransformer

    options = {"dim": 16, "depth": 2, "heads": 4, "mlp_act": torch.nn.ReLU()}
    model = TabTransformer(categories=SIZES, num_continuous=4, **options)
    return model, (columns(), torch.randn(ROWS, 4))


def deepctr(name: str) -> tuple[Any, Any]:
    """A click's probability from deepctr, whose input is a table of floats."""
    import torch
    from deepctr_torch import models
    from deepctr_torch.inputs import DenseFeat, SparseFeat

    features = [SparseFeat(f"c{size}", size, 4) for size in SIZES] + [DenseFeat("x", 1)]
    model = getattr(models, name)(features, features, dnn_hidden_units=(16, 8))
    return model, torch.cat([columns().float(), torch.rand(ROWS, 1)], 1)


def graph(name: str, **options: Any) -> tuple[Any, Any]:
    """A network of torch_geometric, on a graph of six nodes."""
    import torch
    from torch_geometric.nn import models

    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    model = getattr(models, name)(5, 16, num_layers=2, out_channels=3, **options)
    return model, {"x": torch.randn(6, 5), "edge_index": edges}


def graph_pooling() -> tuple[Any, Any]:
    """Two graphs in a batch, and a class for each graph."""
    import torch
    from torch_geometric.nn import GraphConv, Sequential, global_mean_pool

    layers = [
        (GraphConv(5, 16), "x, edge_index -> x"),
        torch.nn.ReLU(),
        (global_mean_pool, "x, batch -> x"),
        torch.nn.Linear(16, 2),
    ]
    model = Sequential("x, edge_index, batch", layers)
    edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    return model, (torch.randn(6, 5), edges, torch.tensor([0, 0, 0, 1, 1, 1]))


def e3nn() -> tuple[Any, Any]:
    """A tensor product that turns with its inputs."""
    import torch
    from e3nn import o3

    model = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", "4x0e + 2x1o")
    return model, (torch.randn(3, 10), torch.randn(3, 4))


def policy(name: str) -> tuple[Any, Any]:
    """The policy that stable-baselines3 trains, without chance."""
    import numpy as np
    import torch
    from gymnasium import spaces
    from stable_baselines3.common import policies

    seen = spaces.Box(-np.ones(6, np.float32), np.ones(6, np.float32))
    moves = spaces.Box(-np.ones(2, np.float32), np.ones(2, np.float32))

    class Deterministic(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.policy = getattr(policies, name)(seen, moves, lambda _: 1e-3)

        def forward(self, observation: torch.Tensor) -> Any:
            return self.policy(observation, deterministic=True)

    return Deterministic(), torch.randn(ROWS, 6)


def tcn() -> tuple[Any, Any]:
    """Causal convolutions."""
    import torch
    from pytorch_tcn import TCN

    return TCN(5, [8, 8], kernel_size=3, causal=True), torch.randn(ROWS, 5, 20)


def chronos() -> tuple[Any, Any]:
    """Amazon's forecaster of any series, as a small one."""
    import torch
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    config = T5Config(
        vocab_size=2, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0
    )
    config.chronos_config = {
        "context_length": 32,
        "prediction_length": 8,
        "input_patch_size": 8,
        "input_patch_stride": 8,
        "quantiles": [0.1, 0.5, 0.9],
        "use_reg_token": True,
    }
    config.reg_token_id = 1
    config.decoder_start_token_id = 0
    return ChronosBoltModelForForecasting(config), torch.randn(1, 32)


MODELS = {
    "tabnet-sparsemax": lambda: tabnet("sparsemax"),
    "tabnet-entmax": lambda: tabnet("entmax"),
    "ft-transformer": ft_transformer,
    "periodic-embeddings": lambda: embeddings("PeriodicEmbeddings"),
    "piecewise-encoding": lambda: embeddings("PiecewiseLinearEncoding"),
    "piecewise-embeddings": lambda: embeddings("PiecewiseLinearEmbeddings"),
    "tab-transformer": tab_transformer,
    "deepfm": lambda: deepctr("DeepFM"),
    "xdeepfm": lambda: deepctr("xDeepFM"),
    "dcn-mix": lambda: deepctr("DCNMix"),
    "autoint": lambda: deepctr("AutoInt"),
    "gcn": lambda: graph("GCN"),
    "gat": lambda: graph("GAT", heads=2),
    "graphsage": lambda: graph("GraphSAGE", aggr="max"),
    "gin": lambda: graph("GIN"),
    "graph-pooling": graph_pooling,
    "e3nn-product": e3nn,
    "actor-critic": lambda: policy("ActorCriticPolicy"),
    "tcn": tcn,
    "chronos-bolt": chronos,
}
