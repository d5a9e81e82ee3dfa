"""Functions that run in a child process, since ncnn or the model may crash the process."""

from __future__ import annotations

from itertools import count
from pathlib import Path  # noqa: TC003 - the child process reads the annotations
from typing import Any

import numpy as np

from enginebay.errors import ConversionError
from enginebay_ncnn.params import NcnnParams
from enginebay_ncnn.plan import Plan
from enginebay_ncnn.torchscript_files import flatten_outputs, load_torchscript, silence_warnings


def find_unknown_layers(types: list[str]) -> list[str]:
    """Return the layer types in ``types`` that ncnn does not support."""
    import ncnn

    return [name for name in types if ncnn.layer_to_index(name) < 0]


def run_frozen(path: Path, folder: Path, first: int) -> int:
    """Run a TorchScript file on one set of inputs after the other, until a run succeeds.

    Args:
        path: The TorchScript file.
        folder: The folder with the input sets ``0.npz``, ``1.npz`` … The function creates
            ``N.started`` before it runs set N, and writes the outputs to ``outputs.npz``.
        first: The index of the first set to run.

    Returns:
        The index of the set on which the run succeeded.

    Raises:
        ConversionError: The run fails on every set.
    """
    import torch

    failure = ""
    with torch.no_grad(), silence_warnings():
        module = load_torchscript(path)
        for number in count(first):
            file = folder / f"{number}.npz"
            if not file.exists():
                break
            # The caller skips the sets that were started if this process crashes.
            file.with_suffix(".started").touch()
            with np.load(file, allow_pickle=False) as arrays:
                tensors = [torch.from_numpy(arrays[key]) for key in arrays.files]
            try:
                outputs = flatten_outputs(module(*tensors))
            except RuntimeError as err:
                failure = failure or [line for line in str(err).splitlines() if line.strip()][-1]
                continue
            np.savez(folder / "outputs.npz", *(tensor.numpy() for tensor in outputs))
            return number
    raise ConversionError(failure)


def run_once(folder: Path, plan: Path, params: dict[str, Any], inputs: Path, outputs: Path) -> str:
    """Load the network and run it once.

    Args:
        folder: The folder of ``net.param`` and ``net.bin``.
        plan: The JSON file that maps the model's inputs and outputs to the network's blobs.
        params: The backend's parameters.
        inputs: An ``.npz`` of the inputs, in the order of the JSON file.
        outputs: The ``.npz`` to write the outputs to, in the order of the JSON file.

    Returns:
        The version of ncnn.

    Raises:
        ConversionError: ncnn cannot load the network.
        InferenceError: ncnn cannot run the network.
    """
    import ncnn

    from enginebay_ncnn.network import load_network
    from enginebay_ncnn.session import Session

    net, _ = load_network(folder / "net.param", folder / "net.bin", NcnnParams.from_mapping(params))
    ports = Plan.read(plan)
    with np.load(inputs, allow_pickle=False) as file:
        arrays = [file[key] for key in file.files]
    feed = {port.name: array for port, array in zip(ports.inputs, arrays, strict=True)}
    np.savez(outputs, *Session(net, ports).run(feed))
    return str(ncnn.__version__)
