"""Repairs of a network where OpenVINO's operators differ from ONNX's, and notes on the rest.

They apply to every IR, and so to ``.onnx`` files too, which no rewriter reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import openvino as ov

#: The largest number of float8_e4m3fn.
_LARGEST = 448.0


def repair_network(model: ov.Model) -> None:
    """Make operators of a network compute what ONNX and PyTorch compute."""
    for node in model.get_ops():
        kind = node.get_type_name()
        if kind in _INTEGERS and _takes_integers(node):
            if (result := _INTEGERS[kind](*node.input_values())) is not None:
                _replace_readers(node.output(0).get_target_inputs(), result)
        elif kind == "NonMaxSuppression":
            _keep_boxes_at_threshold(node)
        elif kind == "AvgPool" and _counts_too_much(node.get_attributes()):
            _leave_out_cells_beyond(node)
        elif kind == "Convert" and node.get_attributes()["destination_type"] == "f8e4m3":
            _saturate(node)


def _keep_boxes_at_threshold(node: ov.Node) -> None:
    # OpenVINO drops a box if its overlap is at least the threshold, ONNX and torchvision if it is
    # larger: the same with the next larger threshold.
    import numpy as np
    import openvino as ov

    source = node.input(3).get_source_output().get_node()
    if source.get_type_name() != "Constant":
        return
    threshold = np.float32(source.data.reshape(()))
    # No denormal, which processors may count as 0.
    above = np.maximum(np.nextafter(threshold, np.float32(np.inf)), np.finfo(np.float32).tiny)
    node.input(3).replace_source_output(ov.opset1.constant(above, np.float32).output(0))


def _counts_too_much(attributes: dict[str, object]) -> bool:
    pads = attributes["pads_end"]
    assert isinstance(pads, list)
    is_ceiled = str(attributes["rounding_type"]).startswith("ceil")
    return is_ceiled and not attributes["exclude-pad"] and any(pads)


def _leave_out_cells_beyond(node: ov.Node) -> None:
    # The last window may reach beyond the padding. OpenVINO divides by the cells there too, which
    # are no cells of the padded image.
    import numpy as np
    from openvino import opset15 as ops

    attributes, readers = node.get_attributes(), node.output(0).get_target_inputs()
    sizes, counts = (ops.shape_of(value) for value in (node.input_value(0), node.output(0)))
    averages = node.output(0)
    names = ("kernel", "strides", "pads_begin", "pads_end")
    axes = zip(*(attributes[name] for name in names), strict=True)
    for axis, (kernel, stride, before, after) in enumerate(axes, 2):
        size, count = (ops.gather(value, [axis], np.int64(0)) for value in (sizes, counts))
        numbers = ops.range(np.int64(0), ops.squeeze(count, [0]), np.int64(1), "i64")
        starts = ops.subtract(ops.multiply(numbers, [stride]), [before])
        ends = ops.minimum(ops.add(starts, [kernel]), ops.add(size, [after]))
        cells = ops.convert_like(ops.subtract(ends, starts), averages)
        share = ops.divide(cells, ops.convert_like([kernel], averages))
        ones = [1] * (len(attributes["kernel"]) + 1 - axis)
        averages = ops.divide(averages, ops.reshape(share, [-1, *ones], False)).output(0)
    _replace_readers(readers, averages)


def _replace_readers(readers: Iterable[ov.Input], value: ov.Output) -> None:
    for reader in readers:
        reader.replace_source_output(value)


def _takes_integers(node: ov.Node) -> bool:
    """Return True if a node computes integers that are no sizes, which are never large."""
    if node.get_output_element_type(0).get_type_name() not in ("i32", "i64"):
        return False
    waiting, seen = [node], set[str]()
    while waiting:
        source = waiting.pop()
        for value in source.input_values():
            each = value.get_node()
            if each.get_type_name() == "Parameter":
                return True
            if each.get_friendly_name() not in seen and each.get_type_name() != "ShapeOf":
                seen.add(each.get_friendly_name())
                waiting.append(each)
    return False


# The CPU plugin computes quotients, remainders and powers of integers in float32, which is exact
# only up to 2**24; sums and products are exact.
def _floor_remainder(a: ov.Output, b: ov.Output) -> ov.Output:
    from openvino import opset15 as ops

    # The quotient may be wrong by the rounding of a float. What is left is small.
    rest = ops.subtract(a, ops.multiply(ops.divide(a, b), b))
    return ops.floor_mod(rest, b).output(0)


def _remainder(a: ov.Output, b: ov.Output) -> ov.Output:
    """Return the remainder with the sign of ``a``."""
    from openvino import opset15 as ops

    size = _floor_remainder(ops.absolute(a).output(0), ops.absolute(b).output(0))
    return ops.multiply(size, ops.sign(a)).output(0)


def _quotient(a: ov.Output, b: ov.Output) -> ov.Output:
    """Return the quotient without its fraction, as ONNX's ``Div``."""
    from openvino import opset15 as ops

    near = ops.divide(a, b)
    # A multiple of b, and small.
    missing = ops.subtract(ops.subtract(a, _remainder(a, b)), ops.multiply(near, b))
    return ops.add(near, ops.divide(missing, b)).output(0)


def _power(base: ov.Output, exponent: ov.Output) -> ov.Output | None:
    from openvino import opset15 as ops

    source = exponent.get_node()
    if source.get_type_name() != "Constant" or source.data.size != 1:
        return None
    number = int(source.data.reshape(()))
    # With an exponent of 64 or more, powers of all integers but -1, 0 and 1 overflow.
    if not 1 < number < 64:
        return None
    result = base
    for bit in f"{number:b}"[1:]:
        result = ops.multiply(result, result).output(0)
        result = ops.multiply(result, base).output(0) if bit == "1" else result
    return result


def _saturate(node: ov.Node) -> None:
    # OpenVINO makes numbers beyond the range NaN, and its Clamp makes NaN a number.
    import openvino as ov

    source = node.input(0).get_source_output()
    if source.get_element_type().is_real():
        limited = ov.opset1.clamp(source, -_LARGEST, _LARGEST)
        kept = ov.opset1.select(ov.opset10.is_nan(source), source, limited)
        node.input(0).replace_source_output(kept.output(0))


def describe_differences(model: ov.Model) -> Iterator[str]:
    """Yield a sentence for each kind of operator that may differ from ONNX's in this network."""
    found: dict[str, list[str]] = {}
    for node in model.get_ops():
        if text := _describe_difference(node):
            found.setdefault(text, []).append(node.get_friendly_name())
    for text, names in found.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"'{names[0]}'{more}: OpenVINO {text}"


def _describe_difference(node: ov.Node) -> str:
    kind, attributes = node.get_type_name(), node.get_attributes()
    if kind == "Interpolate" and attributes["antialias"]:
        return (
            "ignores antialias, so that an image that shrinks is not smoothed; a PyTorch model "
            "whose images have a fixed size is rewritten"
        )
    if kind == "TopK" and node.get_input_element_type(0).is_real():
        return "does not sort values that contain NaN; replace NaN before"
    return ""


#: Operator → the function that returns its exact result for integers; None if there is none.
_INTEGERS: dict[str, Callable[[ov.Output, ov.Output], ov.Output | None]] = {
    "Divide": _quotient,
    "FloorMod": _floor_remainder,
    "Mod": _remainder,
    "Power": _power,
}
