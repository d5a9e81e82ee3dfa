"""Conformance tests of rewriters, which must be declared, and must restore what they replace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.hooks import ConvertRequest
from enginebay_testing.command_runs import call_command
from enginebay_testing.conformance.kit import expect

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from torch import nn

    from enginebay_testing.conformance.kit import Kit


class RewriterLaws:
    """Conformance tests: rewriters change nothing outside of the block of ``rewrite()``."""

    def test_its_rewriters_can_be_listed(self, kit: Kit, capfd: pytest.CaptureFixture[str]) -> None:
        """Rewriters are in a ``RewriterSet``; a lowering replaces each operator in ``lacking``."""
        lowered = set()
        for ir in kit.backend.info.irs:
            # Those of other plugins count too: a backend need not declare a second lowering.
            words = ("rewriters", "--backend", kit.name, "--ir", ir, "--json")
            ran = call_command(capfd, *words)
            expect(f"exit code of rewriters ({ran.out.strip()})", ran.code, 0)
            for rewriter in ran.document["rewriters"]:
                assert rewriter["name"], f"a {rewriter['kind']} rewriter has no name"
                if rewriter["kind"] == "lowering":
                    lowered.add(".".join(rewriter["name"].split(".")[:2]))
        for name in kit.backend.info.lacking:
            operator = ".".join(name.split(".")[:2])
            assert operator in lowered, f"lacking has {name}, which no lowering replaces"

    def test_what_it_lacks_can_be_listed(self, kit: Kit, tmp_path: Path) -> None:
        """``unsupported_operators`` returns an empty mapping for a model that the engine runs."""
        request = ConvertRequest(ir=kit.ir("fixed"), params=kit.backend.Params(), work_dir=tmp_path)
        operators = kit.backend.unsupported_operators(request)
        if operators is None:
            kit.skip(f"backend '{kit.name}' does not implement the hook unsupported_operators")
        assert not operators, (
            f"unsupported_operators lists {', '.join(operators)} of a model that runs"
        )

    def test_rewriters_leave_no_trace(self, kit: Kit) -> None:
        """After ``rewrite()`` has ended, torch and the model are unchanged."""
        import torch

        example = kit.example("attention")
        before, outputs = _state_of_torch(example.module), example.run(example.arrays())
        rewritten = eb.rewrite(example.module, backend=kit.name, ir=kit.backend.info.irs[0])
        with rewritten, torch.no_grad():
            example.module(*example.inputs.values())
        after = _state_of_torch(example.module)
        changed = [name for name, value in before.items() if after.get(name) is not value]
        assert not changed, f"the rewriters changed {', '.join(changed)}"
        again = example.run(example.arrays())
        other = [name for name, value in outputs.items() if (again[name] != value).any()]
        expect("outputs that differ after the rewriting", other, [])


def _state_of_torch(module: nn.Module) -> dict[str, object]:
    """Return all objects that rewriters may replace, by name: functions, methods and modules."""
    import torch

    owners = {"torch": torch, "F": torch.nn.functional, "Tensor": torch.Tensor, "nn": torch.nn}
    functions = {
        f"{title}.{name}": value
        for title, owner in owners.items()
        for name, value in vars(owner).items()
    }
    modules = {f"module {name}": child for name, child in module.named_modules()}
    classes = {f"class of {name}": type(child) for name, child in modules.items()}
    forwards = {f"forward of {name}": type(child).forward for name, child in modules.items()}
    return {**functions, **modules, **classes, **forwards}
