"""What is wrong with an ONNX file: types that no engine takes, faults that onnx's checker finds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from enginebay.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.ir.model import IRModel

#: Kind of a value that is no tensor → the way out.
_OTHER_KINDS = {
    "sequence of maps": (
        "export the model without ZipMap: skl2onnx.to_onnx(model, X, options={'zipmap': False})"
    ),
    "sequence": "return or take its elements as tensors, or join them with ConcatFromSequence",
    "optional": "return or take the tensor itself",
    "map": "return or take its values as a tensor",
    "sparse_tensor": "return or take a dense tensor",
    "unknown": "give it the type of a tensor: the file declares none",
}

#: The checker's words for the node that is wrong, after the fault or within it.
_NODE = re.compile(r" ==> Context: Bad node spec for node\. Name: (.*?) ?OpType: (\w+)$")
_NODE_WITHIN = re.compile(r"of node: name: (.*?) ?OpType: (\w+)")


def check_tensors(ir: IRModel) -> None:
    """Raise InputError if an input or output is no tensor: engines exchange nothing else."""
    for kind, specs in (("input", ir.inputs), ("output", ir.outputs)):
        for spec in specs:
            if spec.dtype in _OTHER_KINDS:
                article = "an" if spec.dtype == "optional" else "a"
                found = "of no type" if spec.dtype == "unknown" else f"{article} {spec.dtype}"
                raise InputError(
                    f"{kind} '{spec.name}' of '{ir.path.name}' is {found}, expected a tensor",
                    hint=_OTHER_KINDS[spec.dtype],
                )


#: What the checker says of an output of unknown rank, which every engine takes.
_NO_RANK = "Field 'shape' of 'type' is required but missing"


def find_fault(path: Path) -> str:
    """Return what onnx's checker finds wrong with a file, on one line; "" if nothing."""
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as err:
        text = " ".join(str(err).split())
        if _NO_RANK in text:
            return ""
        node = _NODE.search(text)
        if node:
            name = f"node '{node[1]}' ({node[2]})" if node[1] else f"a node {node[2]}"
            return f"{name}: {text[: node.start()]}"
        return _NODE_WITHIN.sub(r"of node '\1' (\2)", text)
    return ""
