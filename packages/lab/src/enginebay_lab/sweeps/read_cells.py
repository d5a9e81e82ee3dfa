"""Reads the cells of a sweep (one model, backend and precision each), and checks all cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors import declared_fields
from enginebay.authors.arrays import parse_inputs
from enginebay.authors.files import read_table
from enginebay.authors.sources import check_source
from enginebay.errors import ConfigError, InputError, ParamsError
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.shared_params import check_shared_param
from enginebay_lab.sweeps.expansion import check_matrix_params, expand_matrix, load_backends
from enginebay_lab.sweeps.matrix_file import read_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay import Backend
    from enginebay_lab.sweeps.cells import Cell
    from enginebay_lab.sweeps.expansion import Backends, PlacedCell
    from enginebay_lab.sweeps.matrix_file import KeyPath, Matrix


def read_cells(source: object) -> list[Cell]:
    r"""Return the cells of a sweep (one model, backend and precision each), without duplicates.

    The order is by model, then backend, precision and parameters, as in the file; included cells
    come last. No model is run, and torch is not imported.

    Args:
        source: The path of a TOML, JSON, YAML or Python file, or a mapping of the same structure;
            or a sequence of :class:`enginebay_lab.Cell`, or of mappings with its fields. Relative
            paths in a file refer to its folder; all others refer to the current folder.

    Raises:
        ConfigError: The file cannot be read; a key, model, backend, parameter or precision is
            unknown; a value has the wrong type; there are no cells; an exclude does not match any
            cell, or two includes are the same. The message starts with the file and the key.
        UsageError: ``source`` has another type, or no backend is installed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "sweep.toml")
        ...     _ = Path(folder, "net.py").write_text("def build(): ...")
        ...     _ = file.write_text('models = ["net.py:build"]\nbackends = ["ncnn", "openvino"]')
        ...     [cell.label for cell in read_cells(file)]
        ['net.py:build on ncnn', 'net.py:build on openvino']
    """
    matrix = read_matrix(source)
    backends = load_backends(matrix)
    matrix.raise_first()
    check_matrix_params(matrix, backends)
    matrix.raise_first()
    cells = expand_matrix(matrix, backends)
    matrix.raise_first()
    if not cells:
        raise ConfigError(
            f"{matrix.name} contains no combination of a model and a backend",
            hint='models = ["file.py:attr"]',
        )
    _check_cells(cells, matrix, backends)
    matrix.raise_first()
    return [placed.cell for placed in cells]


def _check_cells(cells: Iterable[PlacedCell], matrix: Matrix, backends: Backends) -> None:
    """Check sweep cells without running a model; add problems to ``matrix.problems``."""
    checked = set[tuple[object, ...]]()

    def is_new(*values: object) -> bool:
        before = len(checked)
        checked.add(values)
        return len(checked) > before

    for cell, path in cells:
        if is_new("model", cell.model, cell.config):
            _check_model(cell, path, matrix)
        if is_new("files", path):
            _check_inputs(cell, path, matrix)
            _check_data(cell, path, matrix)
        engine = backends[cell.backend]  # None, with unknown parameters, if it is not installed
        if engine and is_new("params", cell.backend, cell.precision, repr(cell.params)):
            _check_params(engine, cell, path, matrix)


def _check_model(cell: Cell, path: KeyPath, matrix: Matrix) -> None:
    codebase = ""
    if cell.config:
        with matrix.collecting(path, "config"):
            section = read_table(Path(cell.folder, cell.config)).get("codebase_config", {})
            codebase = str(section.get("type", "")) if isinstance(section, dict) else ""
    with matrix.collecting(path, "model"):
        check_source(cell.model, Path(cell.folder), codebase)


def _check_inputs(cell: Cell, path: KeyPath, matrix: Matrix) -> None:
    for text in cell.inputs:
        file = text.rpartition("=")[2]
        with matrix.collecting(path, "inputs"):
            # parse_inputs() would load the file, and from the current folder instead of the cell's.
            if not file.endswith((".npy", ".npz")):
                parse_inputs([text])
            elif not Path(cell.folder, file).exists():
                raise InputError(f"no file '{file}'")


def _check_data(cell: Cell, path: KeyPath, matrix: Matrix) -> None:
    folder = Path(cell.folder)
    with matrix.collecting(path, "data"):
        if ".py:" in cell.data:
            check_source(cell.data, folder)
        elif cell.data and ":" not in cell.data and not (folder / cell.data).exists():
            raise InputError(f"no data set '{cell.data}'")
    with matrix.collecting(path, "metrics"):
        if built_in := [name for name in cell.metrics if ":" not in name]:
            find_metrics(built_in)
        for name in cell.metrics:
            if ".py:" in name:
                check_source(name, folder)
    for required, key in (("data", "metrics"), ("data", "take"), ("metrics", "max_drop")):
        is_set = getattr(cell, key) not in (None, ())
        if is_set and not getattr(cell, required):
            matrix.problems.wrong(
                matrix.find_path(path, key), f"'{key}' requires '{required}'", f"add {required} = …"
            )


def _check_params(engine: Backend, cell: Cell, path: KeyPath, matrix: Matrix) -> None:
    before = len(matrix.problems)
    _check_precision(engine, cell, path, matrix)
    fields = declared_fields(engine.Params)
    # First one by one, so that the message can name the key, and then together.
    for name, value in cell.params.items():
        with matrix.collecting(path, "params", name):
            if name in ("precision", "work_dir"):
                raise ParamsError(f"parameter '{name}' cannot be set: the sweep chooses its value")
            check_shared_param(name, [engine])
            fields[name].convert(value)
    if len(matrix.problems) > before or cell.config:
        return  # parameters from a config are checked when it is read
    values = cell.params | ({"precision": cell.precision} if cell.precision else {})
    with matrix.collecting(path, "params"):
        params = engine.Params(**values)
        if not cell.data and engine.allowed_precision(params) in engine.info.calibrated:
            matrix.problems.wrong(
                matrix.find_path(path, "precision"),
                f"{cell.label} requires calibration data",
                'data = "calibration.npz"',
            )


def _check_precision(engine: Backend, cell: Cell, path: KeyPath, matrix: Matrix) -> None:
    has_field = "precision" in engine.Params.__struct_fields__
    known = engine.info.precisions if has_field else ()
    if not cell.precision or cell.precision in known:
        return
    hint = None
    if path[0] == "models":
        hint = f'[[exclude]] with backend = "{engine.name}" and precision = "{cell.precision}"'
    matrix.problems.wrong(
        matrix.find_path(path, "precision"),
        f"unknown precision '{cell.precision}' of {engine.name}; "
        f"available: {', '.join(known) or 'only its default'}",
        hint,
    )
