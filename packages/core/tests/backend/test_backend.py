"""The methods of a backend: their results, and the errors of faulty plugins."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
from enginebay.backend import default_backend
from enginebay.environment import Tier
from enginebay.errors import (
    ArtifactError,
    BackendUnavailableError,
    ConfigError,
    ConversionError,
    FallbackError,
    PluginError,
    UsageError,
)
from enginebay.operations.checking import _TINY_ONNX
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = (
    "from enginebay_testing.loopback import *\n"
    "from enginebay_testing import loopback\n"
    "from pathlib import Path\n"
    "to_backend, build_wrapper, check_env = "
    "loopback.to_backend, loopback.build_wrapper, loopback.check_env\n"
)


def variant(text: str, *, name: str = "odd", info: str = "") -> Any:
    """A loopback backend with some hooks replaced."""
    answer = f"eb.BackendInfo(name='{name}', irs=('onnx',), params=LoopbackParams{info})"
    source = f"{HEAD}@eb.hookimpl\ndef backend_info(): return {answer}\n{text}"
    return temporary_backend(name, source)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """relu(2 x) on float32[1, 3, 4, 4]."""
    path = tmp_path / "tiny.onnx"
    path.write_bytes(_TINY_ONNX.read_bytes())
    return path


def test_tiny_model_matches_its_comment() -> None:
    from onnx import checker, helper, load_from_string, numpy_helper

    spec = [helper.make_tensor_value_info(name, 1, [1, 3, 4, 4]) for name in ("x", "y")]
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["double"]),
        helper.make_node("Relu", ["double"], ["y"]),
    ]
    two = numpy_helper.from_array(np.array([2], np.float32), "two")
    graph = helper.make_graph(nodes, "smoke", spec[:1], spec[1:], [two])
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="enginebay")
    checker.check_model(model)
    assert load_from_string(_TINY_ONNX.read_bytes()) == model


def test_backend_is_available_after_a_smoke_test(loopback: str) -> None:
    backend = eb.get_backend(loopback)
    report = backend.check_env()
    assert [check.tier for check in report.checks] == [Tier.METADATA, Tier.IMPORT, Tier.SMOKE]
    assert report.ok
    assert backend.is_available()


def test_check_for_custom_operators_fails_without_support(loopback: str) -> None:
    backend = eb.get_backend(loopback)
    check = backend.check_env(with_custom_ops=True).failed
    assert check is not None
    assert (check.tier, check.name) == (Tier.DEVICE, "custom ops")
    assert check.found == "backend 'loopback' does not load custom operators"
    assert check.fix == "enginebay check-env loopback  # without --with-custom-ops"
    assert not backend.is_available(with_custom_ops=True)


def test_backend_that_lowers_every_model_is_available() -> None:
    source = (
        "from enginebay_testing import loopback\n"
        "from enginebay_testing.loopback import *\n\n\n"
        "@eb.hookimpl\n"
        "def to_backend(request):\n"
        "    import torch\n\n"
        "    example = torch.ones(request.ir.inputs[0].dims)\n"
        "    graph = request.lower(torch.nn.ReLU(), (example,), frozenset({'aten.relu'}))\n"
        "    assert 'aten.relu' in str(graph.graph)\n"
        "    return loopback.to_backend(request)\n"
    )
    with temporary_backend("loopback", source):
        report = eb.get_backend("loopback").check_env()
    assert report.ok, report.checks


def test_backend_without_onnx_is_checked_with_an_exported_model() -> None:
    source = """\
import shutil

import enginebay as eb


@eb.hookimpl
def backend_info(): return eb.BackendInfo(name="odd", irs=("torchscript",))


@eb.hookimpl
def to_backend(request):
    shutil.copyfile(request.ir.path, request.work_dir / "model.pt")
    return [request.work_dir / "model.pt"]


@eb.hookimpl
def build_wrapper(request): return Wrapper(request)


class Wrapper(eb.Wrapper):
    def __init__(self, request):
        from enginebay.authors.files import read_torchscript

        super().__init__(inputs=request.inputs, outputs=request.outputs)
        self.model = read_torchscript(request.directory / request.files[0])[0]

    @property
    def receipt(self): return eb.Receipt(engine="odd", device="cpu")

    def execute(self, feed):
        import torch

        return [y.numpy() for y in self.model(torch.from_numpy(feed["x"]))]
"""
    with temporary_backend("odd", source):
        report = eb.get_backend("odd").check_env()
    assert report.ok, report.checks
    assert report.checks[-1].found == "odd on cpu, worst difference 0"


def test_smoke_test_with_wrong_numbers_fails() -> None:
    with variant("LoopbackParams.__struct_defaults__\n") as _:
        report = eb.get_backend("odd").check_env(eb.get_backend("odd").Params(gain=1.5))
    assert report.failed is not None
    assert report.failed.found.startswith("wrong by 1")
    assert report.failed.wanted == "relu(2 x)"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("action", "found"),
    [
        ("__import__('os').kill(__import__('os').getpid(), 11)", "SIGSEGV"),
        ("raise RuntimeError('no device')", "RuntimeError: no device"),
        ("__import__('time').sleep(600)", "limit"),
    ],
    ids=["segfault", "raises", "hangs"],
)
def test_failed_tier_skips_later_tiers(action: str, found: str, soon: int) -> None:
    text = (
        "@eb.hookimpl\n"
        "def check_env(request):\n"
        f"    if request.tier is Tier.DEVICE: {action}\n"
        "    return eb.EnvReport()\n"
    )
    with variant(text):
        report = eb.get_backend("odd").check_env(timeout=5 * soon if "limit" in found else 600)
    assert report.failed is not None
    assert report.failed.tier is Tier.DEVICE
    assert found in report.failed.found
    assert [(check.tier, check.status) for check in report.checks[-1:]] == [(Tier.SMOKE, "skipped")]


@pytest.mark.parametrize(
    ("method", "found", "wanted"),
    [
        (
            "def execute(self, feed): return [y.astype('float64') for y in super().execute(feed)]",
            "an output float64[1, 3, 4, 4]",
            "float32[1, 3, 4, 4]",
        ),
        (
            "receipt = eb.Receipt(engine='made up', device='quantum:0')",
            "it ran on 'quantum:0'",
            "cpu",
        ),
        (
            "receipt = eb.Receipt(engine='made up', device='quantum2')",
            "it ran on 'quantum2'",
            "cpu",
        ),
    ],
)
def test_smoke_test_with_wrong_dtype_or_device_fails(method: str, found: str, wanted: str) -> None:
    text = (
        f"class Odd(LoopbackWrapper):\n    {method}\n"
        "@eb.hookimpl\ndef build_wrapper(request): return Odd(request)\n"
    )
    with variant(text, info=", devices=('cpu', 'quantum2')"):
        report = eb.get_backend("odd").check_env()
    assert report.failed is not None
    assert (report.failed.tier, report.failed.found, report.failed.wanted) == (
        Tier.SMOKE,
        found,
        wanted,
    )


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("from no_such import thing", "raised ModuleNotFoundError: No module named 'no_such'"),
        ("return ['ok']", "returned ['ok']: expected EnvReport"),
    ],
)
def test_faulty_check_env_hook_names_the_plugin(body: str, found: str) -> None:
    with variant(f"@eb.hookimpl\ndef check_env(request):\n    {body}\n"):
        report = eb.get_backend("odd").check_env()
    assert report.failed is not None
    assert report.failed.name == "the plugin's check"
    assert report.failed.found == f"check_env() of 'odd' (temporary-odd 0) {found}"
    fix = (
        r"report it to the authors of temporary-odd, or correct check_env\(\) of temporary_odd_\d+"
    )
    assert re.fullmatch(fix, report.failed.fix or "")
    assert [check.status for check in report.checks] == ["failed", *["skipped"] * 3]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("'A100'", "Mapping"),
        ("{'gpu': None}", "a mapping of texts"),
        ("{1: '2'}", "a mapping of texts"),
    ],
)
def test_invalid_result_of_bound_to_names_the_plugin(found: str, wanted: str) -> None:
    with variant(f"@eb.hookimpl\ndef bound_to(request): return {found}\n"):
        backend = eb.get_backend("odd")
        with pytest.raises(PluginError) as caught:
            backend.bound_to(backend.Params())
    assert str(caught.value) == (
        f"bound_to() of 'odd' (temporary-odd 0) returned {found}: expected {wanted}"
    )


@pytest.mark.slow
def test_preferred_opset_of_a_backend_is_exported(tmp_path: Path) -> None:
    import torch

    model, x = torch.nn.ReLU(), torch.ones(2)
    with variant("", info=", opset=17"):
        export = {"backend": "odd", "overwrite": True, "path": tmp_path / "a.onnx"}
        assert eb.export(model, x, **export).opset == 17
        assert eb.export(model, x, options=eb.ExportOptions(opset=21), **export).opset == 21
        ir = eb.deploy(model, x, backend="odd", work_dir=tmp_path / "out").artifact.manifest.ir
    assert ir is not None
    assert ir.opset == 17


def test_missing_runtime_hints_at_its_installation() -> None:
    with variant("", info=", runtime_distributions=('no-such-engine>=2',)"):
        backend = eb.get_backend("odd")
        lines: list[str] = []
        report = backend.check_env(log_callback=lines.append)
        assert not backend.is_available()
        with pytest.raises(BackendUnavailableError) as caught:
            backend.get_version()
    assert report.failed is not None
    assert report.failed.fix == "pip install 'no-such-engine>=2'"
    assert len(lines) == len(report.checks)
    assert lines[0].startswith("metadata: no-such-engine: failed, ")
    assert lines[-1] == "smoke: smoke: skipped, no-such-engine failed before"
    assert [check.status for check in report.checks] == ["failed", *["skipped"] * 3]
    assert str(caught.value) == (
        "the engine of backend 'odd' is not installed: expected no-such-engine>=2"
    )


def test_version_is_that_of_the_runtime(loopback: str) -> None:
    import onnx

    assert eb.get_backend(loopback).get_version() == onnx.__version__


def test_converted_files_run_without_an_artifact(loopback: str, tiny: Path, tmp_path: Path) -> None:
    backend = eb.get_backend(loopback)
    where = str(tmp_path / "bare")
    (file,) = backend.to_backend(tiny, work_dir=where, file_name="net")
    assert file == tmp_path / "bare" / "net.onnx"
    with backend.build_wrapper(work_dir=where, file_name="net") as wrapper:
        y = wrapper({"x": np.full((1, 3, 4, 4), -1, np.float32)})["y"]
    assert not y.any()


POSITIONAL = """\
import shutil
import enginebay as eb
from enginebay_testing import loopback

class Wrapper(loopback.LoopbackWrapper):
    def __init__(self, request):
        super().__init__(request)
        eb.Wrapper.__init__(self, inputs=request.inputs, outputs=request.outputs)

@eb.hookimpl
def build_wrapper(request):
    return Wrapper(request)

to_backend = loopback.to_backend

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="positional", irs=("onnx",), params=loopback.LoopbackParams)
"""


def test_an_engine_without_names_gets_them_without_an_artifact(tiny: Path, tmp_path: Path) -> None:
    where = str(tmp_path)
    with temporary_backend("positional", POSITIONAL):
        backend = eb.get_backend("positional")
        (file,) = backend.to_backend(tiny, work_dir=where)
        with backend.build_wrapper(work_dir=where) as wrapper:
            assert (wrapper.input_names, wrapper.output_names) == (("x",), ("y",))
        tensors = file.with_name("model.onnx.tensors.json")
        tensors.write_text("[]")
        with pytest.raises(ArtifactError, match="is damaged: Expected `object`, got `array`"):
            backend.build_wrapper(work_dir=where)
        tensors.write_text('{"size": 1}')  # of another file
        assert not backend.build_wrapper(work_dir=where).inputs


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("None", "to_backend of 'odd' returned None: expected a list of files"),
        ("'model.onnx'", "to_backend of 'odd' returned 'model.onnx': expected a list of files"),
        ("[]", "backend 'odd' wrote no file"),
        (
            "['model.onnx']",
            "backend 'odd' returned the file 'model.onnx', which is missing",
        ),
        (
            "(request.work_dir / 'no.bin').touch() or ['no.bin']",
            "backend 'odd' returned the file 'no.bin', which is empty",
        ),
        (
            "({}[name] for name in ['gone'])",
            "backend 'odd' could not convert 'tiny.onnx': KeyError: 'gone'",
        ),
        ("7", "to_backend of 'odd' returned 7: expected a list of files"),
        ("[7]", "to_backend of 'odd' returned [7]: expected a list of files"),
        ("['/etc/passwd']", "backend 'odd' wrote '/etc/passwd' outside its work_dir"),
        (
            "1 / 0",
            "backend 'odd' could not convert 'tiny.onnx': ZeroDivisionError: division by zero",
        ),
    ],
)
def test_invalid_result_of_to_backend_is_refused(
    tiny: Path, tmp_path: Path, answer: str, message: str
) -> None:
    with (
        variant(f"@eb.hookimpl\ndef to_backend(request): return {answer}\n"),
        pytest.raises(ConversionError) as caught,
    ):
        eb.get_backend("odd").to_backend(tiny, work_dir=str(tmp_path / "out"))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("7", "build_wrapper of 'odd' returned 7: expected a Wrapper"),
        ("1 / 0", "backend 'odd' could not load 'model.onnx': ZeroDivisionError: division by zero"),
    ],
)
def test_invalid_result_of_build_wrapper_is_refused(
    tiny: Path, tmp_path: Path, answer: str, message: str
) -> None:
    with (
        variant(f"@eb.hookimpl\ndef build_wrapper(request): return {answer}\n"),
        pytest.raises(ConversionError) as caught,
    ):
        eb.load(eb.convert(tiny, backend="odd", work_dir=tmp_path / "out"))
    assert str(caught.value) == message


def test_absent_device_is_refused_before_the_first_step_of_a_deployment(tmp_path: Path) -> None:
    import torch

    steps: list[object] = []
    message = "^device 'GPU.0' was requested, but onnx.reference "
    with (
        variant("", info=", devices=('cpu', 'gpu')"),
        pytest.raises(FallbackError, match=message) as caught,
    ):
        eb.deploy(
            *(torch.nn.ReLU(), torch.ones(1)),
            backend="odd",
            params={"device": "GPU.0"},
            work_dir=tmp_path / "out",
            watch=steps.append,
        )
    assert caught.value.hint == "--device cpu; enginebay check-env odd --device GPU.0"
    assert steps == []


def test_fallback_is_in_the_receipt_and_refused_when_strict(tiny: Path, tmp_path: Path) -> None:
    text = (
        "class Fallen(LoopbackWrapper):\n"
        "    receipt = eb.Receipt(engine='e 1', device='cpu', fallbacks=('no turbo here',))\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return Fallen(request)\n"
    )
    with variant(text):
        artifact = eb.convert(tiny, backend="odd", work_dir=tmp_path / "out")
        with eb.load(artifact) as wrapper:
            assert wrapper.receipt.fallbacks == ("no turbo here",)
        with pytest.raises(FallbackError) as caught:
            eb.load(artifact, strict=True)
    assert str(caught.value) == "backend 'odd' used a fallback, which strict forbids: no turbo here"


@pytest.mark.parametrize(
    ("info", "device", "kind", "message"),
    [
        ("", "cuda:1", FallbackError, "'odd' has no device 'cuda:1': expected cpu"),
        (
            ", devices=('cpu', 'gpu')",
            "GPU.0",
            FallbackError,
            "device 'GPU.0' was requested, but onnx.reference ",
        ),
    ],
)
def test_device_different_from_the_requested_device_is_refused(
    info: str, device: str, kind: type[Exception], message: str, tiny: Path, tmp_path: Path
) -> None:
    with variant("", info=info):
        artifact = eb.convert(tiny, backend="odd", work_dir=tmp_path / "out")
        with pytest.raises(kind) as caught:
            eb.load(artifact, device=device)
    assert str(caught.value).startswith(message)


def test_smoke_test_with_a_fallback_fails() -> None:
    text = (
        "class Fallen(LoopbackWrapper):\n"
        "    receipt = eb.Receipt(engine='e 1', device='cpu', fallbacks=('no turbo here',))\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return Fallen(request)\n"
    )
    with variant(text):
        check = eb.get_backend("odd").check_env().failed
    assert check is not None
    assert check.tier == "smoke"
    assert check.found == "backend 'odd' used a fallback, which strict forbids: no turbo here"


def test_artifact_bound_to_a_different_engine_is_refused(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginebay.errors import ArtifactError

    bound = (
        "@eb.hookimpl\n"
        "def bound_to(request):\n"
        "    return {'engine_version': eb.get_backend(request.backend).get_version()}\n"
    )
    with variant(bound, info=", runtime_distributions=('onnx',)"):
        artifact = eb.convert(tiny, backend="odd", work_dir=tmp_path / "out")
        eb.load(artifact).close()
        manifest = artifact.path / "manifest.json"
        text = manifest.read_text()
        version = eb.get_backend("odd").get_version()
        manifest.write_text(text.replace(f'"engine_version": "{version}"', '"engine_version": "0"'))
        with pytest.raises(
            ArtifactError, match=f'runs only with engine_version "0", found "{version}"'
        ):
            eb.load(artifact.path)


def test_device_number_after_a_dot_is_accepted() -> None:
    text = (
        "class LoopbackParams(LoopbackParams):\n"
        "    device: str = 'quantum'\n"
        "class Odd(LoopbackWrapper):\n"
        "    receipt = eb.Receipt(engine='made up', device='quantum.0')\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return Odd(request)\n"
    )
    with variant(text, info=", devices=('quantum',)"):
        assert eb.get_backend("odd").check_env().failed is None


def test_int8_without_data_is_verified_with_probes(tmp_path: Path) -> None:
    import torch

    text = (
        "class LoopbackParams(LoopbackParams):\n"
        "    precision: str = 'fp32'\n"
        "class Rounded(LoopbackWrapper):\n"
        "    receipt = eb.Receipt(engine='rounded 1', device='cpu', precision='int8')\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return Rounded(request)\n"
    )
    model, inputs = torch.nn.Linear(4, 8), torch.randn(2, 4)
    with variant(text, info=", precisions=('fp32', 'int8')"):
        made = eb.deploy(model, inputs, backend="odd", precision="int8", work_dir=tmp_path / "out")
        found = eb.verify(made.artifact, reference=model)
    for basis in (made.verification.basis, found.basis):
        assert basis is not None
        assert any(label.startswith("redrawn") for label in basis.labels)
        assert basis.dropped == ()


def test_to_backend_receives_the_samples_of_a_deployment(tmp_path: Path) -> None:
    import torch

    text = (
        "@eb.hookimpl\n"
        "def to_backend(request):\n"
        "    request.progress(repr([s['x'].tolist() for s in request.samples]))\n"
        "    return loopback.to_backend(request)\n"
    )
    details: list[str] = []
    with variant(text):
        deployed = eb.deploy(
            torch.nn.ReLU(),
            torch.tensor([[1.0, 2.0]]),
            backend="odd",
            work_dir=tmp_path / "deployed",
            dynamic={"x": {0: ("n", 1, 2)}},
            watch=lambda step: details.append(step.detail),
            export=eb.ExportOptions(input_names=["x"]),
        )
    # The texts to evaluate are written by this test's own hook.
    example, largest = next(eval(text) for text in details if text.startswith("[[["))
    assert example == [[1.0, 2.0]]
    assert np.shape(largest) == (2, 2)  # without probes, which a converter need not handle
    assert deployed.verdict == "verified"


def test_to_backend_receives_no_samples_for_an_ir(tmp_path: Path, tiny: Path) -> None:
    text = "@eb.hookimpl\ndef to_backend(request): raise ValueError(request.samples)"
    with variant(text), pytest.raises(ConversionError, match=r"ValueError: \(\)"):
        eb.convert(tiny, backend="odd", work_dir=tmp_path / "converted")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ((2, 3), (2, 3), (2, 3))),
        ({"dynamic": {"x": {0: ("n", 1, 4, 8)}}}, ((1, 3), (4, 3), (8, 3))),
        ({"dynamic": {"x": {0: "n"}}}, ((1, 3), (2, 3), (None, 3))),
        ({"params": {"min_shapes": "1x?", "max_shapes": "x:8x3"}}, ((1, 3), (2, 3), (8, 3))),
    ],
)
@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.one_in(3)
def test_to_backend_receives_the_range_of_shapes(
    tmp_path: Path, given: dict[str, Any], wanted: tuple[Any, ...], as_file: bool
) -> None:
    import torch

    text = (
        "@eb.hookimpl\n"
        "def to_backend(request):\n"
        "    p = request.shapes['x']\n"
        "    request.progress(repr((p.min, p.opt, p.max)))\n"
        "    return loopback.to_backend(request)\n"
    )
    model: Any = torch.nn.ReLU()
    if as_file:
        if "dynamic" in given:
            pytest.skip("a file's dimensions are open already")
        eb.export(
            model,
            torch.ones(2, 3),
            path=tmp_path / "m.onnx",
            dynamic={"x": {0: "n"}},
            options=eb.ExportOptions(input_names=["x"]),
        )
        model = tmp_path / "m.onnx"
    details: list[str] = []
    with variant(text):
        eb.deploy(
            model,
            torch.ones(2, 3),
            backend="odd",
            work_dir=tmp_path / "out",
            watch=lambda step: details.append(step.detail),
            export={"input_names": None if as_file else ["x"]},
            **given,
        )
    assert repr(wanted) in details


def test_hook_wrapper_receives_the_name_of_each_backend(tmp_path: Path, tiny: Path) -> None:
    source = (
        "import enginebay as eb\n"
        "@eb.hookimpl(wrapper=True)\n"
        "def to_backend(request):\n"
        "    backend = eb.get_backend(request.backend)\n"
        "    seen = f'{backend!r} {backend.distribution_version}'\n"
        "    (request.work_dir / 'seen').write_text(seen)\n"
        "    return (yield)\n"
    )
    with (
        variant("", name="one"),
        variant("", name="two"),
        temporary_backend("everywhere", source, group="enginebay.plugins"),
    ):
        for name in ("one", "two"):
            eb.get_backend(name).to_backend(tiny, work_dir=str(tmp_path / name))
            seen = (tmp_path / name / "seen").read_text()
            assert seen == f"<Backend {name} from temporary-{name}> 0"


def test_every_request_names_its_backend(tmp_path: Path, tiny: Path) -> None:
    log = tmp_path / "log"
    asked = "".join(
        f"@eb.hookimpl(wrapper=True)\n"
        f"def {hook}(request):\n"
        f"    with open({str(log)!r}, 'a') as file:\n"
        f"        print('{hook}', request.backend, file=file)\n"
        f"    return (yield)\n"
        for hook in ("check_env", "to_backend", "build_wrapper", "bound_to")
    )
    with (
        variant("", name="one"),
        temporary_backend("log", f"import enginebay as eb\n{asked}", group="enginebay.plugins"),
    ):
        backend = eb.get_backend("one")
        assert backend.check_env().ok
        eb.load(eb.convert(tiny, backend="one", work_dir=tmp_path / "out")).close()
        backend.bound_to(backend.Params())
    lines = set(log.read_text().splitlines())
    assert lines == {"check_env one", "to_backend one", "build_wrapper one", "bound_to one"}


def test_artifact_with_a_changed_binding_is_refused(tmp_path: Path) -> None:
    import torch

    from enginebay.errors import ArtifactError

    text = (
        "@eb.hookimpl\n"
        "def bound_to(request):\n"
        "    import os\n"
        "    return {'board': os.environ.get('ODD_BOARD', 'A') + request.params.device}\n"
    )
    with variant(text):
        made = eb.deploy(
            torch.nn.ReLU(),
            torch.ones(2),
            backend="odd",
            work_dir=tmp_path / "out",
            export=eb.ExportOptions(keep_ir=True),
        )
        assert made.artifact.manifest.pinned == {"board": "Acpu"}
        eb.load(made.artifact).close()
        with pytest.raises(ArtifactError) as caught:
            eb.load(made.artifact, device="gpu")
    assert str(caught.value) == 'the artifact runs only with board "Acpu", found "Agpu"'
    ir = made.artifact.path / "ir" / "model.onnx"
    hint = str(caught.value.hint)
    assert hint.startswith("cd ")
    assert "  # eb.deploy(torch.nn.ReLU(), torch.ones(2), backend='odd', work_dir=" in hint
    assert hint.endswith(f", or from the IR in it: enginebay convert odd {shlex.quote(str(ir))}")


#: The hooks that a deployment calls in its own process, and the error of each.
HOOKS = {
    "to_backend": (ConversionError, "backend 'odd' could not convert 'tiny.onnx': {}: 0"),
    "build_wrapper": (ConversionError, "backend 'odd' could not load 'model.onnx': {}: 0"),
    "bound_to": (PluginError, "bound_to() of 'odd' (temporary-odd 0) raised {}"),
    "rewriters": (PluginError, "rewriters() of 'odd' (temporary-odd 0) raised {}"),
}


@pytest.mark.parametrize(
    ("action", "raised"), [("raise SystemExit(0)", "SystemExit"), ("raise Odd(0)", "Odd")]
)
@pytest.mark.parametrize("hook", HOOKS)
def test_hook_that_exits_is_an_error_with_its_name(
    hook: str, action: str, raised: str, tmp_path: Path, tiny: Path
) -> None:
    odd = "class Odd(BaseException): ...\n"
    with variant(f"{odd}@eb.hookimpl\ndef {hook}(request): {action}"):
        backend = eb.get_backend("odd")
        calls = {
            "to_backend": lambda: backend.to_backend(tiny, work_dir=str(tmp_path / "out")),
            "build_wrapper": lambda: backend.build_wrapper(work_dir=str(tmp_path)),
            "bound_to": lambda: backend.bound_to(backend.Params()),
            "rewriters": backend.rewriters,
        }
        kind, message = HOOKS[hook]
        with pytest.raises(kind) as caught:
            calls[hook]()
    shown = f"{raised}(0)" if (raised, kind) == ("SystemExit", PluginError) else raised
    shown += ": 0" if (raised, kind) == ("Odd", PluginError) else ""
    assert str(caught.value) == message.format(shown)


def test_unsupported_kind_of_ir_is_refused(tiny: Path, tmp_path: Path, loopback: str) -> None:
    import torch

    path = tmp_path / "relu.pt"
    eb.export(torch.nn.ReLU(), torch.ones(1), path=path)
    with pytest.raises(
        ConversionError, match=r"convert 'relu\.pt': expected onnx, found torchscript"
    ):
        eb.convert(path, backend=loopback, work_dir=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unsupported_input_dtype_is_refused(tmp_path: Path, loopback: str) -> None:
    """By ``deploy`` before the export, and by ``convert``."""
    import torch

    path, x = tmp_path / "relu.onnx", torch.ones(1, dtype=torch.int8)
    eb.export(torch.nn.ReLU(), x, path=path)
    steps: list[str] = []
    given: dict[str, Any] = {"backend": loopback, "work_dir": tmp_path / "out"}
    wanted = (
        "input 'input' has dtype int8, but backend 'loopback' supports float16, float32, float64, "
        "int32, int64, bool\n"
        "hint: pass 'input' in one of these dtypes, and convert the dtype in the model"
    )
    for refuse in (
        lambda: eb.deploy(torch.nn.ReLU(), x, **given, watch=lambda step: steps.append(step.name)),
        lambda: eb.convert(path, **given),
    ):
        with pytest.raises(ConversionError) as caught:
            refuse()
        assert f"{caught.value}\nhint: {caught.value.hint}" == wanted
        assert not (tmp_path / "out").exists()
    assert set(steps) == {"reference"}


def test_main_of_a_backend_converts_a_model(loopback: str, tiny: Path, tmp_path: Path) -> None:
    backend = eb.get_backend(loopback)
    backend.main([str(tiny), "--work-dir", str(tmp_path / "made"), "--file-name", "net"])
    assert (tmp_path / "made" / "net.onnx").is_file()


def test_usage_of_main_with_arguments_names_the_backend(
    loopback: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        eb.get_backend(loopback).main([])
    assert capsys.readouterr().err.startswith("usage: loopback convert [-h] ")


def test_arguments_of_a_wrong_type_are_named(loopback: str, tiny: Path, tmp_path: Path) -> None:
    backend: Any = eb.get_backend(loopback)
    x = np.ones((1, 3, 4, 4), np.float32)
    work_dir = tmp_path / "out"
    attempts: list[tuple[Callable[[], object], str, str | None]] = [
        (
            lambda: eb.deploy(tiny, {"x": x}, backend=backend, work_dir=work_dir),
            "invalid backend: expected a name, found an object of type Backend",
            "--backend loopback",
        ),
        (
            lambda: eb.get_backend(None),  # type: ignore[arg-type]  # the mistake under test
            "invalid backend: expected a name, found an object of type NoneType",
            "enginebay backends",
        ),
        (
            lambda: backend.build_param_from_config(None),
            "invalid config: expected a mapping, found a NoneType",
            "read a file by enginebay.authors.files.read_config",
        ),
        (
            lambda: backend.to_backend_from_param(None, None),
            "'None' is not an IR file: expected .onnx, .pt (TorchScript) or .pt2",
            "enginebay export MODEL first, or enginebay deploy MODEL",
        ),
        (
            lambda: backend.to_backend_from_param(tiny, 3),
            (
                "wrong parameters for backend 'loopback': expected LoopbackParams or a mapping, "
                "found int"
            ),
            None,
        ),
    ]
    for attempt, message, hint in attempts:
        with pytest.raises(UsageError) as caught:
            attempt()
        assert (str(caught.value), caught.value.hint) == (message, hint)
    assert not work_dir.exists()


def test_conversion_and_loading_without_parameters_have_the_defaults(
    loopback: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = eb.get_backend(loopback)
    assert [file.name for file in backend.to_backend_from_param(tiny, None)] == ["model.onnx"]
    with backend.build_wrapper_from_param(None) as wrapper:
        assert wrapper.input_names == ("x",)


def test_parse_args_converts_only_after_a_block_without_error(
    loopback: str, tiny: Path, tmp_path: Path
) -> None:
    backend = eb.get_backend(loopback)
    argv = [str(tiny), "--work-dir", str(tmp_path / "made")]
    with pytest.raises(RuntimeError), backend.parse_args(ArgumentParser(), argv):
        raise RuntimeError("changed my mind")
    assert not (tmp_path / "made").exists()
    with backend.parse_args(ArgumentParser(), argv) as parsed:
        assert parsed.work_dir == str(tmp_path / "made")
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made" / "model.onnx").is_file()


def test_params_are_read_from_a_config(loopback: str) -> None:
    backend = eb.get_backend(loopback)
    config = {"backend_config": {"type": "loopback", "gain": 2}}
    params: Any = backend.build_param_from_config(config, "out")
    assert (params.gain, params.work_dir) == (2.0, "out")
    with pytest.raises(UsageError, match="the config is for backend 'ncnn', not 'loopback'"):
        backend.build_param_from_config({"backend_config": {"type": "ncnn"}}, "out")
    with pytest.raises(ConfigError, match="'gian' is not a key of backend_config"):
        backend.build_param_from_config({"backend_config": {"gian": 2}}, "out")


def test_only_installed_backend_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "odd")
    with variant(""):
        assert default_backend() == "odd"
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "odd,other")
    with variant(""), variant("", name="other"):
        assert default_backend() == "onnxruntime"
