from __future__ import annotations

import json
import platform
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, strategies as st

import enginebay
from enginebay.artifact import (
    MANIFEST_FORMAT,
    FileEntry,
    IRRecord,
    Manifest,
    PluginRecord,
    open_artifact,
)
from enginebay.environment import install_command
from enginebay.errors import ArtifactError, UsageError
from enginebay.inference.receipt import Receipt
from enginebay.tensors.spec import TensorSpec
from enginebay.verdict import OutputComparison, Verification


def test_a_manifest_restores_every_field(tmp_path, publish):
    fields = {
        "torch_version": "2.13.0",
        "params": {"device": "cpu", "shapes": {"x": [1, 3]}, "path": None, "ratio": 0.5},
        "inputs": (TensorSpec("x", "float32", ("batch", 3)), TensorSpec("m", "bool", None)),
        "outputs": (TensorSpec("y", "float16", ()),),
        "ir": IRRecord(kind="onnx", exporter="default", opset=18, sha256="ab", notes=("n",)),
        "receipt": Receipt(
            device="cpu",
            engine="loopback 1.0",
            provider="P",
            precision="fp16",
            fallbacks=("CUDA was asked for",),
            details={"threads": "1"},
        ),
        "verification": Verification(
            verdict="verified",
            outputs=(
                OutputComparison(name="y", passed=True, total=4, worst_index=(0, 1), rtol=1e-3),
            ),
            reference="the PyTorch model, unpatched",
        ),
        "command": "enginebay deploy model.py:net",
        "pinned": {"engine_version": "1.0"},
    }
    published = publish(tmp_path / "model", **fields)
    manifest = open_artifact(tmp_path / "model").manifest
    assert manifest == published.manifest
    assert {name: getattr(manifest, name) for name in fields} == fields
    assert [entry.path for entry in manifest.files] == ["model.bin", "parts/weights.data"]


def test_a_manifest_records_its_time_and_versions(tmp_path, publish, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = publish(tmp_path / "model").manifest
    assert made.created == "2023-11-14T22:13:20Z"
    assert made.format == MANIFEST_FORMAT == 1
    assert made.enginebay_version == enginebay.__version__
    assert made.python == platform.python_version()
    assert made.platform == platform.platform()
    assert made.plugin == PluginRecord("enginebay-loopback", "0.1.0")


@pytest.mark.parametrize("value", ["soon", "1.5", "9" * 30])
def test_an_invalid_source_date_epoch_is_refused(manifest, monkeypatch, value):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    with pytest.raises(UsageError) as caught:
        manifest()
    assert str(caught.value) == f'SOURCE_DATE_EPOCH is "{value}": expected seconds since 1970'
    assert caught.value.hint == "unset SOURCE_DATE_EPOCH"


@pytest.mark.process
def test_the_torch_version_is_recorded_only_after_its_import():
    program = (
        "from enginebay.artifact import Manifest, PluginRecord\n"
        "import sys\n"
        "made = Manifest(backend='b', plugin=PluginRecord('p', '1'), engine_version='1',"
        " model_files=())\n"
        "assert not {'torch', 'numpy', 'onnx'} & set(sys.modules)\n"
        "print(made.torch_version)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


def test_manifests_are_reproducible_at_any_path(tmp_path, publish, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    publish(tmp_path / "first", params={"b": 1, "a": 2})
    publish(tmp_path / "elsewhere" / "second", params={"a": 2, "b": 1})
    first, second = (tmp_path / where / "manifest.json" for where in ("first", "elsewhere/second"))
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path) not in first.read_text()
    assert first.read_text().startswith('{\n  "format": 1,\n  "backend": "loopback",\n')


def test_non_ascii_text_is_not_escaped(tmp_path, publish):
    publish(tmp_path / "model", command="enginebay deploy «größe».py:網")
    assert "«größe».py:網" in (tmp_path / "model" / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"x": float("nan")}, "Out of range float values are not JSON compliant: nan"),
        ({"x": float("inf")}, "Out of range float values are not JSON compliant: inf"),
        ({"x": object()}, "Encoding objects of type object is unsupported"),
    ],
)
def test_params_without_a_json_form_are_refused(tmp_path, publish, params, reason):
    with pytest.raises(ArtifactError) as caught:
        publish(tmp_path / "model", params=params)
    assert str(caught.value) == f"the manifest cannot be written as JSON: {reason}"
    assert caught.value.hint == "check the backend's parameters"
    assert list(tmp_path.iterdir()) == []


def edit(folder, change) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_unknown_keys_are_ignored(tmp_path, publish):
    publish(tmp_path / "model")
    edit(tmp_path / "model", lambda data: data.update(colour="green"))
    edit(tmp_path / "model", lambda data: data["plugin"].update(author="Ada"))
    assert open_artifact(tmp_path / "model").backend == "loopback"


def test_a_newer_manifest_format_is_refused(tmp_path, publish):
    publish(tmp_path / "model")
    edit(tmp_path / "model", lambda data: data.update(format=2, enginebay_version="7.0", files=0))
    with pytest.raises(ArtifactError) as caught:
        open_artifact(tmp_path / "model")
    where = tmp_path / "model" / "manifest.json"
    assert str(caught.value) == (
        f'"{where}" was made by Enginebay 7.0 (manifest format 2, supported: 1)'
    )
    assert caught.value.hint == install_command("enginebay>=7.0", "--upgrade")


FOREIGN = "is not an Enginebay manifest"
UNFIT = "does not fit manifest format 1"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", f"{FOREIGN}: it is empty"),
        (b"{", f"{FOREIGN}: Input data was truncated"),
        (b"[]", f"{FOREIGN}: Expected `object`, got `array`"),
        (b"\xff\xfe", f"{FOREIGN}: JSON is malformed: invalid character (byte 0)"),
        (b'{"name": "My web app"}', f"{FOREIGN}: Object missing required field `format`"),
        (b'{"format": 1}', f"{FOREIGN}: Object missing required field `enginebay_version`"),
        (
            b'{"format": "1", "enginebay_version": "1"}',
            f"{FOREIGN}: Expected `int`, got `str` - at `$.format`",
        ),
        (b'{"format": 0, "enginebay_version": "1"}', f"{UNFIT}: unknown format 0"),
    ],
)
def test_a_foreign_or_broken_manifest_is_refused(tmp_path, content, reason):
    where = tmp_path / "manifest.json"
    where.write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        open_artifact(tmp_path)
    assert str(caught.value) == f'"{where}" {reason}'


def test_a_deeply_nested_manifest_is_refused(tmp_path):
    deep = b"[" * 100_000 + b"]" * 100_000
    (tmp_path / "manifest.json").write_bytes(b'{"format": %s}' % deep)
    with pytest.raises(ArtifactError, match="is not an Enginebay manifest"):
        open_artifact(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b'{"enginebay_version": "1", "x": %s}' % deep)
    with pytest.raises(ArtifactError, match="is not an Enginebay manifest"):
        open_artifact(tmp_path)


REQUIRED = [
    "backend",
    "plugin",
    "engine_version",
    "torch_version",
    "python",
    "platform",
    "created",
    "model_files",
    "files",
]


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_required_field_is_refused(tmp_path, publish, field):
    publish(tmp_path / "model")
    edit(tmp_path / "model", lambda data: data.pop(field))
    with pytest.raises(ArtifactError) as caught:
        open_artifact(tmp_path / "model")
    assert str(caught.value).endswith(f"{UNFIT}: Object missing required field `{field}`")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"backend": 3}, "Expected `str`, got `int` - at `$.backend`"),
        ({"plugin": "p"}, "Expected `object`, got `str` - at `$.plugin`"),
        ({"files": {}}, "Expected `array`, got `object` - at `$.files`"),
        (
            {"files": [{"path": "a", "sha256": "b", "size": "9"}]},
            "Expected `int`, got `str` - at `$.files[0].size`",
        ),
        ({"inputs": [{"name": "x"}]}, "Object missing required field `dtype` - at `$.inputs[0]`"),
        (
            {"verification": {"verdict": "fine"}},
            "Invalid enum value 'fine' - at `$.verification.verdict`",
        ),
    ],
)
def test_a_field_of_the_wrong_type_is_named(tmp_path, publish, change, reason):
    publish(tmp_path / "model")
    edit(tmp_path / "model", lambda data: data.update(change))
    with pytest.raises(ArtifactError) as caught:
        open_artifact(tmp_path / "model")
    where = tmp_path / "model" / "manifest.json"
    assert str(caught.value) == f'"{where}" {UNFIT}: {reason}'


@given(
    data=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["format", "enginebay_version", "files", "x"]), inner)
        ),
        max_leaves=8,
    ).map(msgspec.json.encode)
)
def test_arbitrary_bytes_raise_only_artifact_errors(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "manifest.json").write_bytes(data)
    with pytest.raises(ArtifactError):
        open_artifact(folder)


def test_file_entries_and_manifests_are_frozen():
    assert FileEntry("a", "b", 1) == FileEntry(path="a", sha256="b", size=1)
    with pytest.raises(AttributeError):
        FileEntry("a", "b", 1).size = 2  # type: ignore[misc]  # frozen is what is tested
    assert Manifest.__struct_config__.frozen
