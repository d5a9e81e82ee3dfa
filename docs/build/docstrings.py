"""Docstrings as the site shows them: what is reStructuredText in them becomes Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|attr|data|mod|exc):`(~?)([^`]+)`")
_LITERAL = re.compile(r"^(.*?)[ \t]*::$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Links what is referred to, where the site has it, and takes one colon of two away."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002  # griffe's
        """Change one docstring before it is parsed."""
        if obj.docstring is None:
            return
        text = _ROLE.sub(lambda role: _link(obj, role[2], short=bool(role[1])), obj.docstring.value)
        text = _LITERAL.sub(lambda line: f"{line[1]}:" if line[1] else "", text)
        text = text.replace("``", "`")
        # The section that griffe reads doctests from has this name.
        obj.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)


def _link(obj: griffe.Object, name: str, *, short: bool) -> str:
    shown = name.rpartition(".")[2] if short else name
    try:
        target = name if "." in name and name.startswith("enginebay.") else obj.resolve(name)
    except griffe.NameResolutionError:
        return f"`{shown}`"
    return f'<autoref identifier="{target}" optional>`{shown}`</autoref>'
