"""The rows of a comparison before anything runs: which backends at which precisions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import enginebay as eb
from enginebay import DataSet, deploy, get_backend
from enginebay.backend import check_shared_param, own_params
from enginebay.errors import BackendNotFoundError, EnginebayError, UsageError
from enginebay.operations.deployment import Line
from enginebay.operations.settings import resolve_settings
from enginebay.plugins import installed_backends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.operations.settings import Settings

#: The arguments of deploy that one comparison has several of, or that are its own.
_OWN = {"model", "args", "work_dir", "backend", "precision", "params", "overwrite", "watch"}


class Cell(NamedTuple):
    """One backend at one precision.

    Attributes:
        backend: The backend's name.
        precision: The precision; empty for the backend's own.
    """

    backend: str
    precision: str = ""

    @property
    def label(self) -> str:
        """The name in messages: ``openvino fp16``."""
        return f"{self.backend} {self.precision}".rstrip()

    @property
    def folder(self) -> str:
        """The name of its artifact's folder: ``openvino-fp16``."""
        return self.label.replace(" ", "-")


def cells_of(backends: Sequence[str] | None, precisions: Sequence[str]) -> list[Cell]:
    """The rows to come, each once.

    Raises:
        UsageError: There is no backend.
        BackendNotFoundError: A name is no installed backend's.
    """
    for argument, texts in (("backends", backends), ("precisions", precisions)):
        if isinstance(texts, str):
            raise UsageError(
                f"{argument} is the text '{texts}', wanted a sequence of names",
                hint=f"{argument}=['{texts}']",
            )
    names = installed_backends() if backends is None else backends
    if not names:
        raise UsageError("there is no backend to compare", hint="enginebay backends")
    return list(dict.fromkeys(Cell(name, one) for name in names for one in precisions or ("",)))


def lines_of(
    cells: Sequence[Cell], params: Mapping[str, Any], options: Mapping[str, Any], command: str
) -> dict[Cell, Line | EnginebayError]:
    """What deploys each row, or why nothing can.

    Raises:
        EnginebayError: Nothing can deploy any of them; of the first.
    """
    of_deploy = inspect.signature(deploy).parameters.keys() - _OWN
    if unknown := options.keys() - of_deploy:
        raise TypeError(f"compare() got an unexpected keyword argument '{min(unknown)}'")
    given = dict(options)
    verify = given.pop("verify", None) or eb.VerifyOptions()
    keep = given.pop("int8_keep", ())
    if given.get("data") is not None:
        given["data"] = DataSet.of(given["data"])  # once: a stream cannot be read again
    _check_params({cell.backend for cell in cells}, params)
    lines: dict[Cell, Line | EnginebayError] = {}
    for cell in cells:
        try:
            settings = _settings(cell, params, dict(given))
            lines[cell] = Line(settings, verify, int8_keep=keep, command=command)
        except BackendNotFoundError:
            raise
        except EnginebayError as err:
            lines[cell] = err
    found = list(lines.values())
    if isinstance(found[0], EnginebayError) and not any(isinstance(one, Line) for one in found):
        raise found[0]
    return lines


def _settings(cell: Cell, params: Mapping[str, Any], given: dict[str, Any]) -> Settings:
    fields = own_params(get_backend(cell.backend), params)
    if cell.precision:
        fields["precision"] = cell.precision
    return resolve_settings(given.pop("config", None), backend=cell.backend, params=fields, **given)


def _check_params(backends: set[str], params: Mapping[str, Any]) -> None:
    """Raise for a parameter that none of the backends has."""
    if not isinstance(params, Mapping):
        raise UsageError(
            f"params is a {type(params).__name__}: wanted a mapping, from names to values"
        )
    if "precision" in params:
        raise UsageError("a comparison has several precisions", hint="precisions=['fp16']")
    try:
        engines = [get_backend(name) for name in backends]
    except BackendNotFoundError:
        raise
    except EnginebayError:
        return  # its own parameters are not known; its row says why
    for name in params:
        check_shared_param(name, engines)
