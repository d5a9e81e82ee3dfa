"""The functions that run in a child process, since ncnn may crash on a wrong network."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the child process reads the annotations
from typing import Any

import numpy as np

from enginebay_ncnn.params import NcnnParams
from enginebay_ncnn.plan import Plan


def unknown_layers(types: list[str]) -> list[str]:
    """Return the types of layers that ncnn does not have."""
    import ncnn

    return [name for name in types if ncnn.layer_to_index(name) < 0]


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
