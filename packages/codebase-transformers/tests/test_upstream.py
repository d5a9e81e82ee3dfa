"""transformers' names: a test of each as this package uses it, and the error if one is missing."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay_transformers
from enginebay.errors import MissingDependencyError
from enginebay_transformers import upstream

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = [name for names in upstream.HOMES.values() for name in names.split()]
REQUIREMENT = next(
    line for line in metadata.requires("enginebay-transformers") or () if line[:5] == "trans"
)


def parameters(function: Callable[..., Any]) -> list[str]:
    return [*inspect.signature(function).parameters]


def check_Cache(value: Any) -> None:
    assert issubclass(upstream.DynamicCache, value)
    assert issubclass(upstream.EncoderDecoderCache, value)


def check_DynamicCache(value: Any) -> None:
    assert value().layers == [], "without a config, each layer keeps all tokens"
    cache = value()
    cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
    (layer,) = cache.layers
    assert layer.is_initialized
    assert layer.get_seq_length() == layer.keys.shape[-2] == 3
    assert cache.is_sliding == [False]


def check_EncoderDecoderCache(value: Any) -> None:
    assert type(value(upstream.DynamicCache(), upstream.DynamicCache())) is value


def check_StaticCache(value: Any) -> None:
    assert issubclass(value, upstream.Cache)
    assert not issubclass(upstream.DynamicCache, value)


def check_register_pytree_node(value: Any) -> None:
    value(upstream.DynamicCache)
    assert torch.utils._pytree.tree_leaves(upstream.DynamicCache()) == []


def check_AutoHfExporter(value: Any) -> None:
    assert parameters(value.from_config) == ["export_config", "kwargs"]


def check_DynamicLayer(value: Any) -> None:
    assert {"keys", "values"} <= vars(value()).keys()


def check_ExportConfigMixin(value: Any) -> None:
    assert [field.name for field in dataclasses.fields(value)] == ["export_format"]
    assert "quantizer" not in vars(value), "export_for_generation reads it from each config"
    assert value("x").to_dict() == {"export_format": "x"}


def check_ExportedComponent(value: Any) -> None:
    assert [field.name for field in dataclasses.fields(value)] == ["program", "metadata"]


def check_ExportedModel(value: Any) -> None:
    assert parameters(value)[:3] == ["components", "export_format", "config"]
    assert parameters(value.to) == ["self", "device", "runner_kwargs"]
    assert parameters(value.from_pretrained)[:2] == ["pretrained_model_name_or_path", "device"]
    assert parameters(value.save_pretrained)[:3] == ["self", "save_directory", "push_to_hub"]
    assert {"program", "runners", "device", "dtype"} <= {*dir(value)}


def check_ExportMetadata(value: Any) -> None:
    assert [field.name for field in dataclasses.fields(value)] == [
        *("architecture", "packages", "export_config", "export_dtype", "export_device", "kwargs"),
        *("in_spec", "out_spec", "in_constants", "out_constants"),
    ]


def check_GenerationConfig(value: Any) -> None:
    defaults = value._get_default_generation_params()
    assert (defaults["do_sample"], defaults["num_beams"], defaults["top_k"]) == (False, 1, 50)
    assert value().to_dict()["suppress_tokens"] is None


def check_HfExporter(value: Any) -> None:
    assert value.__abstractmethods__ == {"export_program", "save_program", "load_program"}
    assert parameters(value.export_program) == ["self", "model", "sample_inputs", "config"]
    assert parameters(value.export) == ["self", "model", "sample_inputs", "config"]
    assert parameters(value.save_program) == ["program", "path"]
    assert parameters(value.load_program) == ["path"]
    assert parameters(value.program_files) == ["filename"]
    assert {"program_prefix", "required_packages", "tested_versions"} <= {*vars(value)}
    assert {"export_format", "config_class", "program_suffix"} <= {*value.__annotations__}
    assert parameters(value.export_for_generation) == [
        *("self", "model", "sample_inputs", "config", "generation_config", "multi_token_decode")
    ]


def check_ModelRunner(value: Any) -> None:
    assert value.__abstractmethods__ == {"device", "from_program", "__call__"}
    assert parameters(value) == ["metadata"]
    assert parameters(value.from_program) == ["program", "metadata", "device"]
    assert parameters(value.__call__) == ["self", "share_inputs", "share_outputs", "kwargs"]
    assert parameters(value.unflatten) == ["self", "outputs"]


def check_build_export_metadata(value: Any) -> None:
    assert parameters(value) == ["model", "inputs", "exported_program", "packages"]


def check_decompose_for_generation(value: Any) -> None:
    assert parameters(value) == ["model", "inputs", "generation_config", "multi_token_decode"]


def check_record_output_structure(value: Any) -> None:
    kept = upstream.ExportMetadata()
    value(kept, {"a": torch.ones(1), "b": (3, None)})
    assert kept.out_constants == [[1, 3], [2, None]]
    assert upstream.ModelRunner.unflatten is not None
    assert '"context": "[\\"a\\", \\"b\\"]"' in kept.out_spec


def check_get_leaf_tensors(value: Any) -> None:
    nested = {"cache": [torch.zeros(1)], "logits": torch.ones(2)}
    assert [*value(nested)] == ["cache.0", "logits"]


def check_register_backend(value: Any) -> None:
    assert parameters(value) == ["exporter", "runner"]


@pytest.mark.parametrize("name", NAMES)
def test_transformers_has_the_name_as_it_is_used(name: str) -> None:
    check: Callable[[Any], None] | None = globals().get(f"check_{name}")
    assert check is not None, f"write check_{name}(value)"
    check(getattr(upstream, name))


def test_every_check_has_its_name() -> None:
    assert {name.removeprefix("check_") for name in globals() if name[:6] == "check_"} == {*NAMES}


def test_no_other_file_imports_from_transformers_exporters() -> None:
    folder = Path(enginebay_transformers.__file__).parent
    others = [file for file in folder.rglob("*.py") if file.name != "upstream.py"]
    named = [file.name for file in others if "transformers.exporters" in file.read_text()]
    assert named == []


@pytest.mark.parametrize("installed", ["5.25.0", "4.57.6"])
def test_changed_name_is_an_error_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    monkeypatch.delitem(vars(upstream), "HfExporter", raising=False)
    monkeypatch.setitem(sys.modules, "transformers.exporters", ModuleType("exporters"))
    monkeypatch.setattr(upstream, "installed_version", lambda _: installed)
    with pytest.raises(MissingDependencyError) as err:
        upstream.HfExporter  # noqa: B018
    ours = enginebay_transformers.__version__
    assert str(err.value) == (
        f"'transformers.exporters.HfExporter' is missing or differs in transformers {installed}; "
        f"enginebay-transformers {ours} is made for {REQUIREMENT}"
    )
    assert err.value.hint == f"pip install '{REQUIREMENT}'"


def test_missing_transformers_is_an_error_with_the_version_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(vars(upstream), "HfExporter", raising=False)
    monkeypatch.setitem(sys.modules, "transformers.exporters", None)
    monkeypatch.setattr(upstream, "installed_version", lambda _: None)
    with pytest.raises(MissingDependencyError, match="is not installed; enginebay") as err:
        upstream.HfExporter  # noqa: B018
    assert err.value.hint == f"pip install '{REQUIREMENT}'"


@pytest.mark.process
def test_missing_torch_is_an_error() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from enginebay_transformers import upstream\n"
        "try: upstream.HfExporter\n"
        "except Exception as err: print(type(err).__name__, err, err.hint, sep='; ')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("MissingDependencyError; this step requires 'torch', which")
    hint = run.stdout.rstrip().rpartition("; ")[2]
    assert re.fullmatch(r"pip install .*(enginebay|core)\[export\]['\"]", hint)


def test_name_that_the_package_does_not_use_is_unknown() -> None:
    with pytest.raises(AttributeError, match=r"upstream' has no attribute 'OnnxExporter'"):
        upstream.OnnxExporter  # noqa: B018
