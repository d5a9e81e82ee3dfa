"""Loading the plugin must cost next to nothing."""

from __future__ import annotations

import subprocess
import sys

import enginebay as eb


def imported_by(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_plugin_imports_no_engine_and_no_framework():
    loaded = imported_by("import enginebay_onnxruntime.plugin as p; p.backend_info()")
    assert "enginebay_onnxruntime.plugin" in loaded
    assert not loaded & {"onnxruntime", "torch", "numpy", "onnx"}


def test_params_and_flags_import_no_engine():
    loaded = imported_by(
        "import argparse\nfrom enginebay_onnxruntime.params import OnnxruntimeParams as P\n"
        "P.add_arguments(argparse.ArgumentParser())"
    )
    assert not loaded & {"onnxruntime", "torch", "numpy", "onnx"}


def test_the_plugin_is_found_by_its_entry_point():
    (status,) = [one for one in eb.list_backends() if one.name == "onnxruntime"]
    assert status.distribution == "enginebay-onnxruntime"
    info = eb.get_backend("onnxruntime").info
    assert info.irs == ("onnx",)
    assert info.devices == ("cpu", "cuda")
