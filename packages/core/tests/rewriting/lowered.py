"""Programs that are lowered, for the tests of lowerings."""

from __future__ import annotations

import torch
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.ir import quiet
from enginebay.rewriting import RewriterSet, active_lowerings, lower_program


class Net(nn.Module):
    """A function as a module, with the tensors that are its weights."""

    def __init__(self, function, **weights):
        super().__init__()
        self.function = function
        for name, tensor in weights.items():
            self.register_buffer(name, tensor)

    def forward(self, *args):
        return self.function(*args, **dict(self.named_buffers()))


def declared(name, replacement, *, fallback=False, distribution=None, **conditions):
    """Return a set with a single lowering."""
    rewriters = RewriterSet(fallback=fallback, distribution=distribution)
    rewriters.lowering(name, **conditions)(replacement)
    return rewriters


def lower(model, args, *sets, dynamic=None, **target):
    """Return the lowered program, and the report of the rewriting."""
    model = model if isinstance(model, nn.Module) else Net(model)
    with quiet():
        program = torch.export.export(
            model.eval(), args, dynamic_shapes=None if dynamic is None else (dynamic,)
        )
    rewriting = rewrite(
        **{"backend": "any", "ir": "exported_program", "rewriters": sets, "builtin": False} | target
    )
    with quiet(), rewriting:
        lowerings = active_lowerings()
        lowered = program if lowerings is None else lower_program(program, lowerings)
    return lowered, rewriting.report


def targets(program):
    """Return the operators of a program, in order."""
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
