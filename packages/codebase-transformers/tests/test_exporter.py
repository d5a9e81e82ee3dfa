"""The exporter that registers with transformers' own: verdicts, runs, saved folders, refusals."""

from __future__ import annotations

import gc
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers
from torch.utils._pytree import tree_leaves
from transformers.exporters import AutoExportConfig, AutoHfExporter, ExportedModel, OnnxConfig

import enginebay as eb
from enginebay.errors import (
    ArtifactError,
    BackendNotFoundError,
    EnginebayError,
    ExportError,
    InputError,
    ModelError,
    NotVerifiedError,
    ParamsError,
    UsageError,
)
from enginebay_transformers import EnginebayConfig

from .conftest import SIZES, TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings(
    # two names of torch's pytree, which transformers' exporters use
    "ignore:`isinstance.treespec, LeafSpec:FutureWarning"
)
ENGINES = ("onnxruntime", "openvino")
FAST: dict[str, Any] = {"verify": {"probes": 1}}
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def export(model: Any, inputs: dict[str, Any], **options: Any) -> Any:
    config = EnginebayConfig(**{"backend": "onnxruntime", **FAST, **options})
    return AutoHfExporter.from_config(config).export(model, inputs, config)


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(3, 50, shape)


def padded(*shape: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(shape, dtype=torch.int64)
    mask[0, : shape[1] // 2] = 0
    return {"input_ids": ids(*shape), "attention_mask": mask}


def check_equal(found: Any, expected: Any) -> None:
    """Compare nested values of one class; a cache's tensors are among them."""
    assert type(found) is type(expected)
    pairs = zip(tree_leaves(found), tree_leaves(expected), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="session")
def bert() -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "intermediate_size": 24, "max_position_embeddings": 128}
    return transformers.BertModel(transformers.BertConfig(**SMALL, **sizes)).eval()


def build_small(kind: str, **options: Any) -> Any:
    """Return a decoder of one layer; ``kind`` is 'Llama' or 'Mistral'."""
    torch.manual_seed(0)
    sizes = {**SIZES, **TOKENS, "num_hidden_layers": 1, **options}
    config = getattr(transformers, f"{kind}Config")(**sizes)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


@pytest.fixture(scope="session")
def small() -> Any:
    return build_small("Llama")


@pytest.fixture(scope="session")
def exported_bert(bert: Any) -> Any:
    limits = {0: ("batch", 1, 8), 1: ("tokens", 1, 16)}
    inputs = {**padded(2, 7), "output_hidden_states": True}
    return export(bert, inputs, dynamic={"input_ids": limits, "attention_mask": limits})


@pytest.fixture(scope="session")
def exported_parts(small: Any) -> Any:
    config = EnginebayConfig(backend="onnxruntime", dynamic=True, **FAST)
    exporter = AutoHfExporter.from_config(config)
    return exporter.export_for_generation(small, padded(2, 5), config)


@pytest.fixture
def saved(exported_bert: Any, tmp_path: Path) -> Path:
    exported_bert.save_pretrained(tmp_path)
    return tmp_path


# -- outputs --------------------------------------------------------------------------------------


def test_program_is_an_artifact_that_was_compared_with_the_model(exported_bert: Any) -> None:
    program = exported_bert.program
    assert isinstance(program, eb.Artifact)
    assert program.verdict == "verified"
    assert program.manifest.verification.basis is not None
    assert [spec.describe() for spec in program.inputs] == [
        "input_ids int64[batch, tokens]",
        "attention_mask int64[batch, tokens]",
    ]


def test_dataclass_with_nested_tuples_is_returned_at_other_sizes(
    exported_bert: Any, bert: Any
) -> None:
    inputs = padded(3, 11)
    with torch.no_grad():
        expected = bert(**inputs, output_hidden_states=True)
    found = exported_bert(**inputs)
    assert isinstance(found.hidden_states, tuple)
    check_equal(found, expected)
    assert (exported_bert.device.type, exported_bert.dtype) == ("cpu", torch.float32)


def test_arrays_of_numpy_give_the_same_tensors(exported_bert: Any) -> None:
    inputs = padded(3, 4)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    check_equal(exported_bert(**arrays), exported_bert(**inputs))


def test_inputs_that_were_not_traced_are_dropped(exported_bert: Any) -> None:
    inputs = padded(2, 7)
    check_equal(exported_bert(**inputs, special_tokens=ids(2, 7)), exported_bert(**inputs))


@pytest.mark.parametrize("engine", ENGINES)
def test_tuple_is_returned_on(engine: str, bert: Any) -> None:
    inputs = {**padded(2, 7), "return_dict": False}
    with torch.no_grad():
        check_equal(export(bert, inputs, backend=engine)(**inputs), bert(**inputs))


def test_images_are_classified_on_openvino_in_any_batch() -> None:
    torch.manual_seed(0)
    config = transformers.ViTConfig(**SMALL, intermediate_size=24, image_size=8, patch_size=4)
    model = transformers.ViTForImageClassification(config).eval()
    exported = export(
        model, {"pixel_values": torch.rand(2, 3, 8, 8)}, backend="openvino", dynamic=True
    )
    assert [spec.describe() for spec in exported.program.inputs] == [
        "pixel_values float32[batch, 3, 8, 8]"
    ]
    pixels = torch.rand(5, 3, 8, 8)
    with torch.no_grad():
        check_equal(exported(pixel_values=pixels), model(pixel_values=pixels))


def test_cache_that_the_model_makes_is_an_output(small: Any) -> None:
    inputs = padded(2, 5)
    with torch.no_grad():
        expected = small(**inputs)
    found = export(small, inputs)(**inputs)
    assert type(found.cache) is transformers.DynamicCache
    check_equal(found, expected)


def test_half_precision_stays_half(bert: Any) -> None:
    inputs = padded(2, 7)
    exported = export(transformers.BertModel(bert.config).half().eval(), inputs)
    assert exported.dtype == torch.float16
    assert exported(**inputs).last_hidden_state.dtype == torch.float16


# -- decoders -------------------------------------------------------------------------------------


def generate(parts: Any, inputs: dict[str, torch.Tensor], count: int) -> torch.Tensor:
    """Generate with the two parts of a decoder, greedily."""
    mask, tokens = inputs["attention_mask"], []
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    out = parts.runners["prefill"](**inputs, position_ids=positions)
    positions = positions[:, -1:]
    while True:
        tokens.append(out.logits[:, -1:].argmax(-1))
        if len(tokens) == count:
            return torch.cat(tokens, 1)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        positions = positions + 1
        out = parts.runners["decode"](
            input_ids=tokens[-1], attention_mask=mask, position_ids=positions, cache=out.cache
        )


def test_parts_of_a_decoder_generate_the_tokens_of_the_model(
    exported_parts: Any, small: Any, tmp_path: Path
) -> None:
    exported_parts.save_pretrained(tmp_path)
    loaded = ExportedModel.from_pretrained(tmp_path)
    inputs = padded(3, 9)
    expected = small.generate(**inputs, max_new_tokens=8, min_new_tokens=8, do_sample=False)
    assert torch.equal(generate(loaded, inputs, 8), expected[:, 9:])
    decode = loaded.components["decode"].program
    assert decode.verdict == "verified"
    assert decode.inputs[1].describe() == "attention_mask int64[batch, past+1]"


def test_cache_of_another_layer_count_is_refused(exported_parts: Any) -> None:
    inputs = {**padded(2, 1), "attention_mask": torch.ones(2, 6, dtype=torch.int64)}
    cache = transformers.DynamicCache()
    for layer in range(2):
        cache.update(torch.ones(2, 2, 5, 4), torch.ones(2, 2, 5, 4), layer)
    decode = exported_parts.runners["decode"]
    with pytest.raises(InputError, match=r"'cache\.1\.key'"):
        decode(**inputs, position_ids=inputs["input_ids"] * 0 + 5, cache=cache)


def test_layers_with_a_window_keep_all_tokens_of_a_dynamic_cache() -> None:
    model = build_small("Mistral", sliding_window=8)
    with torch.no_grad():
        cache = model(input_ids=ids(2, 5)).cache
    assert cache.is_sliding == [True]
    step = {"input_ids": ids(2, 1), "attention_mask": torch.ones(2, 6, dtype=torch.int64)}
    exported = export(model, {**step, "cache": cache}, dynamic=True)
    assert exported.program.inputs[2].describe() == "cache.0.key float32[batch, 2, past, 4]"
    with torch.no_grad():
        cache = model(input_ids=ids(3, 6)).cache
        step = {"input_ids": ids(3, 1), "attention_mask": torch.ones(3, 7, dtype=torch.int64)}
        found = exported(**step, cache=cache)
        expected = model(**step, cache=cache)
    torch.testing.assert_close(found.logits, expected.logits)
    assert found.cache.get_seq_length() == expected.cache.get_seq_length() == 7


def test_cache_that_lost_tokens_of_its_window_is_refused() -> None:
    model = build_small("Mistral", sliding_window=8)
    with torch.no_grad():
        cache = model(input_ids=ids(2, 12)).cache
    with pytest.raises(UsageError, match="the cache lacks tokens before its window") as err:
        export(model, {"input_ids": ids(2, 1), "cache": cache}, dynamic=True)
    assert err.value.hint == "use a sample with fewer tokens than the window"


@pytest.mark.parametrize("sample", [{}, {"attention_mask": torch.ones(2, 5, dtype=torch.int64)}])
def test_sample_without_padding_is_refused_for_generation(small: Any, sample: Any) -> None:
    config = EnginebayConfig(dynamic=True)
    exporter = AutoHfExporter.from_config(config)
    with pytest.raises(UsageError, match="'prefill' would have no attention_mask") as err:
        exporter.export_for_generation(small, {"input_ids": ids(2, 5), **sample}, config)
    assert str(err.value.hint).startswith("use a sample in which a row is padded on the left")


def test_parts_of_fixed_sizes_are_refused_for_generation(small: Any) -> None:
    config = EnginebayConfig(backend="onnxruntime", verify={"probes": 0})
    exporter = AutoHfExporter.from_config(config)
    with pytest.raises(ExportError, match=r"of 'decode' is fixed at \d, and is \d in a later step"):
        exporter.export_for_generation(small, padded(2, 5), config)


def test_error_of_a_part_keeps_its_class_and_names_the_part(small: Any) -> None:
    config = EnginebayConfig(backend="opnvino")
    exporter = AutoHfExporter.from_config(config)
    with pytest.raises(BackendNotFoundError) as err:
        exporter.export_for_generation(small, padded(2, 5), config)
    assert "failed on component 'prefill'" in "".join(err.value.__notes__)


def test_static_cache_gives_an_artifact_of_fixed_sizes(small: Any) -> None:
    def inputs() -> dict[str, Any]:  # the model writes into its cache
        cache = transformers.StaticCache(small.config, max_cache_len=12)
        return {**sample, "cache": cache}

    sample = padded(2, 5)
    exported = export(small, inputs(), dynamic=True)
    assert exported.program.inputs[0].describe() == "input_ids int64[2, 5]"
    with torch.no_grad():
        expected = small(**inputs())
    torch.testing.assert_close(exported(**inputs()).logits, expected.logits)


# -- folders --------------------------------------------------------------------------------------


def test_saved_export_is_loaded_with_its_verdict(exported_bert: Any, saved: Path) -> None:
    loaded = ExportedModel.from_pretrained(saved)
    assert loaded.program.path == saved / "model.enginebay"
    assert loaded.program.verdict == "verified"
    assert loaded.config.model_type == "bert"
    inputs = padded(2, 9)
    check_equal(loaded(**inputs), exported_bert(**inputs))


def test_export_is_saved_over_another_from_which_it_was_loaded(saved: Path) -> None:
    loaded = ExportedModel.from_pretrained(saved)
    loaded.save_pretrained(saved)
    inputs = padded(2, 9)
    check_equal(ExportedModel.from_pretrained(saved)(**inputs), loaded(**inputs))
    names = sorted(path.name for path in saved.iterdir())
    assert names == ["config.json", "export.json", "model.enginebay"]


def test_options_of_the_runner_are_those_of_load(saved: Path) -> None:
    loaded = ExportedModel.from_pretrained(saved, device=torch.device("cpu"), strict=True)
    assert loaded.device.type == "cpu"
    with pytest.raises(ParamsError, match="unknown device 'fpga' for ONNX Runtime"):
        loaded.to("fpga")
    with pytest.raises(TypeError, match=r"Unknown kwargs \['providers'\]: the enginebay runner"):
        ExportedModel.from_pretrained(saved, providers=[])


def test_temporary_folder_lives_as_long_as_the_program(bert: Any) -> None:
    exported = export(bert, padded(2, 7))
    program = exported.program
    del exported
    gc.collect()
    folder = program.path.parent
    with eb.load(program) as wrapper:
        assert wrapper.input_names == ("input_ids", "attention_mask")
    del program, wrapper
    gc.collect()
    assert not folder.exists()


def remove_manifest(folder: Path) -> None:
    (folder / "model.enginebay/manifest.json").unlink()


def remove_artifact(folder: Path) -> None:
    shutil.rmtree(folder / "model.enginebay")


def raise_format(folder: Path) -> None:
    file = folder / "model.enginebay/manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))


def damage_engine(folder: Path) -> None:
    (folder / "model.enginebay/model.onnx").write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_manifest, r"is not an artifact: it contains no manifest\.json"),
        (remove_artifact, "does not exist, and of the Hub no folder is loaded file by file"),
        (raise_format, r"was made by Enginebay .* \(manifest format 99"),
        (damage_engine, r"model\.onnx"),
    ],
)
def test_damaged_folder_is_refused(
    damage: Callable[[Path], None], message: str, saved: Path
) -> None:
    damage(saved)
    with pytest.raises(ArtifactError, match=message):
        ExportedModel.from_pretrained(saved)


# -- refusals -------------------------------------------------------------------------------------


def test_mismatch_ends_as_it_does_in_deploy(bert: Any) -> None:
    with pytest.raises(NotVerifiedError, match="mismatched against the PyTorch model") as err:
        export(bert, padded(2, 7), verify={"rtol": 0, "atol": 0, "probes": 1})
    assert err.value.verdict.verdict == "mismatched"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"backend": "opnvino"}, BackendNotFoundError, "no backend 'opnvino' is installed"),
        ({"precision": "fp17"}, ParamsError, "'fp17' does not fit OnnxruntimeParams.precision"),
        ({"verify": {"rtoll": 1}}, ParamsError, "VerifyOptions got 'rtoll'"),
        ({"params": {"devise": "cpu"}}, ParamsError, "'devise'"),
        ({"dynamic": {"x": {0: "batch"}}}, InputError, "dynamic: unknown input 'x'"),
    ],
)
def test_invalid_option_is_an_error_of_deploy(
    options: dict[str, Any], error: type[EnginebayError], message: str, bert: Any
) -> None:
    with pytest.raises(error, match=message):
        export(bert, padded(2, 7), **options)


def test_error_with_axes_that_nobody_named_says_which_they_are(bert: Any) -> None:
    with pytest.raises(ParamsError) as err:
        export(bert, {"input_ids": ids(2, 7)}, dynamic=True, precision="fp17")
    note = "dynamic=True means dynamic={'input_ids': {0: 'batch', 1: 'tokens'}}; name fewer axes to"
    assert note in "".join(err.value.__notes__)


def test_config_of_another_exporter_is_refused(bert: Any) -> None:
    exporter = AutoHfExporter.from_config(EnginebayConfig())
    with pytest.raises(TypeError, match="Expected config to be a EnginebayConfig"):
        exporter.export(bert, padded(2, 7), OnnxConfig())


def test_config_may_be_a_dict() -> None:
    config = AutoExportConfig.from_dict({"export_format": "enginebay", "backend": "openvino"})
    assert config == EnginebayConfig(backend="openvino")


def test_model_without_values_is_refused(bert: Any) -> None:
    with torch.device("meta"):
        model = transformers.BertModel(bert.config)
    with pytest.raises(UsageError, match="on the device meta, which has no values") as err:
        export(model, padded(2, 7))
    assert err.value.hint == "load them: from_pretrained, or load_state_dict"


def test_sample_that_the_model_refuses_is_an_error_of_the_model(bert: Any) -> None:
    with pytest.raises(ModelError, match="the model's forward raised ValueError: You must"):
        export(bert, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": None}, "input 'input_ids' is missing"),
        ({"input_ids": torch.ones(2, 7, dtype=torch.int32)}, "has dtype int32, expected int64"),
        ({"input_ids": torch.ones(7, dtype=torch.int64)}, "has 1 dimensions"),
        ({"input_ids": torch.ones(9, 7, dtype=torch.int64)}, "batch"),
        ({"output_hidden_states": False}, "'output_hidden_states' is True in the artifact"),
    ],
)
def test_invalid_input_is_refused_at_the_call(
    change: dict[str, Any], message: str, exported_bert: Any
) -> None:
    with pytest.raises(InputError, match=message):
        exported_bert(**{**padded(2, 7), **change})
