from __future__ import annotations

import subprocess
import sys

import pytest
from torch import nn

import enginebay as eb
from enginebay.errors import ParamsError, RewriterError
from enginebay.rewriting import RewriterSet


def replacement(ctx, *args):
    return None


def test_declaration_returns_the_replacement_and_changes_nothing_else():
    rewriters = RewriterSet(backend="ncnn")
    assert rewriters.function("a.b")(replacement) is replacement
    assert rewriters.symbolic("squeeze", is_pytorch=True)(replacement) is replacement

    class Other(nn.Module):
        pass

    assert rewriters.module("a.B")(Other) is Other
    assert [(each.kind, each.name, each.backend) for each in rewriters] == [
        ("function", "a.b", "ncnn"),
        ("symbolic", "squeeze", "ncnn"),
        ("module", "a.B", "ncnn"),
    ]
    assert len(rewriters) == 3
    assert repr(rewriters) == "<RewriterSet for ncnn: 3 rewriters>"


def test_backend_of_a_rewriter_overrides_that_of_its_set():
    rewriters = RewriterSet(backend="ncnn")
    rewriters.function("a.b", backend="tensorrt")(replacement)
    assert [each.backend for each in rewriters] == ["tensorrt"]


def test_replacement_can_be_declared_several_times():
    rewriters = RewriterSet()
    for backend in ("one", "two"):
        rewriters.function("a.b", backend=backend)(replacement)
    assert [each.backend for each in rewriters] == ["one", "two"]


def test_callers_conditions_are_copied():
    versions, descriptors = {"torch": ">=1"}, ["v"]
    rewriters = RewriterSet()
    rewriters.symbolic("relu", is_pytorch=True, versions=versions, arg_descriptors=descriptors)(
        replacement
    )
    versions["torch"] = "<1"
    descriptors.append("i")
    (rewriter,) = rewriters
    assert rewriter.versions == {"torch": ">=1"}
    assert rewriter.arg_descriptors == ("v",)


def test_a_set_can_be_marked_as_shipped_by_a_distribution():
    rewriters = RewriterSet(backend="ncnn")
    rewriters.function("a.b")(replacement)
    marked = rewriters.from_distribution("enginebay-ncnn")
    assert [each.distribution for each in marked] == ["enginebay-ncnn"]
    assert [each.distribution for each in rewriters] == [None]
    assert marked.backend == "ncnn"


def test_copies_of_a_set_of_fallbacks_are_fallbacks():
    rewriters = RewriterSet(fallback=True)
    rewriters.function("a.b")(replacement)
    for copied in (rewriters.from_distribution("pack"), rewriters.joined(RewriterSet())):
        copied.function("a.c")(replacement)
        assert copied.fallback
        assert [each.fallback for each in copied] == [True, True]


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({}, "always"),
        ({"backend": "ncnn"}, "backend ncnn"),
        ({"ir": "onnx", "versions": {"torch": ">=2", "onnx": "<2"}}, "ir onnx, torch>=2, onnx<2"),
        ({"backend": "b", "check": replacement}, "backend b, check replacement"),
    ],
)
def test_conditions_are_described_as_text(conditions, words):
    rewriters = RewriterSet()
    rewriters.function("a.b", **conditions)(replacement)
    (rewriter,) = rewriters
    assert rewriter.condition == words


def declare_function(name):
    RewriterSet().function(name)(replacement)


def declare_operator(name):
    RewriterSet().symbolic(name, is_pytorch=True)(replacement)


def declare_autograd_function(name):
    RewriterSet().symbolic(name)(replacement)


ORIGIN = f"{__name__}.replacement"


@pytest.mark.parametrize(
    ("declare", "name", "message", "hint"),
    [
        (
            declare_function,
            "relu",
            (
                f'the function rewriter {ORIGIN} rewrites "relu", '
                'which is not a dotted name, such as "package.relu"'
            ),
            None,
        ),
        (
            declare_function,
            "torch relu",
            (
                f'the function rewriter {ORIGIN} rewrites "torch relu", '
                'which is not a dotted name, such as "package.name"'
            ),
            None,
        ),
        (
            declare_function,
            "",
            (
                f'the function rewriter {ORIGIN} rewrites "", '
                'which is not a dotted name, such as "package.name"'
            ),
            None,
        ),
        (
            declare_operator,
            "torch.relu",
            (
                f'the symbolic rewriter {ORIGIN} rewrites "torch.relu", '
                'which is not the name of an operator, such as "squeeze" or "my_ops::nms"'
            ),
            None,
        ),
        (
            declare_operator,
            "a::b::c",
            (
                f'the symbolic rewriter {ORIGIN} rewrites "a::b::c", '
                'which is not the name of an operator, such as "squeeze" or "my_ops::nms"'
            ),
            None,
        ),
        (
            declare_autograd_function,
            "squeeze",
            (
                f'the symbolic rewriter {ORIGIN} rewrites "squeeze", '
                'which is not a dotted name, such as "package.squeeze"'
            ),
            "add is_pytorch=True",
        ),
        (
            declare_autograd_function,
            "my_ops::nms",
            (
                f'the symbolic rewriter {ORIGIN} rewrites "my_ops::nms", '
                'which is not a dotted name, such as "package.name"'
            ),
            "add is_pytorch=True",
        ),
    ],
)
def test_invalid_names_are_refused(declare, name, message, hint):
    with pytest.raises(RewriterError) as caught:
        declare(name)
    assert str(caught.value) == message
    assert caught.value.hint == hint


def test_versions_must_be_ranges():
    with pytest.raises(RewriterError) as caught:
        RewriterSet().function("a.b", versions={"torch": "2.13"})(replacement)
    assert str(caught.value) == (
        'the rewriter of "a.b" requires torch "2.13", which is not a version range'
    )
    assert caught.value.hint == 'write versions={"torch": ">=1.2,<2"}'


@pytest.mark.parametrize(
    ("given", "kind"), [(replacement, "a function"), (int, "int"), (None, "None")]
)
def test_a_module_rewriter_must_be_a_class_of_modules(given, kind):
    with pytest.raises(RewriterError) as caught:
        RewriterSet().module("a.B")(given)
    assert str(caught.value) == (
        f'the module rewriter of "a.B" must be a class derived from torch.nn.Module, not {kind}'
    )
    assert caught.value.hint == "use .function for a function or a method"


@pytest.mark.parametrize(
    ("conditions", "message", "hint"),
    [
        (
            {"backend": ["ncnn", "openvino"]},
            "'backend' of the function rewriter of \"a.b\" must be one name, not a list",
            "declare the rewriter once for each backend",
        ),
        (
            {"ir": 1},
            "'ir' of the function rewriter of \"a.b\" must be one name, not a int",
            "declare the rewriter once for each ir",
        ),
        (
            {"versions": ">=2.13"},
            (
                "'versions' of the function rewriter of \"a.b\" must be a mapping from "
                "distributions to version ranges, not a str"
            ),
            'write versions={"torch": ">=1.2,<2"}',
        ),
        (
            {"versions": {"torch": None}},
            'the rewriter of "a.b" requires torch "None", which is not a version range',
            'write versions={"torch": ">=1.2,<2"}',
        ),
        (
            {"check": True},
            "'check' of the function rewriter of \"a.b\" must be a function, not a bool",
            "check=lambda target: target.opset == 20",
        ),
    ],
)
def test_conditions_of_a_wrong_type_are_refused(conditions, message, hint):
    rewriters = RewriterSet()
    with pytest.raises(RewriterError) as caught:
        rewriters.function("a.b", **conditions)(replacement)
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert len(rewriters) == 0


def test_replacement_that_is_not_callable_is_refused():
    with pytest.raises(RewriterError) as caught:
        RewriterSet().function("a.b")("code")
    assert str(caught.value) == 'the function rewriter of "a.b" must be a function, not a str'


@pytest.mark.parametrize(
    ("descriptors", "message", "hint"),
    [
        (
            "is",
            "'arg_descriptors' of the symbolic rewriter of \"roll\" must be a list, not a str",
            'arg_descriptors=["is"]',
        ),
        (
            ["v", "x"],
            (
                "the symbolic rewriter of \"roll\" has the argument descriptor 'x'; "
                "expected one of v, i, is, f, fs, b, s, t, none"
            ),
            None,
        ),
    ],
)
def test_invalid_argument_descriptors_are_refused(descriptors, message, hint):
    with pytest.raises(RewriterError) as caught:
        RewriterSet().symbolic("roll", is_pytorch=True, arg_descriptors=descriptors)(replacement)
    assert (str(caught.value), caught.value.hint) == (message, hint)


@pytest.mark.parametrize("declare", ["function", "module", "symbolic"])
def test_decorator_without_a_name_is_refused(declare):
    with pytest.raises(RewriterError) as caught:
        getattr(RewriterSet(), declare)(replacement)
    assert str(caught.value) == (
        f"@rewriters.{declare} expected the name of the object to rewrite, found a function"
    )
    assert caught.value.hint == f'@rewriters.{declare}("package.name")'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            RewriterSet(),
            "'rewriters' is a RewriterSet, expected a sequence of enginebay.RewriterSet",
        ),
        (None, "'rewriters' is None, expected a sequence of enginebay.RewriterSet"),
        ("mine", "'rewriters' is a str, expected a sequence of enginebay.RewriterSet"),
        (
            [replacement],
            "'rewriters' contains a function, expected a sequence of enginebay.RewriterSet",
        ),
    ],
)
def test_rewriters_must_be_sets(given, message):
    with pytest.raises(RewriterError) as caught:
        eb.rewrite(backend=None, rewriters=given)
    assert (str(caught.value), caught.value.hint) == (message, "rewriters=[my_set]")


@pytest.mark.usefixtures("loopback")
def test_rewriters_of_export_options_must_be_sets(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    options = eb.ExportOptions(rewriters=[replacement])
    for call in (
        lambda: eb.export(
            torch.nn.ReLU(), torch.ones(1), path=tmp_path / "x.onnx", options=options
        ),
        lambda: eb.deploy(
            torch.nn.ReLU(),
            torch.ones(1),
            backend="loopback",
            work_dir=tmp_path / "out",
            export=options,
        ),
    ):
        with pytest.raises(
            RewriterError, match="'rewriters' contains a function, expected a sequence"
        ):
            call()
    for given in (RewriterSet(), "mine"):
        with pytest.raises(ParamsError, match=r"does not fit ExportOptions\.rewriters"):
            eb.ExportOptions(rewriters=given)


def test_unknown_ir_is_refused():
    rewriters = RewriterSet()
    with pytest.raises(RewriterError) as caught:
        rewriters.function("torch.relu", ir="onx")(replacement)
    assert str(caught.value) == (
        'the function rewriter of "torch.relu" has ir="onx"; '
        "expected one of onnx, torchscript, exported_program"
    )


@pytest.mark.parametrize("declare", ["function", "module", "symbolic"])
def test_unknown_keyword_is_refused(declare):
    with pytest.raises(TypeError, match="unexpected keyword argument 'backends'"):
        getattr(RewriterSet(), declare)("a.b", backends=["ncnn"])


@pytest.mark.process
def test_rewriting_imports_no_torch():
    code = (
        "import sys, enginebay.rewriting as r\n"
        "s = r.RewriterSet(backend='b')\n"
        "s.function('torch.relu')(print)\n"
        "with r.Rewriting(None, r.Target(backend='b'), [s]) as rewriting: pass\n"
        "assert rewriting.report.not_found, rewriting.report\n"
        "loaded = {'torch', 'onnx', 'numpy', 'onnxscript'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
