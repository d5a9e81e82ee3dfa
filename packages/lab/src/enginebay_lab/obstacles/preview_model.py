"""``preview``: list the operators of a model that each engine does not support."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay.authors import installed_backends, isolation
from enginebay.authors.files import Draft, Obstacle
from enginebay.commands import Fields, Result, Table
from enginebay.environment import check_distributions
from enginebay.errors import EnginebayError, IsolationError, UsageError
from enginebay_lab.obstacles.explanations import merge_obstacles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from enginebay.commands import Block

    #: The model, its inputs and the caller's rewriters.
    _Arguments: TypeAlias = tuple[Any, Any, Sequence[eb.RewriterSet | str]]

#: The functions that are called in a child process.
_DRAFT = "enginebay_lab.obstacles.child_process:draft_in_child"
_LIST_LACKING = "enginebay_lab.obstacles.child_process:list_engine_lacks"


class BackendPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The preview of a model on one backend.

    Attributes:
        backend: The backend's name.
        ir: The kind of the exported IR; empty if the export failed.
        obstacles: The operators that the exporter or the engine does not support.
        rewritten: Rewriter name → the number of replacements that it made in the export.
        error: Why the obstacles could not be listed; empty if they were listed.
    """

    backend: str
    ir: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    rewritten: dict[str, int] = {}
    error: str = ""

    @property
    def clear(self) -> bool:
        """True if there are no obstacles and no error."""
        return not (self.obstacles or self.error)


class Preview(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`preview`.

    Attributes:
        model: The model's name.
        backends: One preview for each backend.
    """

    model: str
    backends: tuple[BackendPreview, ...] = ()

    @property
    def clear(self) -> bool:
        """True if no backend has an obstacle or an error."""
        return all(backend.clear for backend in self.backends)

    def __repr__(self) -> str:
        state = "clear" if self.clear else "not clear"
        return f"<Preview of {self.model}, {state}, on {len(self.backends)} backends>"

    def blocks(self) -> Iterator[Block]:
        """Yield what is printed: a table with a row for each obstacle, then lines per backend."""
        rows = [
            (
                backend.backend,
                obstacle.operator,
                ", ".join(obstacle.modules) or "-",
                obstacle.reason,
                obstacle.rewriter,
            )
            for backend in self.backends
            for obstacle in backend.obstacles
        ]
        if rows:
            yield Table(("BACKEND", "OPERATOR", "MODULE", "REASON", "REWRITER"), rows)
            yield ""
        yield Fields([field for backend in self.backends for field in _backend_fields(backend)])

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``enginebay preview --json`` prints."""
        plain = super().to_dict()
        return {"schema": plain.pop("schema"), "preview": plain}


def _backend_fields(preview: BackendPreview) -> Iterator[tuple[str, str]]:
    if preview.clear:
        yield preview.backend, f"no unsupported operators in the {preview.ir} export"
    if preview.error:
        yield preview.backend, f"failed: {preview.error}"
    if preview.rewritten:
        counts = ", ".join(f"{name} ({count})" for name, count in preview.rewritten.items())
        yield preview.backend, f"rewritten: {counts}"


def preview(
    model: object,
    args: object = None,
    *,
    backends: str | Sequence[str] = (),
    rewriters: Sequence[eb.RewriterSet | str] = (),
    timeout: float = 600.0,
    watch: Callable[[str], None] | None = None,
) -> Preview:
    """List the operators of a model that each engine does not support, without building an engine.

    The model is exported as for a deployment, with the rewriters of each backend. If torch.export
    fails, ``torch.export.draft_export`` continues and lists all of its problems; a placeholder
    replaces an operator that the ONNX exporter cannot translate. Then each engine lists the
    operators that it does not support.

    Args:
        model: The model, as for :func:`enginebay.deploy`.
        args: Example inputs, or recorded calls; by default the example of the model's source.
        backends: One backend or several; by default all with an installed engine.
        rewriters: Your rewriters, as for :class:`enginebay.ExportOptions`.
        timeout: The time limit of each child process in seconds. Each engine runs in a child
            process. The export also runs in a child process if the model is text, or if it can be
            pickled and its class can be imported.
        watch: A function that is called with the name of each backend before its engine is asked.

    Raises:
        BackendUnavailableError: A backend in ``backends``, or a plugin that has rewriters for every
            backend, cannot be used.
        UsageError: The model or its inputs are wrong, or no engine is installed.
        ModelError: The model's forward raised.
        RewriterError: An item of ``rewriters`` is not a ``RewriterSet``.

    Example:
        >>> import enginebay_lab as lab, torch
        >>> lab.preview(torch.nn.ReLU(), torch.ones(1, 3)).clear  # doctest: +SKIP
        True
    """
    # By default, not the plugins whose engine is not installed.
    backends = (backends,) if isinstance(backends, str) else backends
    names = list(dict.fromkeys(backends)) or [
        name for name in installed_backends() if _has_engine(name)
    ]
    isolation.check_timeout(timeout)
    if not names:
        raise UsageError("no engine is installed", hint="enginebay backends")
    for name in backends:
        eb.get_backend(name)
    if isinstance(model, str) and model.partition(":")[0].endswith(".py"):
        from enginebay.authors.sources import check_source

        check_source(model, Path(), has_inputs=args is not None)
    with TemporaryDirectory(prefix="enginebay-preview-") as folder:
        rows = _preview_each((model, args, rewriters), names, Path(folder), timeout, watch)
        title = model if isinstance(model, str) else type(model).__name__
        return Preview(model=title, backends=tuple(rows))


def _has_engine(name: str) -> bool:
    try:
        return check_distributions(eb.get_backend(name).info.runtime_distributions).ok
    except EnginebayError:
        return True  # its own row shows the plugin's error


def _preview_each(
    arguments: _Arguments,
    names: Sequence[str],
    folder: Path,
    timeout: float,
    watch: Callable[[str], None] | None,
) -> Iterator[BackendPreview]:
    drafts = _export(arguments, names, folder, timeout)
    for name, draft in drafts.items():
        if watch is not None:
            watch(name)
        lacking: list[Obstacle] = []
        error = draft.error
        if draft.ir is not None:
            try:
                lacking = isolation.call(
                    *(_LIST_LACKING, name, draft.ir, folder),
                    timeout=timeout,
                    result_type=list[Obstacle],
                    subject=f"the engine of backend '{name}'",
                )
            except EnginebayError as err:
                error = str(err)
        obstacles = merge_obstacles((*draft.obstacles, *lacking), name)
        yield BackendPreview(
            backend=name,
            ir=draft.kind,
            obstacles=tuple(obstacles),
            rewritten=draft.rewritten,
            error=" ".join(error.split()),  # a program's log has many lines
        )


def _export(
    arguments: _Arguments, names: Sequence[str], folder: Path, timeout: float
) -> dict[str, Draft]:
    """Export the model for all backends, in a child process if it can read the arguments."""
    pickled = _pickle_arguments(arguments)
    if not pickled:
        model, args, rewriters = arguments
        from enginebay.authors.files import draft_irs

        return draft_irs(model, args, backends=names, rewriters=rewriters, folder=folder)
    pickled_file = folder / "model.pickle"
    pickled_file.write_bytes(pickled)
    try:
        return isolation.call(
            *(_DRAFT, list(names), pickled_file, folder),
            timeout=timeout,
            result_type=dict[str, Draft],
            subject="the export of the model",
        )
    except IsolationError as err:  # a crash of the model or of torch
        return dict.fromkeys(names, Draft(error=str(err)))


def _pickle_arguments(arguments: _Arguments) -> bytes:
    """Pickle the arguments; return empty bytes if a child process cannot unpickle them."""
    # Pickle would accept these models, but the child process could not import their class.
    module = type(arguments[0]).__module__
    if module == "__main__" or module.startswith("enginebay_source_"):
        return b""
    try:
        return pickle.dumps(arguments)
    except Exception:  # noqa: BLE001  # pickling a model may run any code
        return b""
