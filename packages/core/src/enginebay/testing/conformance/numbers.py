"""Laws of the numbers: an engine gives what PyTorch gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
        deployment = kit.deploy("fixed", folder, ir=ir)
        record = deployment.artifact.manifest.ir
        assert record is not None
        assert (deployment.verdict, record.kind) == ("verified", ir)
