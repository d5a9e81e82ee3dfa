"""The real builder and parser, which note the graph that each plan was built from.

If the machine of ``fake_cuda`` has a GPU, engines that need a GPU are built without it: engines
with replaceable weights, and engines for the GPU of the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import fake_cuda
import onnx
import tensorrt_rtx_bindings as real

from tensorrt_rtx.shared import CONFIGS, FAULTS, LOG, PROFILES, dims_of

#: Where the graphs lie, under the digests of their plans; child processes have it too.
PLANS = Path(os.environ["ENGINEBAY_TENSORRT_PLANS"])
#: Flags that fail in a builder without a GPU, or without a library that is in no wheel.
NEED_MORE = ("REFIT", "REFIT_IDENTICAL", "STRIP_PLAN", "VERSION_COMPATIBLE")


class OnnxParser(real.OnnxParser):
    """Notes which file it read into which network.

    TensorRT for RTX has no layer whose outputs' shapes depend on the data, and TensorRT has. For
    such a graph it parses the file next to it that ends in ``.twin``, which has the same ports.
    """

    _files: dict[int, Path] = {}  # of every parser in the process

    def __init__(self, network: Any, logger: Any) -> None:
        super().__init__(network, logger)
        self._network = network

    def __del__(self) -> None:
        """Replaces the bindings' own, which only warns that it should not be called."""

    def parse_from_file(self, model: str) -> bool:
        LOG.append(("parse_from_file", model))
        self._files[id(self._network)] = Path(model)
        twin = Path(model).with_suffix(".twin")
        return bool(super().parse_from_file(str(twin) if twin.exists() else model))


class Builder(real.Builder):
    """Keeps the graph of each plan that it builds."""

    def __init__(self, logger: Any) -> None:
        super().__init__(logger)
        self._read_profiles: list[Any] = []

    def __del__(self) -> None:
        """Replaces the bindings' own, which only warns that it should not be called."""

    def create_network(self, flags: int = 0) -> Any:
        LOG.append(("create_network", flags))
        return super().create_network(flags)

    def create_builder_config(self) -> Any:
        CONFIGS.append(super().create_builder_config())
        return CONFIGS[-1]

    def create_optimization_profile(self) -> Any:
        self._read_profiles.append(super().create_optimization_profile())
        PROFILES.append(self._read_profiles[-1])
        return PROFILES[-1]

    @property
    def num_DLA_cores(self) -> int:
        return FAULTS.get("dla_cores", super().num_DLA_cores)

    def build_serialized_network_to_stream(self, network: Any, config: Any, writer: Any) -> bool:
        LOG.append(("build_serialized_network_to_stream", fake_cuda.here.device))
        flags = [each for each in NEED_MORE if config.get_flag(getattr(real.BuilderFlag, each))]
        if fake_cuda.machine.names:
            _leave_out(config, flags)
        copy = Copy(writer)
        if not super().build_serialized_network_to_stream(network, config, copy):
            return False
        if flags:  # without them it has the bytes of a plan that never had any
            copy.write("".join(flags).encode())
        facts = {
            "inputs": [_describe_error(network.get_input(n)) for n in range(network.num_inputs)],
            "outputs": [_describe_error(network.get_output(n)) for n in range(network.num_outputs)],
            "profiles": [_shapes(each, network) for each in self._read_profiles],
            "layers": network.num_layers,
            "flags": flags,
        }
        _keep(copy.digest.hexdigest(), OnnxParser._files[id(network)], facts)
        return True


class Copy(real.IStreamWriter):
    """Notes what passes on its way to another writer."""

    def __init__(self, writer: Any) -> None:
        super().__init__()
        self._writer = writer
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self._writer.write(data))


def _leave_out(config: Any, flags: list[str]) -> None:
    for flag in flags:
        config.clear_flag(getattr(real.BuilderFlag, flag))
    for number in range(config.num_compute_capabilities):
        if config.get_compute_capability(number) == real.ComputeCapability.CURRENT:
            major, minor = fake_cuda.machine.capability
            kind = getattr(real.ComputeCapability, f"SM{major}{minor}")
            config.set_compute_capability(kind, number)


def _describe_error(tensor: Any) -> tuple[str, str, tuple[int, ...]]:
    return tensor.name, tensor.dtype.name, tuple(tensor.shape)


def _shapes(profile: Any, network: Any) -> dict[str, list[tuple[int, ...]]]:
    inputs = (network.get_input(number) for number in range(network.num_inputs))
    return {
        each.name: [tuple(shape) for shape in profile.get_shape(each.name)]
        for each in inputs
        if -1 in tuple(each.shape)
    }


def _keep(name: str, source: Path, facts: dict[str, Any]) -> None:
    model = onnx.load(source)
    shapes = {value.name: dims_of(value) for value in model.graph.output}
    facts["outputs"] = [(name, kind, shapes[name]) for name, kind, _ in facts["outputs"]]
    if "STRIP_PLAN" in facts["flags"]:
        del model.graph.initializer[:]
    (PLANS / f"{name}.onnx").write_bytes(model.SerializeToString())
    (PLANS / f"{name}.json").write_text(json.dumps(facts))


def graph_of(plan: bytes) -> tuple[dict[str, Any], Any]:
    """The facts about a plan, and the graph that it was built from."""
    name = hashlib.sha256(plan).hexdigest()
    facts = json.loads((PLANS / f"{name}.json").read_text())
    return facts, onnx.load(PLANS / f"{name}.onnx")
