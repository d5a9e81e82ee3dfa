"""From what a caller gives to the cells of a sweep, each checked before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.authors import check_source, declared_fields, parse_inputs, read_table
from enginebay.errors import ConfigError, InputError, ParamsError
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.shared_params import check_shared_param
from enginebay_lab.sweeps.expansion import check_params, expand, named_backends
from enginebay_lab.sweeps.matrix_file import read_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay import Backend
    from enginebay_lab.sweeps.cells import Cell
    from enginebay_lab.sweeps.expansion import Backends, PlacedCell
    from enginebay_lab.sweeps.matrix_file import KeyPath, Matrix


def read_cells(given: Any) -> list[Cell]:
    r"""Return the cells of a sweep, each once, in order.

    Models come first, then backends, precisions and parameters, as the file names them; cells that
    are included come last. No model is run and torch is not imported.

    Args:
        given: The path of a TOML, JSON, YAML or Python file, or a mapping of the same shape; or a
            sequence of :class:`enginebay_lab.Cell`, or of mappings with its fields. Relative paths
            in a file begin in its folder, others in the current one.

    Raises:
        ConfigError: The file cannot be read; a key, model, backend, parameter or precision is
            unknown; a value is of another type; there is no cell; an exclude matches none, or two
            includes are the same. The message begins with the file and the key.
        UsageError: ``given`` is something else, or no backend is installed.

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
    matrix = read_matrix(given)
    backends = named_backends(matrix)
    matrix.raise_first()
    check_params(matrix, backends)
    matrix.raise_first()
    cells = expand(matrix, backends)
    matrix.raise_first()
    if not cells:
        raise ConfigError(f"{matrix.name} has no cell", hint='models = ["file.py:attr"]')
    _check_cells(cells, matrix, backends)
    matrix.raise_first()
    return [one.cell for one in cells]


def _check_cells(cells: Iterable[PlacedCell], matrix: Matrix, backends: Backends) -> None:
    """Check all that can be without running a model or an engine, each thing once.

    Of backends that are not installed here nothing is checked.
    """
    done = set[tuple[object, ...]]()

    def is_new(*what: object) -> bool:
        before = len(done)
        done.add(what)
        return len(done) > before

    for cell, path in cells:
        if is_new("model", cell.model, cell.config):
            _check_model(cell, path, matrix)
        if is_new("files", path):
            _check_inputs(cell, path, matrix)
            _check_data(cell, path, matrix)
        engine = backends[cell.backend]
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
    for needed, key in (("data", "metrics"), ("data", "take"), ("metrics", "max_drop")):
        is_given = getattr(cell, key) not in (None, ())
        if is_given and not getattr(cell, needed):
            matrix.problems.wrong(
                matrix.path_of(path, key), f"'{key}' needs '{needed}'", f"add {needed} = …"
            )


def _check_params(engine: Backend, cell: Cell, path: KeyPath, matrix: Matrix) -> None:
    """Check the values one by one, so that the key is known, and then together."""
    before = len(matrix.problems)
    _check_precision(engine, cell, path, matrix)
    fields = declared_fields(engine.Params)
    for name, value in cell.params.items():
        with matrix.collecting(path, "params", name):
            if name in ("precision", "work_dir"):
                raise ParamsError(f"'{name}' is no parameter of a cell: the sweep sets it")
            check_shared_param(name, [engine])
            fields[name].convert(value)
    if len(matrix.problems) > before or cell.config:
        return  # what a config adds is checked where it is read
    given = cell.params | ({"precision": cell.precision} if cell.precision else {})
    with matrix.collecting(path, "params"):
        params = engine.Params(**given)
        if not cell.data and engine.allowed_precision(params) in engine.info.calibrated:
            matrix.problems.wrong(
                matrix.path_of(path, "precision"),
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
        matrix.path_of(path, "precision"),
        f"{engine.name} has no precision '{cell.precision}'; "
        f"it has {', '.join(known) or 'only its own'}",
        hint,
    )
