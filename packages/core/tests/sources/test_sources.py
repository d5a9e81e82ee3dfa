from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zipfile

import pytest
import torch
from packages.core.tests.exports import export
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.authors.files import read_ir
from enginebay.authors.sources import find_model
from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, ModelSourceError
from enginebay.sources.sources import load_model

NETS = """
import torch
from torch import nn
import neighbour

class Net(nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.linear = nn.Linear(4, width)
    def forward(self, x):
        import late_neighbour
        return self.linear(x) * late_neighbour.TWO

class Needy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()

net = Net(3)
def build():
    return Net(neighbour.WIDTH)
def with_inputs():
    return Net(), torch.ones(1, 4)
def with_two_inputs():
    return Net(), (torch.ones(1, 4), {"y": torch.ones(1)})
def raising():
    raise RuntimeError("no weights\\nhere")
def leaving():
    raise SystemExit(3)
def nothing():
    return None
def weights():
    return Net().state_dict()
number = 3
class group:
    net = net
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "neighbour.py").write_text("WIDTH = 5\n")
    (tmp_path / "late_neighbour.py").write_text("TWO = 2\n")
    before = list(sys.path), set(sys.modules)
    monkeypatch.chdir(tmp_path.parent)
    yield tmp_path
    sys.path[:] = before[0]
    for name in set(sys.modules) - before[1]:
        if name in ("nets", "neighbour", "late_neighbour") or name.startswith("enginebay_source"):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("attribute", "width"), [("Net", 2), ("net", 3), ("build", 5), ("group.net", 3)]
)
def test_model_is_loaded_from_file_and_attribute(folder, attribute: str, width: int) -> None:
    source = load_model(f"{folder / 'nets.py'}:{attribute}")
    assert source.model(torch.ones(1, 4)).shape == (1, width)
    assert source.example_inputs is None
    assert source.ir is None
    assert source.description == f"{folder / 'nets.py'}:{attribute}"


def test_a_relative_file_is_found(folder) -> None:
    assert load_model(f"{folder.name}/nets.py:net").model is not None


def test_a_module_in_the_current_folder_is_found(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    assert load_model("nets:net").model(torch.ones(1, 4)).shape == (1, 3)
    assert isinstance(load_model("torch.nn:Identity").model, nn.Identity)


def test_example_inputs_of_a_factory_are_returned(folder) -> None:
    assert torch.equal(load_model(f"{folder}/nets.py:with_inputs").example_inputs, torch.ones(1, 4))
    inputs = load_model(f"{folder}/nets.py:with_two_inputs").example_inputs
    assert isinstance(inputs, tuple)
    assert list(inputs[1]) == ["y"]


def test_model_folder_is_appended_once_to_sys_path(folder) -> None:
    for _ in range(2):
        load_model(f"{folder}/nets.py:net")
    assert sys.path[-1] == str(folder)
    assert sys.path.count(str(folder)) == 1


def test_files_of_the_same_name_load_separately(folder) -> None:
    other = folder / "other"
    other.mkdir()
    (other / "nets.py").write_text("from torch import nn\nnet = nn.Identity()\n")
    assert isinstance(load_model(f"{other}/nets.py:net").model, nn.Identity)
    assert type(load_model(f"{folder}/nets.py:net").model).__name__ == "Net"


def test_an_edited_file_is_read_again(folder) -> None:
    (folder / "m.py").write_text("from torch import nn\nnet = nn.Identity()\n")
    load_model(f"{folder}/m.py:net")
    (folder / "m.py").write_text("from torch import nn\nnet = nn.ReLU(inplace=True)\n")
    assert isinstance(load_model(f"{folder}/m.py:net").model, nn.ReLU)


@pytest.mark.process
@pytest.mark.parametrize("name", ["net.py:build", "net:build"])
def test_a_file_beside_the_model_does_not_hide_what_torch_imports(tmp_path, name: str) -> None:
    """Torch itself imports ``cuda``, if there is one."""
    (tmp_path / "cuda.py").write_text("import torch.nn\n")
    (tmp_path / "net.py").write_text("from torch import nn, ones\nbuild = nn.ReLU(), ones(1)\n")
    load = f"from enginebay.authors.sources import find_model; print(find_model({name!r}).model)"
    # -P: Python itself puts the current folder first otherwise.
    words = (sys.executable, "-P", "-c", load)
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("ReLU()\n", "")


def test_modules_factories_and_programs_are_accepted() -> None:
    net = nn.Identity()
    assert load_model(net).model is net
    assert load_model((net, 3)).example_inputs == 3
    assert isinstance(load_model(nn.Identity).model, nn.Identity)
    assert load_model(lambda: (net, 4)).example_inputs == 4
    program = torch.export.export(net, (torch.ones(2),))
    source = load_model(program)
    assert source.model is program
    assert torch.equal(source.example_inputs[0], torch.ones(2))


def test_scheme_of_a_plugin_takes_precedence() -> None:
    schemes = {"zoo": lambda name: (nn.Linear(len(name), 1), name)}
    source = load_model("zoo:resnet18:v2", schemes=schemes)
    assert source.model.in_features == len("resnet18:v2")
    assert source.example_inputs == "resnet18:v2"
    with pytest.raises(ModelSourceError, match=r"^calling 'zoo:x' raised KeyError: 'x'$"):
        load_model("zoo:x", schemes={"zoo": {}.__getitem__})


MODULE = "expected an nn.Module, or a callable that returns one"


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (
            "{folder}/nets.py:nett",
            "'{folder}/nets.py:nett': there is no 'nett' in '{folder}/nets.py'",
            "did you mean 'net'?",
        ),
        (
            "{folder}/nest.py:net",
            "no file '{folder}/nest.py'",
            "did you mean '{folder}/nets.py'?",
        ),
        (
            "{folder}/nets.py:raising",
            "calling '{folder}/nets.py:raising' raised RuntimeError: no weights",
            None,
        ),
        (
            "{folder}/nets.py:leaving",
            "calling '{folder}/nets.py:leaving' raised SystemExit: 3",
            None,
        ),
        (
            "{folder}/nets.py:Needy",
            (
                "'{folder}/nets.py:Needy' cannot be called without arguments; required arguments: "
                "width, depth"
            ),
            "pass the name of a function that takes no arguments and returns the model",
        ),
        (
            "{folder}/nets.py:nothing",
            "'{folder}/nets.py:nothing' is or returns an object of type NoneType; " + MODULE,
            None,
        ),
        (
            "{folder}/nets.py:weights",
            "'{folder}/nets.py:weights' is or returns an object of type OrderedDict; " + MODULE,
            "a state_dict contains only weights: load them into a model, and pass the model",
        ),
        (
            "{folder}/nets.py:number",
            "'{folder}/nets.py:number' is or returns an object of type int; " + MODULE,
            None,
        ),
        (
            "{folder}/nets.py",
            "'{folder}/nets.py' does not specify which model in the file",
            (
                "write {folder}/nets.py:NAME; available: Net, Needy, build, with_inputs, "
                "with_two_inputs, raising"
            ),
        ),
        (
            "{folder}/weights.pth",
            "'{folder}/weights.pth' contains weights, not a model",
            "also pass the model of these weights: file.py:attr --weights {folder}/weights.pth",
        ),
        (
            "resnet18",
            "'resnet18' is not a valid model name",
            (
                "expected file.py:attr, package.module:attr, or a .onnx, .pt (TorchScript) "
                "or .pt2 file"
            ),
        ),
        (
            "no.such.module:net",
            "no module 'no'",
            "run the command in the module's folder, or install the module",
        ),
        ("{folder}/no.pth", "no file '{folder}/no.pth'", None),
        (
            "{folder}/weight.pth",
            "no file '{folder}/weight.pth'",
            "did you mean '{folder}/weights.pth'?",
        ),
        ("{folder}/no.onnx", "no file '{folder}/no.onnx'", None),
        ("{folder}/no.pt", "no file '{folder}/no.pt'", None),
        ("{folder}/no.pt2", "no file '{folder}/no.pt2'", None),
    ],
)
def test_invalid_model_sources_are_refused(folder, source: str, message: str, hint) -> None:
    (folder / "weights.pth").touch()
    with pytest.raises(ModelSourceError) as caught:
        load_model(source.replace("{folder}", str(folder)))
    assert str(caught.value) == message.replace("{folder}", str(folder))
    assert caught.value.hint == (hint and hint.replace("{folder}", str(folder)))


@pytest.mark.parametrize("empty", ["", ":", "a:", ":b"])
def test_incomplete_model_name_is_refused(empty: str) -> None:
    with pytest.raises(
        ModelSourceError,
        match=f"^'{empty}' is not a valid model name\nhint: [^\n]+$",
    ):
        load_model(empty)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('boom')", "raised ValueError: boom"),
        ("import json.no", "raised ModuleNotFoundError: No module named 'json.no'"),
        ("import sys; sys.exit(7)", "raised SystemExit: 7"),
        ("def broken(:", "raised SyntaxError: invalid syntax (bad.py, line 1)"),
    ],
)
@pytest.mark.parametrize("form", ["{}/bad.py:net", "bad:net"])
def test_error_on_import_becomes_a_chained_source_error(
    folder, monkeypatch, code: str, message: str, form: str
) -> None:
    (folder / "bad.py").write_text(code)
    monkeypatch.chdir(folder)
    with pytest.raises(ModelSourceError) as caught:
        load_model(form.format(folder))
    assert str(caught.value) == f"importing '{form.format(folder)[:-4]}' {message}"
    assert caught.value.__cause__ is not None
    assert not [name for name in sys.modules if name.startswith("enginebay_source_bad")]


@pytest.mark.parametrize(
    ("file", "action"),
    [
        ("import no_such_package.nn", "importing '{}/bad.py'"),
        ("def net():\n    import no_such_package.nn", "calling '{}/bad.py:net'"),
    ],
)
def test_missing_package_is_a_missing_dependency_error(folder, file: str, action: str) -> None:
    (folder / "bad.py").write_text(file)
    with pytest.raises(MissingDependencyError) as caught:
        load_model(f"{folder}/bad.py:net")
    needs = "needs the package 'no_such_package', which is not installed"
    assert str(caught.value) == f"{action.format(folder)} {needs}"
    assert caught.value.hint == "pip install no_such_package, or the package that provides it"


def test_rewriters_in_an_oddly_named_file_apply_to_its_model(folder) -> None:
    (folder / "my-net 2.py").write_text(
        "import torch\n"
        "from enginebay.rewriting import RewriterSet\n"
        "class net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x\n"
        "rewriters = RewriterSet()\n"
        "@rewriters.function(f'{__name__}.net.forward')\n"
        "def forward(ctx, self, x):\n"
        "    return x + 1\n"
    )
    model = load_model(f"{folder}/my-net 2.py:net").model
    sets = [sys.modules[type(model).__module__].rewriters]
    with rewrite(model, backend="any", rewriters=sets):
        assert model(torch.zeros(1)) == 1


def test_similar_module_name_is_suggested(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ModelSourceError, match=r"^no module 'nest'\nhint: [^\n]+$") as caught:
        load_model("nest:net")
    assert caught.value.hint == "did you mean 'nets'?"


# ── files ───────────────────────────────────────────────────────────────────────────────────────


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return {"y": self.linear(x)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A valid file of each kind, and files that torch.save writes."""
    folder = tmp_path_factory.mktemp("files")
    model = Net()
    for kind in ("onnx", "torchscript", "exported_program"):
        export(model, torch.ones(1, 4), ir=kind, path=folder / "m")
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save({"epoch": 3, "model": model.state_dict()}, folder / "checkpoint.pt")
    torch.save(nn.Linear(2, 2), folder / "module.pt")
    torch.save(model.state_dict(), folder / "old.pt", _use_new_zipfile_serialization=False)
    return folder


@pytest.mark.parametrize("suffix", ["onnx", "pt", "pt2"])
def test_model_file_is_loaded_as_an_ir(files, suffix: str) -> None:
    source = load_model(files / f"m.{suffix}")
    assert source.ir.path == files / f"m.{suffix}"
    assert [spec.describe() for spec in source.ir.inputs] == ["x float32[1, 4]"]
    assert [spec.describe() for spec in source.ir.outputs] == ["y float32[1, 2]"]
    assert source.description == str(files / f"m.{suffix}")
    assert (source.model is None) == (suffix == "onnx")
    if source.model is not None:
        assert source.module(torch.ones(1, 4))[0].shape == (1, 2)


def test_exported_program_provides_example_inputs(files) -> None:
    assert torch.equal(load_model(files / "m.pt2").example_inputs[0], torch.ones(1, 4))


SCRIPT = "expected TorchScript (torch.jit.save), found "
LOAD = "also pass the model of these weights: file.py:attr --weights {path}"
BUILD = "build the model in Python and name it: file.py:attr"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("weights.pt", SCRIPT + "pickled weights (a state_dict), not a model", LOAD),
        ("checkpoint.pt", SCRIPT + "pickled weights (a state_dict), not a model", LOAD),
        ("old.pt", SCRIPT + "pickled weights (a state_dict), not a model", LOAD),
        (
            "module.pt",
            SCRIPT + "a pickled 'torch.nn.modules.linear.Linear', which is not loaded since "
            "unpickling runs code",
            BUILD,
        ),
    ],
)
def test_pickles_are_recognised_and_never_loaded(files, name: str, message: str, hint: str) -> None:
    with pytest.raises(ModelSourceError) as caught:
        load_model(files / name)
    assert str(caught.value) == f"'{files / name}': {message}"
    assert caught.value.hint == hint.format(path=files / name)


@pytest.mark.parametrize(
    ("source", "target", "message", "suffix"),
    [
        (
            "m.pt",
            "x.pt2",
            "expected an exported program (torch.export.save), found TorchScript (torch.jit.save)",
            ".pt",
        ),
        (
            "m.pt2",
            "x.pt",
            "expected TorchScript (torch.jit.save), found an exported program (torch.export.save)",
            ".pt2",
        ),
    ],
)
def test_torch_file_with_the_wrong_suffix_is_refused(
    files, tmp_path, source: str, target: str, message: str, suffix: str
) -> None:
    (tmp_path / target).write_bytes((files / source).read_bytes())
    with pytest.raises(ModelSourceError) as caught:
        load_model(tmp_path / target)
    assert str(caught.value) == f"'{tmp_path / target}': {message}"
    assert caught.value.hint == f"rename the file to the suffix {suffix}"


@pytest.mark.parametrize("suffix", ["pt", "pt2"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"hello\n", "found a text file"),
        (b"\x00\x01\x02\xff", "found an unknown format"),
        (b"\x80\x02garbage", "found a damaged pickle"),
    ],
)
def test_files_of_unknown_format_are_refused(
    tmp_path, suffix: str, content: bytes, reason: str
) -> None:
    path = tmp_path / f"m.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ModelSourceError) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"'{path}'")
    assert str(caught.value).endswith(reason)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["onnx", "pt", "pt2"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated_model_file_is_refused(files, tmp_path, capfd, suffix: str, share: float) -> None:
    whole = (files / f"m.{suffix}").read_bytes()
    path = tmp_path / f"cut.{suffix}"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelSourceError, match=r"(is|found a) damaged[^\n]*(\nhint: [^\n]+)?$"):
        load_model(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", ["pt", "pt2"])
def test_unrelated_zip_archive_is_refused(tmp_path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelSourceError, match=r"': expected .*, found a zip archive"):
        load_model(path)


@pytest.mark.parametrize(
    ("suffix", "member"), [("pt", "/code/"), ("pt2", "/models/")]
)  # fmt: skip
def test_archive_with_a_damaged_member_is_refused(
    files, tmp_path, capfd, suffix: str, member: str
) -> None:
    path = tmp_path / f"m.{suffix}"
    damaged = []
    with zipfile.ZipFile(files / f"m.{suffix}") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            hit = member in name and name.endswith((".py", ".json"))
            damaged += [name] if hit else []
            new.writestr(name, b"garbage (" if hit else old.read(name))
    assert damaged, "the archive has no such member: fix this test"
    with pytest.raises(ModelSourceError, match=r"is damaged or not (TorchScript|an exported)"):
        load_model(path)
    assert capfd.readouterr() == ("", "")


def test_a_program_with_a_pickled_object_is_refused(files, tmp_path) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes((files / "m.pt2").read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("m/data/constants/opaque_obj_0", b"evil")
    with pytest.raises(ModelSourceError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"'{path}' contains a pickled Python object (data/constants/opaque_obj_0), "
        "which is never loaded"
    )


class Evil:
    def __reduce__(self):
        return print, ("unpickled!",)


def test_example_inputs_in_a_program_are_not_unpickled(files, tmp_path, capfd) -> None:
    import io

    path = tmp_path / "m.pt2"
    evil = io.BytesIO()
    torch.save(Evil(), evil)
    with zipfile.ZipFile(files / "m.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, evil.getvalue() if "sample_inputs" in name else old.read(name))
    with pytest.raises(ModelSourceError, match="is damaged or not an exported program"):
        load_model(path)
    assert capfd.readouterr() == ("", "")


def test_missing_torch_hints_at_the_export_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError) as caught:
        load_model(lambda: None)
    assert caught.value.hint == install_command("enginebay[export]")


@pytest.mark.parametrize("above", [1, 2])
def test_module_that_contains_itself_is_refused(above: int) -> None:
    inner = nn.Linear(1, 1)
    outer = inner if above == 1 else nn.Sequential(inner)
    inner.above = outer
    with pytest.raises(ModelSourceError) as caught:
        load_model(outer)
    assert str(caught.value).endswith(" is or returns a module that contains itself")
    hint = "store a reference to a parent module in a tuple: self.parent = (module,)"
    assert caught.value.hint == hint


def test_module_used_in_two_places_is_accepted() -> None:
    shared = nn.Linear(1, 1)
    assert load_model(nn.Sequential(shared, nn.Sequential(shared))).model is not None


@pytest.mark.parametrize("suffix", ["onnx", "pt", "pt2"])
def test_named_pipe_is_refused_without_blocking(tmp_path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    os.mkfifo(path)
    with pytest.raises(
        ModelSourceError, match=r"m\.\w+': expected a file, found a pipe or a device$"
    ):
        load_model(path)


def weight_in(path) -> int:
    """Return the offset of the largest uncompressed member."""
    with zipfile.ZipFile(path) as archive:
        stored = [
            member for member in archive.infolist() if member.compress_type == zipfile.ZIP_STORED
        ]
        largest = max(stored, key=lambda member: member.file_size)
        return path.read_bytes().index(archive.read(largest))


@pytest.mark.parametrize("suffix", ["pt", "pt2"])
@pytest.mark.parametrize("what", ["weight", "version", "method", "name"])
def test_archive_with_a_flipped_bit_is_refused(files, tmp_path, suffix: str, what: str) -> None:
    whole = files / f"m.{suffix}"
    data = bytearray(whole.read_bytes())
    entry = data.rindex(b"PK\x01\x02")  # of the archive's last member
    offsets = {"version": 6, "method": 10, "name": 46}
    data[weight_in(whole) if what == "weight" else entry + offsets[what]] ^= 0x80
    path = tmp_path / f"m.{suffix}"
    path.write_bytes(data)
    with pytest.raises(ModelSourceError, match=r"found a damaged archive \(truncated\?\)"):
        load_model(path)


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ((3,), r"invalid task of '.*': the task is of type int; expected a mapping"),
        (("what",), r"invalid task of '.*': 'what' cannot be read"),
        ((None, 4), r"invalid origin of the weights of '.*': expected a text .* found 4"),
    ],
    ids=["a number as the task", "a missing file of a task", "a number as the origin"],
)
def test_a_wrong_task_or_origin_is_refused_wherever_the_model_is_found(extras, message):
    with pytest.raises(ModelSourceError, match=message):
        find_model((torch.nn.ReLU(), (torch.ones(1),), *extras))


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_a_file_of_torch_says_what_to_install_without_torch(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match="torch"):
        read_ir(path)
