"""Laws of rewriting: what is declared for the backend fires, and leaves no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.hooks import ConvertRequest
from enginebay.rewriting import builtin_rewriters

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.testing.conformance.kit import Kit


class RewriterLaws:
    """Rewriters that the backend brings, and those that its users declare for it."""

    def test_its_rewriters_can_be_listed(self, kit: Kit) -> None:
        """The rewriters are sets of declarations, one for each operator that is ``lacking``."""
        lowered = {one.operator for one in builtin_rewriters() if one.kind == "lowering"}
        for ir in kit.backend.info.irs:
            for rewriters in kit.backend.rewriters(ir):
                assert isinstance(rewriters, eb.RewriterSet), f"for {ir} it returns {rewriters!r}"
                for rewriter in rewriters:
                    assert rewriter.name, f"a {rewriter.kind} rewriter has no name"
                    lowered.add(rewriter.operator)
        for name in kit.backend.info.lacking:
            operator = ".".join(name.split(".")[:2])
            assert operator in lowered, f"lacking has {name}, which nothing lowers"

    def test_what_it_lacks_can_be_listed(self, kit: Kit, tmp_path: Path) -> None:
        """Of a model that runs, ``unsupported_operators`` lists nothing."""
        request = ConvertRequest(ir=kit.ir("fixed"), params=kit.backend.Params(), work_dir=tmp_path)
        found = kit.backend.unsupported_operators(request)
        if found is None:
            kit.skip(f"backend '{kit.name}' does not say which operators it lacks")
        assert not found, f"it lacks {', '.join(found)} of a model that it runs"

    def test_rewriters_leave_no_trace(self, kit: Kit) -> None:
        """Once the context is left, torch and the model are exactly what they were."""
        import torch

        example = kit.example("attention")
        before, outputs = _state_of_torch(example.module), example.run(example.arrays())
        rewritten = eb.rewrite(example.module, backend=kit.name, ir=kit.backend.info.irs[0])
        with rewritten, torch.no_grad():
            example.module(*example.inputs.values())
        after = _state_of_torch(example.module)
        changed = [name for name, value in before.items() if after.get(name) is not value]
        assert not changed, f"the rewriters left {', '.join(changed)} changed"
        again = example.run(example.arrays())
        assert all((again[name] == value).all() for name, value in outputs.items())


def _state_of_torch(module: Any) -> dict[str, Any]:
    """Return what a rewriter may replace: torch's functions, Tensor's methods, modules."""
    import torch

    places = {"torch": torch, "F": torch.nn.functional, "Tensor": torch.Tensor, "nn": torch.nn}
    functions = {
        f"{place}.{name}": value
        for place, owner in places.items()
        for name, value in vars(owner).items()
    }
    modules = {f"module {name}": each for name, each in module.named_modules()}
    classes = {f"class of {name}": type(each) for name, each in modules.items()}
    forwards = {f"forward of {name}": type(each).forward for name, each in modules.items()}
    return functions | modules | classes | forwards
