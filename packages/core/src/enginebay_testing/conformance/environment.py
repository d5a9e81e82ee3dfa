"""Conformance tests of ``check-env``, which must pass exactly if a model runs."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.environment import Tier

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from enginebay_testing.conformance.kit import Kit

#: What a receipt says of a device, besides the name that was asked for.
_SHOWN = attrgetter("provider", "device_name", "driver", "details")


class EnvironmentLaws:
    """Conformance tests: check-env passes exactly if a model runs."""

    def test_check_env_has_an_answer_for_every_tier(self, kit: Kit) -> None:
        """Each check of check-env has a stage and a result, and each failed check names a fix."""
        checks = kit.environment.checks
        tiers = [check.tier for check in checks]
        assert tiers == sorted(tiers, key=list(Tier).index), (
            f"the stages of check-env are out of order: {tiers}"
        )
        assert Tier.SMOKE in tiers, "check-env did not build and run a model"
        for check in checks:
            assert check.name, f"a check of stage {check.tier.value} has no name"
            assert check.found, f"check '{check.name}' does not report what was found"
            assert "\n" not in check.found, f"check '{check.name}' reports more than one line"
            if check.status == "failed" and check.tier is not Tier.SMOKE:
                assert check.fix, f"check '{check.name}' failed without a fix"

    def test_green_means_that_it_runs(self, kit: Kit, tmp_path: Path) -> None:
        """A small model is verified exactly if check-env passes."""
        kit.require_dtypes("float32")
        example = kit.example("fixed")
        try:
            deployment = eb.deploy(
                example.module, example.inputs, backend=kit.name, work_dir=tmp_path / "small"
            )
            outcome = deployment.verdict
        except eb.EnginebayError as err:
            outcome = f"{type(err).__name__}: {err}"
        failed = kit.environment.failed
        assert failed is None or failed.tier is not Tier.SMOKE, (
            f"engine and device are available, but a tiny model does not run: {failed.found}"
        )
        assert (failed is None) == (outcome == "verified"), (
            f"check-env {'passes' if failed is None else f'fails ({failed.found})'}, "
            f"and a small model is {outcome}"
        )

    def test_a_device_that_is_not_here_is_red(self, kit: Kit) -> None:
        """check-env fails for a missing device before it runs a model on this device."""
        kit.require_engine()
        # The first device is the default, which the other tests use.
        for device, failed in kit.other_devices.items():
            assert failed is None or failed.tier is not Tier.SMOKE, (
                f"check-env finds the device '{device}', but a tiny model does not run on it: "
                f"{failed.found}"
            )

    def test_a_listed_device_shows_itself(self, kit: Kit, tmp_path: Path) -> None:
        """On another device than the default, the receipt has more than the device's own name.

        A device that check-env finds has a provider, a product name, a driver or details of its
        own: an engine that ignores the parameter can repeat only the name.
        """
        kit.require_engine()
        usual = kit.wrapper("fixed").receipt
        here = [device for device, failed in kit.other_devices.items() if failed is None]
        for device in here:
            params = {"device": device}
            deployment = kit.deploy("fixed", tmp_path / device, params=params)
            receipt = deployment.receipt
            assert receipt is not None, f"expected a receipt of '{device}', found none"
            shown = [_SHOWN(each) for each in (usual, receipt)]
            assert shown[0] != shown[1] or receipt.fallbacks, (
                f"expected a provider, device_name, driver or details that '{device}' has, and "
                f"'{usual.device}' has not; found nothing but the name '{receipt.device}'"
            )

    def test_a_runtime_that_does_not_import_is_red(
        self, kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """check-env fails in stage ``import`` or earlier if the engine's modules do not import."""
        if not kit.engine_modules:
            kit.skip("no installed distribution in runtime_distributions has a module to hide")
        for module in kit.engine_modules:
            code = "raise ImportError('hidden by the conformance kit')\n"
            (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        # The child processes of check-env inherit this path.
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        failed = kit.backend.check_env().failed
        assert failed is not None, f"check-env passes without {', '.join(kit.engine_modules)}"
        assert failed.tier in (Tier.METADATA, Tier.IMPORT), (
            f"only check-env stage {failed.tier.value} reports the failed import of the engine: "
            f"{failed.found}"
        )
        assert failed.fix, f"check '{failed.name}' failed without a fix"

    def test_the_version_is_the_engines(self, kit: Kit) -> None:
        """``get_version()`` returns the version of an installed engine, which is in the receipt."""
        kit.require_engine()
        version = kit.backend.get_version()
        assert version, "get_version() returns nothing"
        engine = kit.wrapper("fixed").receipt.engine
        assert version in engine, f"get_version() returns {version}, the receipt '{engine}'"
