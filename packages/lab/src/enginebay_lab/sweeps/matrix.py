"""From what a caller gives to the cells of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import ConfigError
from enginebay_lab.sweeps.cell_checks import check_cells
from enginebay_lab.sweeps.expansion import check_params, expand, named_backends
from enginebay_lab.sweeps.matrix_file import read_matrix

if TYPE_CHECKING:
    from enginebay_lab.sweeps.cells import Cell


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
    check_cells(cells, matrix, backends)
    matrix.raise_first()
    return [one.cell for one in cells]
