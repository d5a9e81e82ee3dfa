"""Folders that transformers' exporters wrote: what they contain, and how they are judged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from enginebay.errors import ArtifactError, BackendNotFoundError, InputError, UsageError
from enginebay_transformers import judge_folder, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable

FEW = {"probes": 2}


def export(model: Any, sample: dict[str, Any], path: Path, **more: Any) -> Path:
    """Export a model in parts as its users do, with modules added under names."""
    from transformers.exporters import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    exporter, config = OnnxExporter(), OnnxConfig(dynamic=True)
    with (
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
        warnings.catch_warnings(action="ignore"),  # torch's exporter is deprecated in parts
    ):
        exported = exporter.export_for_generation(model, dict(sample), config)
        for name, (module, inputs) in more.items():
            alone = exporter.export(module, dict(inputs), config)
            exported.components[name] = alone.components["model"]
        exported.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def padded(tmp_path_factory: pytest.TempPathFactory, llama: Any, prompts: Any) -> Path:
    """A Llama that was exported from prompts of which one is padded."""
    return export(llama, prompts(), tmp_path_factory.mktemp("exported") / "padded")


@pytest.fixture
def copied(padded: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to damage."""
    return Path(shutil.copytree(padded, tmp_path / "copied"))


def change(
    folder: Path, edit: Callable[[dict[str, Any]], object], name: str = "export.json"
) -> None:
    document = json.loads((folder / name).read_text())
    edit(document)
    (folder / name).write_text(json.dumps(document))


def test_a_folder_lists_its_components_and_open_axes(padded: Path) -> None:
    prefill, decode = read_folder(padded).components
    cache = "".join(
        f" input.cache.layers.{layer}.{name}:0,2" for layer in (0, 1) for name in ("keys", "values")
    )
    arguments = "input_ids attention_mask position_ids cache"
    shared = "input_ids:0,1 attention_mask:0,1 position_ids:0,1"
    decoding = f"input_ids:0 attention_mask:0,1 position_ids:0{cache}"
    assert str(read_folder(padded)).splitlines()[2:] == [
        f"prefill    prefill.onnx  {arguments}  {shared}",
        f"decode     decode.onnx   {arguments}  {decoding}",
    ]
    assert prefill.outputs[0] == decode.outputs[0] == "logits"


@pytest.mark.process
def test_listing_a_folder_imports_neither_torch_nor_transformers(padded: Path) -> None:
    code = (
        "from enginebay.cli import main; import sys\n"
        f"try: main(['exported', {str(padded)!r}])\n"
        "finally: print({'torch', 'transformers'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1] == "set()", run.stderr
    assert "prefill.onnx" in run.stdout


def test_parts_that_were_exported_with_padding_are_verified(
    padded: Path, llama: Any, prompts: Any
) -> None:
    judged = judge_folder(padded, llama, prompts(), verify=FEW)
    assert judged.verified
    assert [(row.component, row.verdict) for row in judged.rows] == [
        ("prefill", "verified"),
        ("decode", "verified"),
    ]
    names = [[text.split()[0] for text in row.sizes] for row in judged.rows]
    assert names == [["batch", "input_ids_1"], ["batch", "past+1", "past"]]
    assert judged.to_dict()["rows"][0]["backend"] == "onnxruntime"


def test_a_mask_that_the_exporter_dropped_is_refused(
    tmp_path: Path, llama: Any, prompts: Any
) -> None:
    folder = export(llama, prompts(0), tmp_path / "unpadded")
    judged = judge_folder(folder, llama, verify=FEW)
    assert not judged.verified
    assert {row.verdict for row in judged.rows} == {"verified"}
    assert judged.breaches == (
        (
            "'attention_mask' changes the tokens of generate, and no part takes it: export from a "
            "sample in which a row is padded on the left"
        ),
    )


def test_weights_of_another_model_are_a_mismatch(padded: Path, build: Any, prompts: Any) -> None:
    other = build("llama")
    with torch.no_grad():
        other.lm_head.weight.mul_(1.1)
    judged = judge_folder(padded, other, prompts(), verify=FEW)
    assert {row.verdict for row in judged.rows} == {"mismatched"}
    assert '"logits" on ' in str(judged)


def test_an_encoder_that_is_no_part_is_refused_until_it_is_added(
    tmp_path: Path, build: Any, prompts: Any
) -> None:
    model, sample = build("t5"), prompts()
    folder = export(model, sample, tmp_path / "whole", encoder=(model.get_encoder(), sample))
    whole = judge_folder(folder, model, sample, verify=FEW)
    (frozen,) = whole.breaches
    assert frozen.startswith("axis 2 of 'cache.self_attention_cache.0.key' of 'decode' is fixed")
    assert "encoder" in {row.component for row in whole.rows}
    change(folder, lambda found: found["components"].pop("encoder"))
    breaches = judge_folder(folder, model, sample, verify=FEW).breaches
    places = [line.split("'")[1] for line in breaches]
    assert places == ["input_ids", "cache.self_attention_cache.0.key", "encoder"]


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as err:
        read_folder(tmp_path)
    assert str(err.value) == f"'{tmp_path}' is not an exported model: it has no export.json"
    assert err.value.hint == (
        "pass the folder that ExportedModel.save_pretrained of transformers wrote"
    )


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda found: found.update(schema_version=2),
            "'{}' has schema 2; expected schema 1, of transformers 5.24",
        ),
        (lambda found: found.pop("components"), "'{}' is damaged: KeyError: 'components'"),
        (
            lambda found: found["components"]["decode"].update(file="../decode.onnx"),
            "'{}' lacks the file '../decode.onnx' of its component 'decode'",
        ),
        (
            lambda found: found["components"]["decode"].update(file="gone.onnx"),
            "'{}' lacks the file 'gone.onnx' of its component 'decode'",
        ),
    ],
)
def test_a_damaged_folder_is_refused(edit: Any, message: str, copied: Path) -> None:
    change(copied, edit)
    with pytest.raises(ArtifactError) as err:
        read_folder(copied)
    assert str(err.value) == message.format(copied)


def test_a_folder_without_a_part_is_refused(copied: Path, llama: Any) -> None:
    change(copied, lambda found: found["components"].pop("decode"))
    with pytest.raises(ArtifactError) as err:
        judge_folder(copied, llama)
    assert str(err.value) == f"'{copied}' lacks the component 'decode', which generate needs"


def test_a_part_of_no_module_is_refused(copied: Path, llama: Any) -> None:
    change(copied, lambda found: found["components"].update(head=found["components"]["decode"]))
    with pytest.raises(UsageError, match=r"the model has no module 'head', after which "):
        judge_folder(copied, llama)


def test_another_number_of_layers_is_refused(copied: Path, llama: Any) -> None:
    change(copied, lambda config: config.update(num_hidden_layers=3), "config.json")
    with pytest.raises(UsageError) as err:
        judge_folder(copied, llama)
    assert str(err.value) == (
        f"another model: 'num_hidden_layers' is 3 in the config of '{copied}', and 2 in that of "
        "--model"
    )


def test_a_cache_of_another_layer_count_is_refused(copied: Path, build: Any) -> None:
    (copied / "config.json").unlink()
    with pytest.raises(UsageError) as err:
        judge_folder(copied, build("llama", num_hidden_layers=1))
    assert str(err.value) == (
        "'decode.onnx' takes 'input.cache.layers.1.keys', which this model is not called with"
    )


def test_another_class_and_another_sample_are_refused(padded: Path, build: Any, llama: Any) -> None:
    with pytest.raises(UsageError, match="of the class LlamaForCausalLM, and this one is of GPT2"):
        judge_folder(padded, build("gpt2"))
    with pytest.raises(InputError, match="the model fails on the sample: ValueError: "):
        judge_folder(padded, llama, {"pixels": torch.ones(1)})


def test_a_backend_that_is_not_installed_is_an_error(padded: Path, llama: Any) -> None:
    with pytest.raises(BackendNotFoundError, match="no backend 'bogus' is installed"):
        judge_folder(padded, llama, backends=["bogus"])


def test_another_format_and_another_kind_of_model_are_refused(copied: Path, llama: Any) -> None:
    with pytest.raises(UsageError, match="of type Linear' is not a model of transformers"):
        judge_folder(copied, torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match="the model's example has no names"):
        judge_folder(copied, (llama, (torch.ones(1, 3, dtype=torch.int64),)))
    change(copied, lambda found: found.update(export_format="openvino"))
    with pytest.raises(UsageError, match="has files of the format openvino; only ONNX files"):
        judge_folder(copied, llama)
