"""A cut: the tensors at which a model's graph is split into parts."""

from __future__ import annotations

import msgspec


class Cut(msgspec.Struct, frozen=True):
    """Tensors at which a graph is split: the part before computes them, the part after reads them.

    Attributes:
        names: The tensors' names, from calls of :func:`enginebay.mark` in the model's code or
            from an ONNX file; one cut goes through all of these tensors.
        key: The config key that declares the cut; empty if the cut was passed as an argument.
        may_be_edge: True to ignore the cut if it is before the first or after the last node of the
            model.

    Example:
        >>> str(Cut(("boxes:input", "scores:input"), "partition_config.partition_cfg.0.end"))
        "'boxes:input', 'scores:input' (partition_config.partition_cfg.0.end)"
    """

    names: tuple[str, ...]
    key: str = ""
    may_be_edge: bool = False

    def __str__(self) -> str:
        return self.quoted(*self.names)

    def quoted(self, *names: str) -> str:
        """Return names in quotes for a message, followed by the config key if there is one."""
        text = ", ".join(f"'{name}'" for name in names)
        return f"{text} ({self.key})" if self.key else text
