"""Laws of the numbers: an engine gives what PyTorch gives."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
from enginebay.errors import UsageError
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.testing.conformance.kit import Kit

_MODELS = (
    *("convolutions", "attention", "shapes", "pointwise", "reductions", "lookup", "matrices"),
)


class NumberLaws:
    """Small reference models, compared with PyTorch."""

    @pytest.mark.parametrize("model", _MODELS)
    def test_numbers_of_reference_models(self, kit: Kit, model: str) -> None:
        """The outputs of each reference model are PyTorch's, within the precision's tolerance."""
        artifact = kit.artifact(model)
        verification = artifact.manifest.verification
        assert verification is not None
        assert artifact.verdict == "verified", verification.summary()
        kit.check(model, kit.wrapper(model), kit.example(model).arrays())

    @pytest.mark.parametrize("ir", ["onnx", "torchscript", "exported_program"])
    def test_every_ir_that_is_listed_is_converted(
        self, kit: Kit, ir: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """A model arrives through each IR that the backend lists."""
        if ir not in kit.backend.info.irs:
            kit.skip(f"the backend lists no {ir} among its irs")
        folder = tmp_path_factory.mktemp("ir") / "out"
        deployment = kit.deploy("fixed", folder, export=eb.ExportOptions(ir=ir))
        record = deployment.artifact.manifest.ir
        assert record is not None
        assert (deployment.verdict, record.kind) == ("verified", ir)

    def test_weights_may_be_beside_the_onnx_file(self, kit: Kit, tmp_path: Path) -> None:
        """An ONNX model whose weights are in a second file, as those of large models are, runs."""
        import onnx

        if "onnx" not in kit.backend.info.irs:
            kit.skip("the backend lists no onnx among its irs")
        kit.require_engine()
        small = onnx.load(kit.ir("convolutions", "onnx").path)
        path = tmp_path / "large.onnx"
        onnx.save(small, path, save_as_external_data=True, location="weights", size_threshold=64)
        inputs = kit.example("convolutions").arrays()
        work_dir = tmp_path / "out"
        assert eb.deploy(path, inputs, backend=kit.name, work_dir=work_dir).verdict == "verified"

    def test_each_precision_gives_its_numbers(
        self, kit: Kit, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """The model is right in each listed precision, up to its noise, and computed in it.

        A machine may lack one: the receipt then says what was computed in, and the fallback.
        """
        default, *others = kit.backend.info.precisions
        if not others:
            kit.skip(f"the backend lists no precision but {default}")
        for precision in others:
            calibrated = precision in kit.backend.info.calibrated
            # In half precision engines lack some layers of the larger model.
            model, data = ("convolutions", _items(kit)) if calibrated else ("fixed", None)
            inputs, plain = kit.example(model).arrays(), kit.wrapper(model)
            folder, given = tmp_path_factory.mktemp(precision) / "out", {"precision": precision}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", eb.VerdictWarning)  # about a fallback, see below
                deployment = kit.deploy(model, folder, params=given, data=data)
            receipt = deployment.receipt
            assert receipt is not None
            assert deployment.verdict == "verified", f"{precision}: {deployment.verdict}"
            if receipt.precision != precision:
                message = f"the receipt says {receipt.precision} for {precision}, and no fallback"
                assert receipt.fallbacks, message
            elif precision != plain.receipt.precision:
                with eb.load(deployment.artifact) as wrapper:
                    same = _same(plain(inputs), wrapper(inputs))
                assert not same, f"in {precision} the numbers are those of {default}"

    def test_nodes_can_be_kept_in_floating_point(
        self, kit: Kit, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """Nodes that ``quantizable_nodes`` lists stay in floating point where they are named."""
        for precision in _calibrated(kit):
            folder = tmp_path_factory.mktemp(precision)
            given: dict[str, Any] = {"params": {"precision": precision}, "data": _items(kit)}
            ir, params = kit.ir("convolutions"), kit.backend.params_from(given["params"])
            calibration = kit.backend.calibration(ir, params, given["data"])
            request = ConvertRequest(ir=ir, params=params, work_dir=folder, calibration=calibration)
            try:
                nodes = kit.backend.quantizable_nodes(request)
            except UsageError as err:
                kit.skip(str(err))
            names = list(nodes)
            outputs = []
            for kept in (names[:1], []):
                deployment = kit.deploy(
                    "convolutions", folder / f"out{len(kept)}", int8_keep=kept, **given
                )
                assert list(deployment.artifact.manifest.kept) == kept
                with eb.load(deployment.artifact) as wrapper:
                    outputs.append(wrapper(kit.example("convolutions").arrays()))
            assert not _same(*outputs), f"in {precision}, '{names[0]}' makes no difference"


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(np.array_equal(each, other[name]) for name, each in one.items())


def _calibrated(kit: Kit) -> tuple[str, ...]:
    found = kit.backend.info.calibrated
    if not found:
        kit.skip("the backend lists no precision that is calibrated")
    kit.require_engine()
    return found


def _items(kit: Kit) -> list[dict[str, Any]]:
    """Inputs like those of the model that is quantised."""
    generator = np.random.default_rng(0)
    shapes = {name: each.shape for name, each in kit.example("convolutions").arrays().items()}
    return [
        {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(8)
    ]
