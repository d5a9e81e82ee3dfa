from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest


@pytest.fixture(scope="session", autouse=True)
def _subject():
    """Make ``subject`` importable by name, since rewriters name their targets."""
    spec = importlib.util.spec_from_file_location(
        "rewriting_subject", Path(__file__).with_name("subject.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["rewriting_subject"] = module
    spec.loader.exec_module(module)
    yield
    del sys.modules["rewriting_subject"]


@pytest.fixture
def subject():
    return sys.modules["rewriting_subject"]


class Exported(NamedTuple):
    """A model as an exporter wrote it."""

    path: Path
    kind: str
    report: Any
    notes: tuple[str, ...] = ()

    def run_on_target(self, *args):
        """Return ONNX Runtime's outputs; the rewriters replace operators that it lacks."""
        import onnxruntime
        import torch

        if self.kind != "onnx":
            return self.run(*args)
        session = onnxruntime.InferenceSession(self.path, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        feed = dict(zip(names, (arg.numpy() for arg in args), strict=True))
        return [torch.from_numpy(each) for each in session.run(None, feed)]

    def run(self, *args):
        """Return the outputs of onnx's evaluator, or those of torch."""
        import numpy
        import torch

        if self.kind == "onnx":
            from onnx.reference import ReferenceEvaluator

            evaluator = ReferenceEvaluator(str(self.path))
            feed = dict(zip(evaluator.input_names, (arg.numpy() for arg in args), strict=True))
            return [torch.from_numpy(numpy.array(each)) for each in evaluator.run(None, feed)]
        if self.kind == "torchscript":
            from enginebay.ir.torch_file import read_torchscript

            return list(read_torchscript(self.path)[0](*args))
        return list(torch.export.load(self.path).module()(*args))

    @property
    def nodes(self):
        """The operators of an ONNX file: a custom domain is part of the name."""
        import onnx

        model = onnx.load(self.path)
        return [f"{node.domain}::{node.op_type}".removeprefix("::") for node in model.graph.node]

    @property
    def opsets(self):
        import onnx

        model = onnx.load(self.path)
        return {each.domain: each.version for each in model.opset_import}

    def attributes(self, op_type):
        import onnx

        (node,) = (each for each in onnx.load(self.path).graph.node if each.op_type == op_type)
        return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


#: The IR that each exporter writes, and the name that ``export`` takes for the exporter.
EXPORTERS = {
    "dynamo": ("onnx", "dynamo"),
    "torchscript": ("onnx", "torchscript"),
    "jit.trace": ("torchscript", None),
    "torch.export": ("exported_program", None),
}


@pytest.fixture(params=EXPORTERS)
def exporter(request):
    return request.param


@pytest.fixture
def export(tmp_path):
    """Exports a model with rewriters in force, as ``enginebay.export`` does."""
    from packages.core.tests.exports import export as write
    from packages.core.tests.rewriting.contexts import rewrite

    def run(model, args, *sets, exporter="dynamo", backend="any", builtin=False, **kwargs):
        operators = kwargs.pop("operators", None)
        kind, chosen = EXPORTERS[exporter]
        rewritings = []

        @contextmanager
        def patch(module, name):
            with rewrite(
                module,
                backend=backend,
                ir=kind,
                rewriters=sets,
                exporter=name,
                opset=kwargs.get("opset"),
                builtin=builtin,
                operators=operators,
            ) as rewriting:
                rewritings.append(rewriting)
                yield rewriting.model

        path = tmp_path / f"{exporter}{len(list(tmp_path.iterdir()))}"
        ir = write(model.eval(), args, ir=kind, path=path, exporter=chosen, patch=patch, **kwargs)
        return Exported(ir.path, kind, rewritings[-1].report, ir.notes)

    return run
