"""What differs between TensorRT 10, 11 and TensorRT for RTX: networks' flags, DLA, levels.

If the bindings are those of TensorRT over stub libraries, the builder is missing; a recorder takes
the settings of a config.
"""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from enginebay.errors import ParamsError
from enginebay_tensorrt import builder, parser
from enginebay_tensorrt.library import Library, get_library
from enginebay_tensorrt.params import TensorrtParams

pytestmark = pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is not None,
    reason="these flags are TensorRT's; test_builder.py has those of TensorRT for RTX",
)


class Config(SimpleNamespace):
    """``IBuilderConfig``, as far as it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.flags: set[Any] = set()
        self.cleared: list[str] = []

    def set_flag(self, flag: Any) -> None:
        self.flags.add(flag)

    def clear_flag(self, flag: Any) -> None:
        self.cleared.append(flag.name)

    def set_memory_pool_limit(self, pool: Any, size: int) -> None:
        setattr(self, pool.name, size)


@pytest.fixture
def library() -> Library:
    """The installed TensorRT."""
    return get_library(TensorrtParams())


def configured(library: Library, **params: Any) -> Config:
    config = Config()
    builder._configure_builder(library, config, TensorrtParams(**params))
    return config


def test_defaults_turn_off_tf32_only(library: Library) -> None:
    assert configured(library) == SimpleNamespace(flags=set(), cleared=["TF32"])


def test_parameters_reach_the_builder(library: Library) -> None:
    config = configured(
        library,
        workspace_size=1 << 30,
        optimization_level=5,
        version_compatible=True,
        hardware_compatibility="ampere_plus",
        sparsity=True,
        refit=True,
    )
    flag = library.trt.BuilderFlag
    assert config.flags == {flag.VERSION_COMPATIBLE, flag.SPARSE_WEIGHTS, flag.REFIT}
    assert config.WORKSPACE == 1 << 30
    assert config.builder_optimization_level == 5
    assert config.hardware_compatibility_level.name == "AMPERE_PLUS"
    assert configured(library, strip_plan=True).flags == {flag.STRIP_PLAN, flag.REFIT_IDENTICAL}


def test_networks_are_strongly_typed_in_both_versions(library: Library) -> None:
    typed = 1 << int(library.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    eleven = library.version.startswith("11.")
    assert parser.make_creation_flags(library, TensorrtParams()) == (0 if eleven else typed)
    assert parser.make_creation_flags(library, TensorrtParams(dla_core=0, precision="fp16")) == 0


def test_dla_is_configured(library: Library) -> None:
    config = configured(library, dla_core=1, precision="fp16")
    assert config.DLA_core == 1
    assert config.default_device_type == library.trt.DeviceType.DLA
    eleven = library.version.startswith("11.")
    flag = library.trt.BuilderFlag
    assert config.flags == {flag.GPU_FALLBACK} | (set() if eleven else {flag.FP16})
    assert hasattr(library.trt.OnnxParserFlag, "ADJUST_FOR_DLA")


def test_a_missing_dla_core_is_refused(library: Library) -> None:
    params = TensorrtParams(dla_core=0, precision="fp16")
    with pytest.raises(ParamsError) as caught:
        builder._check_dla(library, SimpleNamespace(num_DLA_cores=0), params)
    assert str(caught.value) == (
        f"unknown DLA core 0: TensorRT {library.version} found 0 DLA cores on this device"
    )


def test_a_compatibility_level_that_the_version_lacks_is_refused(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = SimpleNamespace(__members__={"NONE": 0, "AMPERE_PLUS": 1})
    monkeypatch.setattr(library.trt, "HardwareCompatibilityLevel", older)
    with pytest.raises(ParamsError) as caught:
        configured(library, hardware_compatibility="same_compute_capability")
    assert str(caught.value) == (
        "hardware_compatibility 'same_compute_capability' is not supported by TensorRT "
        f"{library.version}; available: none, ampere_plus"
    )
