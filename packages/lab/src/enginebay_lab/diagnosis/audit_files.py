"""``audit``: compare model files, to find out whether they are the same model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from enginebay import convert, get_backend, load
from enginebay.authors import Steps, installed_backends, isolation
from enginebay.authors.arrays import compare_outputs, inputs_for, numpy_dtype, to_numpy, to_torch
from enginebay.authors.files import read_ir, summarise_onnx
from enginebay.authors.sources import evaluator_outputs, find_model, reference_model
from enginebay.environment import require
from enginebay.errors import (
    EnginebayError,
    InputError,
    ModelError,
    ModelSourceError,
    UsageError,
    first_line,
    one_line,
)
from enginebay_lab.diagnosis.audit import Audit, AuditRow, ChangedWeight
from enginebay_lab.diagnosis.changed_nodes import find_changed_nodes
from enginebay_lab.diagnosis.model_weights import (
    RELATIONS,
    find_relation,
    measure_difference,
    read_weights,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay import IRModel, TensorSpec
    from enginebay.authors import Step
    from enginebay.authors.arrays import NumpyArray, OutputComparison
    from enginebay_lab.diagnosis.model_weights import Weight

    Arrays = dict[str, NumpyArray]
    Specs = Sequence[TensorSpec]

#: The number of samples: the caller's inputs, and values redrawn within their ranges.
_SAMPLES = 8

_EVALUATOR = "onnx's reference evaluator"

#: The precisions of files, from the smallest tolerance to the largest.
_PRECISIONS = ("fp32", "fp16", "bf16", "int8")


class _File(NamedTuple):
    label: str
    ir: IRModel
    weights: dict[str, Weight]
    precision: str


def audit(
    files: Sequence[str | Path],
    inputs: Mapping[str, Any] | None = None,
    *,
    backend: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Audit:
    """Find out whether ONNX files are the same model, possibly at several precisions.

    Each file is compared with the first. Weights must be equal, or rounded or quantised from one
    another; they are matched by name, else by shape and value. Outputs must agree within the
    tolerance of the coarser precision of the two files, on ``inputs`` and on values redrawn within
    their ranges.

    Args:
        files: At least two ``.onnx`` files.
        inputs: Input name in the first file → array; by default random values, if the files have
            fixed sizes.
        backend: The backend that runs the files; by default the first installed one that prefers
            ONNX and can run the first file, else onnx's reference evaluator.
        rtol: Relative tolerance; by default the tolerance for the precision.
        atol: Absolute tolerance; by default the tolerance for the precision.
        timeout: Time limit in seconds for each file.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: There are fewer than two files, or one is named twice or is no ONNX file.
        ModelSourceError: A file is missing or damaged.
        InputError: ``inputs`` do not fit the first file, or are missing though it has open sizes;
            or no output changes between the samples.
        ModelError: Nothing can run the first file.

    Example:
        >>> lab.audit(["net.onnx", "net-half.onnx"]).same  # doctest: +SKIP
        True
    """
    require("torch", "onnx")
    steps = Steps(watch)
    irs = _read_irs(files)
    with steps("weights"):
        first, *others = (_read_file(str(file), ir) for file, ir in zip(files, irs, strict=True))
        rows = [_compare_file(first, other) for other in others]
    engine, samples = "", []
    if fitting := [ir for ir, row in zip(irs[1:], rows, strict=True) if row.is_compatible]:
        samples = _draw_samples(first.ir, fitting, inputs or {})
        with steps("outputs") as set_detail:
            engine, expected = _run_first(first.ir, samples, backend, timeout)
            if first.ir.inputs:
                _check_varied(first.label, expected)
            for index, (row, other) in enumerate(zip(rows, others, strict=True)):
                if not row.is_compatible:
                    continue
                set_detail(other.label)
                feeds = [_convert_inputs(sample, first.ir, other.ir) for sample in samples]
                try:
                    found = _run(other.ir, feeds, engine, timeout)
                except EnginebayError as err:
                    rows[index] = msgspec.structs.replace(row, same=False, failure=first_line(err))
                    continue
                tolerances = rtol, atol
                rows[index] = _compare_outputs(row, first, other, expected, found, tolerances)
    rows.insert(0, AuditRow(file=first.label, precision=first.precision, total=len(first.weights)))
    return Audit(
        same=all(row.same for row in rows),
        engine=engine,
        samples=len(samples),
        random=not inputs,
        rows=tuple(rows),
    )


def _read_irs(files: Sequence[str | Path]) -> list[IRModel]:
    if len(files) < 2:
        raise UsageError(f"expected at least two files, found {len(files)}")
    irs: list[IRModel] = []
    for file in files:
        ir = read_ir(file)
        if ir.kind != "onnx":
            hint = "export the model to ONNX: enginebay export MODEL"
            raise UsageError(f"'{file}' is not an ONNX file", hint=hint)
        if ir.path.resolve() in [known.path.resolve() for known in irs]:
            raise UsageError(f"'{file}' is named twice", hint="name different files")
        irs.append(ir)
    return irs


def _read_file(label: str, ir: IRModel) -> _File:
    try:
        weights = read_weights(ir.path)
    except (ValueError, KeyError, TypeError) as err:  # of NumPy and onnx
        raise ModelSourceError(f"a weight of '{label}' cannot be read: {one_line(err)}") from err
    return _File(label, ir, weights, summarise_onnx(ir.path).stored_precision)


def _compare_file(first: _File, other: _File) -> AuditRow:
    """Return a row about the inputs, the names of the outputs and the weights of two files."""
    row = AuditRow(file=other.label, precision=other.precision, total=len(other.weights))
    row = _compare_weights(row, first.weights, other.weights)
    remarks, is_compatible = [], True
    for word, ours, theirs in (
        ("input", first.ir.inputs, other.ir.inputs),
        ("output", first.ir.outputs, other.ir.outputs),
    ):
        if len(ours) != len(theirs):
            lists = (", ".join(spec.name for spec in specs) or "none" for specs in (theirs, ours))
            remarks.append(f"{word}s {' instead of '.join(lists)}")
            is_compatible = False
            continue
        for left, right in _pair_specs(ours, theirs):
            if word == "output":  # files often declare wrong sizes of outputs
                right = msgspec.structs.replace(right, dims=left.dims)
            forms = [(spec.name, spec.dtype, _list_sizes(spec)) for spec in (left, right)]
            if forms[0] != forms[1]:
                remarks.append(f"{word} {right.describe()} instead of {left.describe()}")
            is_compatible &= _are_compatible(left, right)
    return msgspec.structs.replace(
        row,
        remarks=tuple(remarks),
        nodes=find_changed_nodes(first.ir.path, other.ir.path),
        is_compatible=is_compatible,
        same=row.same and is_compatible,
    )


def _pair_specs(ours: Specs, theirs: Specs) -> list[tuple[TensorSpec, TensorSpec]]:
    """Pair inputs or outputs by name, or by position if the names differ."""
    named = {spec.name: spec for spec in theirs}
    if named.keys() == {spec.name for spec in ours}:
        return [(spec, named[spec.name]) for spec in ours]
    return list(zip(ours, theirs, strict=True))


def _list_sizes(spec: TensorSpec) -> list[int | None]:
    return [dim if isinstance(dim, int) else None for dim in spec.dims or ()]


def _are_compatible(left: TensorSpec, right: TensorSpec) -> bool:
    """Return True if the dtypes are of one kind, and no fixed sizes differ."""
    kinds = {spec.dtype.removeprefix("b").rstrip("0123456789") for spec in (left, right)}
    if len(kinds) > 1 or left.dims is None or right.dims is None:
        return len(kinds) == 1
    pairs = [*zip(_list_sizes(left), _list_sizes(right), strict=False)]
    return len(left.dims) == len(right.dims) and all(a == b or None in (a, b) for a, b in pairs)


def _compare_weights(
    row: AuditRow, ours: Mapping[str, Weight], theirs: Mapping[str, Weight]
) -> AuditRow:
    left, right = dict(ours), dict(theirs)
    relations = {"equal"}
    for name in ours.keys() & theirs.keys():
        if relation := find_relation(ours[name], theirs[name]):
            relations.add(relation)
            del left[name], right[name]
    # Other names, and copies: one weight may be several in the other file.
    for mine, rest, pool in ((left, right, theirs), (right, left, ours)):
        for name in [*mine]:
            values = mine[name].values
            is_constant = values.min() == values.max()
            if is_constant and name in pool:
                continue  # biases of zeros say nothing about each other
            for candidate, weight in (rest if name in pool else pool).items():
                if relation := find_relation(mine[name], weight):
                    relations.add(relation)
                    del mine[name]
                    if not is_constant:
                        rest.pop(candidate, None)
                    break
    changed, is_drifted = [], False
    for name in [*left]:
        # The nodes of two graphs are usually in the same order.
        for candidate in [name] if name in right else [*right]:
            error = measure_difference(left[name], right[candidate])
            if error is not None:
                weight, other = left.pop(name), right.pop(candidate)
                largest = float(np.abs(weight.values).max())
                changed.append(ChangedWeight(name, candidate, error, largest))
                is_drifted |= bool(weight.step.any() or other.step.any())
                break
    unmatched = (*left, *right)
    weights = max(relations, key=RELATIONS.index)
    if changed or unmatched:
        # A fusion removes some floats and changes others, but no quantised weight.
        weights = "rearranged" if unmatched and not is_drifted else "different"
    return msgspec.structs.replace(
        row,
        weights=weights,
        changed=tuple(changed),
        unmatched=unmatched,
        same=weights != "different",
    )


def _draw_samples(
    first: IRModel, others: Sequence[IRModel], inputs: Mapping[str, Any]
) -> list[Arrays]:
    """Return the caller's inputs, or random ones, and values redrawn within their ranges."""
    import torch

    from enginebay_lab.diagnosis.random_values import draw_values

    arrays = {name: to_numpy(array) for name, array in inputs_for(first.inputs, inputs).items()}
    if arrays:  # checked, because engines differ in what they accept
        arrays = reference_model(find_model(first.path), list(arrays), arrays, None).examples
    generator = torch.Generator().manual_seed(0)
    samples: list[Arrays] = [dict(arrays)]
    for _ in range(_SAMPLES - 1):
        drawn = {name: draw_values(to_torch(array), generator) for name, array in arrays.items()}
        samples.append({name: to_numpy(tensor) for name, tensor in drawn.items()})
    # No file may lose more of an input than another.
    for kind in {"float16", "bfloat16"} & {
        spec.dtype for ir in (first, *others) for spec in ir.inputs
    }:
        for sample in samples:
            for name, array in sample.items():
                if array.dtype.kind == "f":
                    sample[name] = array.astype(numpy_dtype(kind)).astype(array.dtype)
    return samples


def _convert_inputs(sample: Arrays, first: IRModel, other: IRModel) -> Arrays:
    """Return inputs of the first file with the names and dtypes of another file's."""
    pairs = _pair_specs(first.inputs, other.inputs)
    return {b.name: sample[a.name].astype(numpy_dtype(b.dtype)) for a, b in pairs}


def _run_first(
    ir: IRModel, samples: Sequence[Arrays], backend: str | None, timeout: float
) -> tuple[str, list[Arrays]]:
    """Return the name of the first engine that can run a file, and the outputs."""
    failures: list[str] = []
    for name in [backend] if backend else [*installed_backends(), _EVALUATOR]:
        try:
            # A backend that prefers another IR takes a long way from ONNX.
            if backend or name == _EVALUATOR or get_backend(name).info.irs[0] == "onnx":
                return name, _run(ir, samples, name, timeout)
        except EnginebayError as err:
            if backend:
                raise
            failures.append(f"{name}: {first_line(err)}")
    hint = "choose another engine: --backend NAME"
    raise ModelError(f"'{ir.path.name}' cannot be run: {failures[0]}", hint=hint)


def _run(ir: IRModel, samples: Sequence[Arrays], engine: str, timeout: float) -> list[Arrays]:
    if engine == _EVALUATOR:
        return evaluator_outputs(ir.path, samples, timeout=timeout)
    with TemporaryDirectory(prefix="enginebay-audit-") as folder, isolation.time_limit(timeout):
        artifact = convert(ir, backend=engine, work_dir=Path(folder) / "engine")
        # Isolated, because a foreign file may crash an engine.
        with load(artifact, isolated=True) as wrapper:
            return [{k: to_numpy(v) for k, v in wrapper(sample).items()} for sample in samples]


def _check_varied(file: str, runs: Sequence[Arrays]) -> None:
    """Raise InputError if all outputs are the same for all samples."""
    pairs = ((arrays[name], runs[0][name]) for arrays in runs for name in arrays)
    if all(np.array_equal(*pair, equal_nan=pair[0].dtype.kind == "f") for pair in pairs):
        raise InputError(
            f"no output of '{file}' changes between {len(runs)} samples: they would show nothing",
            hint="pass real inputs: --input NAME=FILE.npy",
        )


def _compare_outputs(
    row: AuditRow,
    first: _File,
    other: _File,
    expected: Sequence[Arrays],
    found: Sequence[Arrays],
    tolerances: tuple[float | None, float | None],
) -> AuditRow:
    """Return the row with the worst comparison of each output."""
    precision = max(first.precision, other.precision, key=_PRECISIONS.index)
    rtol, atol = tolerances
    names = _pair_specs(first.ir.outputs, other.ir.outputs)
    worst: dict[str, OutputComparison] = {}
    for number, (wanted, arrays) in enumerate(zip(expected, found, strict=True)):
        # In the dtype of the first file: one file may return float16, the other float32.
        outputs = {a.name: arrays[b.name].astype(wanted[a.name].dtype) for a, b in names}
        for output in compare_outputs(wanted, outputs, precision=precision, rtol=rtol, atol=atol):
            label = f"redrawn {number}" if number else output.sample
            output = msgspec.structs.replace(output, sample=label)
            known = worst.get(output.name, output)
            worst[output.name] = max(known, output, key=lambda one: one.badness)
    same = row.same and all(output.passed for output in worst.values())
    return msgspec.structs.replace(row, outputs=tuple(worst.values()), same=same)
