"""``preview``: list the operators of a model that each engine does not support."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.display import Fields, Result, Table, document
from enginebay.environment import check_distributions
from enginebay.errors import (
    EnginebayError,
    LackingOperatorsError,
    ModelError,
    PluginError,
    UsageError,
)
from enginebay.exporters import Obstacle, merge_obstacles, write_draft, write_ir
from enginebay.hooks import ConvertRequest
from enginebay.ir import IRModel
from enginebay.models import bind, shapes_of
from enginebay.obstacles.explanations import (
    explain_lacking,
    find_replacement,
    list_unlowered,
)
from enginebay.operations import (
    check_timeout,
    export_patch,
    find_sets,
    get_backend,
    rewriters_for,
    target_of,
)
from enginebay.params import IRKind
from enginebay.plugins import installed_backends
from enginebay.sources import find_model
from enginebay.state import unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from enginebay.display import Block
    from enginebay.rewriting import RewriterSet

    #: The model, its inputs and the caller's rewriters.
    _Arguments: TypeAlias = tuple[Any, Any, Sequence[RewriterSet | str]]

#: The functions that are called in the child process.
_PREVIEW = "enginebay.obstacles.preview_model:preview_in_child"
_LIST_LACKING = "enginebay.obstacles.preview_model:list_engine_lacks"

#: Files in the folder of a preview: the arguments for the child process, and its draft.
_ARGUMENTS_FILE, _DRAFT_FILE = "model.pickle", "drafted.json"


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

    def to_dict(self) -> dict[str, object]:
        """Return the document that ``enginebay preview --json`` prints."""
        return document({"preview": self})


def _backend_fields(preview: BackendPreview) -> Iterator[tuple[str, str]]:
    if preview.clear:
        yield preview.backend, f"no unsupported operators in the {preview.ir} export"
    if preview.error:
        yield preview.backend, f"failed: {preview.error}"
    if preview.rewritten:
        counts = ", ".join(f"{name} ({count})" for name, count in preview.rewritten.items())
        yield preview.backend, f"rewritten: {counts}"


class _Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft: the preliminary export of a model, in which some operators may be unsupported.

    Attributes:
        kind: The IR's kind.
        ir: The IR; None if operators remain that are not in ``BackendInfo.operators``.
        obstacles: The operators that the exporter cannot translate, or that remain after lowering
            and are not in ``BackendInfo.operators``.
        rewritten: Rewriter name → the number of replacements that it made.
    """

    kind: IRKind
    ir: IRModel | None = None
    obstacles: tuple[Obstacle, ...] = ()
    rewritten: dict[str, int] = {}


def preview(
    model: object,
    args: object = None,
    *,
    backends: str | Sequence[str] = (),
    rewriters: Sequence[RewriterSet | str] = (),
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
        timeout: The time limit of each child process in seconds. The engines run in child
            processes. The export also runs in a child process if the model is text, or if it can be
            pickled and its class can be imported.
        watch: A function that is called with each backend's name before its preview.

    Raises:
        BackendUnavailableError: A backend in ``backends``, or a plugin that has rewriters for every
            backend, cannot be used.
        UsageError: The model or its inputs are wrong, or no engine is installed.
        ModelError: The model's forward raised.
        RewriterError: An item of ``rewriters`` is not a ``RewriterSet``.

    Example:
        >>> import enginebay as eb, torch
        >>> eb.preview(torch.nn.ReLU(), torch.ones(1, 3)).clear  # doctest: +SKIP
        True
    """
    # By default, not the plugins whose engine is not installed.
    backends = (backends,) if isinstance(backends, str) else backends
    names = list(dict.fromkeys(backends)) or [
        name for name in installed_backends() if _has_engine(name)
    ]
    check_timeout(timeout)
    if not names:
        raise UsageError("no engine is installed", hint="enginebay backends")
    for name in backends:
        get_backend(name)
    # Wrong rewriters must fail before the first export.
    find_sets(rewriters)
    previews = []
    for name in names:
        if watch is not None:
            watch(name)
        previews.append(_preview_backend((model, args, rewriters), name, timeout))
    title = model if isinstance(model, str) else type(model).__name__
    return Preview(model=title, backends=tuple(previews))


def _has_engine(name: str) -> bool:
    try:
        return check_distributions(get_backend(name).info.runtime_distributions).ok
    except EnginebayError:
        return True  # its own preview shows the plugin's error


def _preview_backend(arguments: _Arguments, name: str, timeout: float) -> BackendPreview:
    with TemporaryDirectory(prefix="enginebay-preview-") as path:
        folder, error = Path(path), ""
        lacking: list[Obstacle] = []
        try:
            lacking = _list_lacking(arguments, name, folder, timeout)
        # A wrong model or input is the same for every backend: end the preview.
        except (UsageError, ModelError):
            raise
        except EnginebayError as err:
            if isinstance(err, PluginError):
                # Likewise rewriters for every backend, such as Enginebay's own: raise their error.
                rewriters_for(target_of(None))
            error = " ".join(str(err).split())  # a program's log has many lines
        draft = _read_draft(folder)
        if draft is None:
            return BackendPreview(backend=name, error=error)
        obstacles = [
            msgspec.structs.replace(obstacle, rewriter=find_replacement(name, obstacle.operator))
            for obstacle in (*draft.obstacles, *lacking)
        ]
        return BackendPreview(
            backend=name,
            ir=draft.kind,
            obstacles=tuple(merge_obstacles(obstacles)),
            rewritten=draft.rewritten,
            error=error,
        )


def _list_lacking(arguments: _Arguments, name: str, folder: Path, timeout: float) -> list[Obstacle]:
    # The export happens in this process if a child process could not read the arguments.
    from enginebay.isolation import call

    if pickled := _pickle_arguments(arguments):
        (folder / _ARGUMENTS_FILE).write_bytes(pickled)
        function, subject = _PREVIEW, f"the preview on backend '{name}'"
    else:
        draft_ir(*arguments, name, folder)
        function, subject = _LIST_LACKING, f"the engine of backend '{name}'"
    return call(
        function, name, folder, timeout=timeout, result_type=list[Obstacle], subject=subject
    )


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


def preview_in_child(name: str, folder: Path) -> list[Obstacle]:
    """In a child process: export the model, and list operators that the engine does not support."""
    pickled = (folder / _ARGUMENTS_FILE).read_bytes()
    arguments: _Arguments = pickle.loads(pickled)  # noqa: S301  # the parent process wrote it
    draft_ir(*arguments, name, folder)
    return list_engine_lacks(name, folder)


def draft_ir(
    model: object, args: object, rewriters: Sequence[RewriterSet | str], name: str, folder: Path
) -> None:
    """Export a model to a backend's preferred IR; write the IR and the obstacles to files.

    An obstacle is an operator that the exporter or the backend does not support.
    """
    source = find_model(model, None, shapes_of(args))
    if source.model is None and source.ir is not None:
        _write_draft(folder, _Draft(kind=source.ir.kind, ir=source.ir))
        return
    kind = get_backend(name).info.irs[0]
    with unchanged(source):
        bound = bind(source, args)
        patch = export_patch(target_of(name, kind), find_sets(rewriters))
        ir: IRModel | None = None
        obstacles: tuple[Obstacle, ...] = ()
        if kind == "onnx":
            drafted = write_draft(
                bound,
                folder / "draft.onnx",
                patch=patch,
                translated=lambda: {_qualify_operator(name) for name in patch.symbolics},
            )
            ir, obstacles = drafted.ir, drafted.obstacles
        else:
            try:
                ir = write_ir(bound, kind, folder / "draft", patch=patch)
            except LackingOperatorsError as err:
                obstacles = tuple(list_unlowered(err))
    rewritten = patch.report.fired if patch.report else {}
    _write_draft(folder, _Draft(kind=kind, ir=ir, obstacles=obstacles, rewritten=rewritten))


def list_engine_lacks(name: str, folder: Path) -> list[Obstacle]:
    """In a child process: return the operators in an exported IR that the engine does not support.

    Args:
        name: The backend's name.
        folder: The folder into which :func:`draft_ir` wrote the IR.

    Raises:
        EnginebayError: The backend cannot list unsupported operators, or cannot read the IR.
    """
    draft = _read_draft(folder)
    assert draft is not None
    if draft.ir is None:
        return []  # the draft's obstacles are complete
    backend = get_backend(name)
    work_dir = folder / "engine"
    work_dir.mkdir()
    request = ConvertRequest(ir=draft.ir, params=backend.Params(), work_dir=work_dir)
    lacking = backend.unsupported_operators(request)
    if lacking is None:
        raise EnginebayError(f"backend '{name}' does not implement the hook unsupported_operators")
    return list(explain_lacking(draft.ir, lacking))


def _write_draft(folder: Path, draft: _Draft) -> None:
    # str: msgspec has no encoding of paths.
    (folder / _DRAFT_FILE).write_bytes(msgspec.json.encode(draft, enc_hook=str))


def _read_draft(folder: Path) -> _Draft | None:
    file = folder / _DRAFT_FILE
    if not file.is_file():
        return None
    return msgspec.json.decode(
        file.read_bytes(), type=_Draft, dec_hook=lambda kind, text: kind(text)
    )


def _qualify_operator(operator: str) -> str:
    return operator if "::" in operator else f"aten::{operator}"
