"""Conformance tests of numerics: an engine's outputs equal PyTorch's within the tolerance."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
from enginebay.errors import UsageError
from enginebay.hooks import ConvertRequest
from enginebay_testing.conformance.kit import expect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay_testing.conformance.kit import Kit

_MODELS = (
    *("convolutions", "attention", "shapes", "pointwise", "reductions", "lookup", "matrices"),
)


class NumberLaws:
    """Conformance tests: the outputs of reference models equal PyTorch's."""

    @pytest.mark.parametrize("model", _MODELS)
    def test_numbers_of_reference_models(self, kit: Kit, model: str) -> None:
        """The outputs of each reference model equal PyTorch's, within the precision's tolerance."""
        artifact = kit.artifact(model)
        verification = artifact.manifest.verification
        assert verification is not None
        expect(f"verdict ({verification.summary()})", artifact.verdict, "verified")
        kit.check(model, kit.wrapper(model), kit.example(model).arrays())

    @pytest.mark.parametrize("model", ["convolutions", "attention", "reductions"])
    def test_the_same_inputs_give_the_same_numbers(self, kit: Kit, model: str) -> None:
        """Repeated calls with the same inputs return the same outputs, bit by bit."""
        wrapper, inputs = kit.wrapper(model), kit.example(model).arrays()
        first = wrapper(inputs)
        for number in range(2, 7):
            for name, value in wrapper(inputs).items():
                same = value.tobytes() == first[name].tobytes()
                largest = np.abs(value.astype(float) - first[name]).max()
                assert same, f"output '{name}': expected equal bits, call {number} is {largest} off"

    @pytest.mark.parametrize("ir", ["onnx", "torchscript", "exported_program"])
    def test_every_ir_that_is_listed_is_converted(
        self, kit: Kit, ir: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """A model is verified in conversions through each IR that the backend lists."""
        if ir not in kit.backend.info.irs:
            kit.skip(f"the backend lists no {ir} among its irs")
        folder = tmp_path_factory.mktemp("ir") / "out"
        deployment = kit.deploy("fixed", folder, export=eb.ExportOptions(ir=ir))
        record = deployment.artifact.manifest.ir
        assert record is not None
        expect("verdict and IR", (deployment.verdict, record.kind), ("verified", ir))

    def test_weights_may_be_beside_the_onnx_file(self, kit: Kit, tmp_path: Path) -> None:
        """An ONNX model with its weights in a second file, as for large models, is verified."""
        import onnx

        if "onnx" not in kit.backend.info.irs:
            kit.skip("the backend lists no onnx among its irs")
        kit.require_engine()
        small = onnx.load(kit.ir("convolutions", "onnx").path)
        path = tmp_path / "large.onnx"
        # onnx's default of 1024 bytes would leave all of these small weights in the file.
        onnx.save(small, path, save_as_external_data=True, location="weights", size_threshold=64)
        inputs = kit.example("convolutions").arrays()
        work_dir = tmp_path / "out"
        deployment = eb.deploy(path, inputs, backend=kit.name, work_dir=work_dir)
        expect("verdict", deployment.verdict, "verified")

    def test_each_precision_gives_its_numbers(
        self, kit: Kit, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """A model is verified in each listed precision, and its outputs depend on the precision.

        If the machine does not support a precision, the receipt names the precision that was used,
        and the fallback.
        """
        default, *others = kit.backend.info.precisions
        if not others:
            kit.skip(f"the backend lists no precision but {default}")
        for precision in others:
            calibrated = precision in kit.backend.info.calibrated
            # In half precision, engines lack some layers of the larger model.
            model, data = (
                ("convolutions", _calibration_items(kit)) if calibrated else ("fixed", None)
            )
            inputs, plain = kit.example(model).arrays(), kit.wrapper(model)
            folder, params = tmp_path_factory.mktemp(precision) / "out", {"precision": precision}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", eb.VerdictWarning)  # about a fallback, see below
                deployment = kit.deploy(model, folder, params=params, data=data)
            receipt = deployment.receipt
            assert receipt is not None
            assert deployment.verdict == "verified", f"{precision}: {deployment.verdict}"
            if receipt.precision != precision:
                message = f"expected {precision}, found {receipt.precision} without a fallback"
                assert receipt.fallbacks, message
            # Equal numbers show that the engine ignores the requested precision.
            elif precision != plain.receipt.precision:
                with eb.load(deployment.artifact) as wrapper:
                    same = _are_equal(plain(inputs), wrapper(inputs))
                assert not same, f"in {precision} the numbers equal those of {default}"

    def test_nodes_can_be_kept_in_floating_point(
        self, kit: Kit, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """Nodes that ``quantizable_nodes`` lists stay in floating point if the user requests it."""
        for precision in _require_calibrated(kit):
            folder = tmp_path_factory.mktemp(precision)
            options: dict[str, Any] = {
                "params": {"precision": precision},
                "data": _calibration_items(kit),
            }
            ir, params = kit.ir("convolutions"), kit.backend.params_from(options["params"])
            calibration = kit.backend.calibration(ir, params, options["data"])
            request = ConvertRequest(ir=ir, params=params, work_dir=folder, calibration=calibration)
            try:
                nodes = kit.backend.quantizable_nodes(request)
            except UsageError as err:
                kit.skip(str(err))
            names = list(nodes)
            outputs = []
            for excluded in (names[:1], []):
                deployment = kit.deploy(
                    "convolutions", folder / f"out{len(excluded)}", int8_keep=excluded, **options
                )
                expect("kept nodes", list(deployment.artifact.manifest.kept), excluded)
                with eb.load(deployment.artifact) as wrapper:
                    outputs.append(wrapper(kit.example("convolutions").arrays()))
            message = f"in {precision}, the outputs are the same if '{names[0]}' is kept in floats"
            assert not _are_equal(*outputs), message


def _are_equal(left: Mapping[str, NumpyArray], right: Mapping[str, NumpyArray]) -> bool:
    return all(np.array_equal(value, right[name]) for name, value in left.items())


def _require_calibrated(kit: Kit) -> tuple[str, ...]:
    precisions = kit.backend.info.calibrated
    if not precisions:
        kit.skip("the backend lists no precision that is calibrated")
    kit.require_engine()
    return precisions


def _calibration_items(kit: Kit) -> list[dict[str, NumpyArray]]:
    generator = np.random.default_rng(0)
    shapes = {name: x.shape for name, x in kit.example("convolutions").arrays().items()}
    return [
        {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(8)
    ]
