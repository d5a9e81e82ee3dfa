"""Rewriters for models that are exported for myengine.

    @rewriters.function("torch.Tensor.expand")
    def expand_without_batch(ctx, self, *sizes):
        return ctx.origin_func(self, *sizes)
"""

from __future__ import annotations

import enginebay as eb

rewriters = eb.RewriterSet(backend="myengine")
