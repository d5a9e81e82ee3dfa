"""The functions that run in a child process, since ncnn or the model may crash in them."""

from __future__ import annotations

from itertools import count
from pathlib import Path  # noqa: TC003 - the child process reads the annotations
from typing import Any

import numpy as np

from enginebay.errors import ConversionError
from enginebay_ncnn.params import NcnnParams
from enginebay_ncnn.plan import Plan


def unknown_layers(types: list[str]) -> list[str]:
    """Return the types of layers that ncnn does not have."""
    import ncnn

    return [name for name in types if ncnn.layer_to_index(name) < 0]


def run_frozen(path: Path, folder: Path, first: int) -> int:
    """Run a TorchScript file on sets of inputs until it takes one.

    Args:
        path: The file.
        folder: The folder of the sets, ``0.npz``, ``1.npz`` …, beside which ``0.started`` tells
            that it was tried. The outputs become ``outputs.npz``.
        first: The number of the first set to try.

    Returns:
        The number of the set.

    Raises:
        ConversionError: It takes none of them.
    """
    import torch

    from enginebay_ncnn.torchscript import flat, quiet

    failure = ""
    with torch.no_grad(), quiet():
        load: Any = torch.jit.load
        module = load(str(path), map_location="cpu")
        for number in count(first):
            file = folder / f"{number}.npz"
            if not file.exists():
                break
            file.with_suffix(".started").touch()
            with np.load(file, allow_pickle=False) as arrays:
                tensors = [torch.from_numpy(arrays[key]) for key in arrays.files]
            try:
                outputs = flat(module(*tensors))
            except RuntimeError as err:
                failure = failure or [line for line in str(err).splitlines() if line.strip()][-1]
                continue
            np.savez(folder / "outputs.npz", *(tensor.numpy() for tensor in outputs))
            return number
    raise ConversionError(failure)


def run_once(folder: Path, plan: Path, params: dict[str, Any], inputs: Path, found: Path) -> str:
    """Load the network and run it once.

    Args:
        folder: The folder of ``net.param`` and ``net.bin``.
        plan: The plan's file.
        params: The backend's parameters.
        inputs: An ``.npz`` of the inputs, in the plan's order.
        found: The ``.npz`` to write the outputs to, in the plan's order.

    Returns:
        ncnn's version.

    Raises:
        ConversionError: ncnn cannot load the network.
        InferenceError: ncnn cannot run it.
    """
    import ncnn

    from enginebay_ncnn.network import load
    from enginebay_ncnn.session import Session

    net, _ = load(folder / "net.param", folder / "net.bin", NcnnParams.from_mapping(params))
    ports = Plan.read(plan)
    with np.load(inputs, allow_pickle=False) as file:
        arrays = [file[key] for key in file.files]
    feed = {port.name: array for port, array in zip(ports.inputs, arrays, strict=True)}
    np.savez(found, *Session(net, ports).run(feed))
    return str(ncnn.__version__)
