"""``preview``: all that stands between a model and each engine, before anything is built."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.backend import get_backend
from enginebay.display import Fields, Result, Table, document
from enginebay.environment import check_distributions
from enginebay.errors import EnginebayError, LackingOperatorsError, ModelError, UsageError
from enginebay.exporters import Obstacle, merged, write_draft, write_ir
from enginebay.hooks import ConvertRequest
from enginebay.ir import IRKind, IRModel
from enginebay.models import bind, find_model, shapes_of, unchanged
from enginebay.operations.previewed_ir import explained, replacement, unlowered
from enginebay.operations.rewrite_model import export_patch, find_sets
from enginebay.operations.settings import check_timeout
from enginebay.plugins import installed_backends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from enginebay.display import Block
    from enginebay.rewriting import RewriterSet

    #: The model, its inputs and the caller's rewriters.
    _Given: TypeAlias = tuple[Any, Any, Sequence[RewriterSet | str]]

_PREVIEW = "enginebay.operations.preview_model:preview_here"
_ENGINE = "enginebay.operations.preview_model:ask_engine"

#: Files in the folder of a preview: the model for the child process, and what it drafted.
_SENT, _DRAFTED = "model.pickle", "drafted.json"


class BackendPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The preview of a model on one backend.

    Attributes:
        backend: Its name.
        ir: The IR that was looked at; empty where there was none.
        obstacles: What the exporter or the engine lacks.
        rewritten: How often each rewriter has replaced something on the way already, by its name.
        error: Why the engine could not be asked; else empty.
    """

    backend: str
    ir: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    rewritten: dict[str, int] = {}
    error: str = ""

    @property
    def clear(self) -> bool:
        """True if nothing stands in the way."""
        return not (self.obstacles or self.error)


class Preview(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`preview`.

    Attributes:
        model: The name of the model.
        backends: The preview on each backend.
    """

    model: str
    backends: tuple[BackendPreview, ...] = ()

    @property
    def clear(self) -> bool:
        """True if nothing stands in the way on any of them."""
        return all(one.clear for one in self.backends)

    def __repr__(self) -> str:
        state = "clear" if self.clear else "not clear"
        return f"<Preview of {self.model}, {state}, on {len(self.backends)} backends>"

    def blocks(self) -> Iterator[Block]:
        """A row for each obstacle, and what else is to be said of each backend."""
        rows = [
            (one.backend, each.operator, ", ".join(each.modules) or "-", each.reason, each.rewriter)
            for one in self.backends
            for each in one.obstacles
        ]
        if rows:
            yield Table(("BACKEND", "OPERATOR", "MODULE", "REASON", "REWRITER"), rows)
            yield ""
        yield Fields([pair for one in self.backends for pair in _fields(one)])

    def to_dict(self) -> dict[str, Any]:
        """The document that ``enginebay preview --json`` prints."""
        return document({"preview": self})


def _fields(found: BackendPreview) -> Iterator[tuple[str, str]]:
    if found.clear:
        yield found.backend, f"nothing in the way, from {found.ir}"
    if found.error:
        yield found.backend, f"failed: {found.error}"
    if found.rewritten:
        counts = ", ".join(f"{name} ({count})" for name, count in found.rewritten.items())
        yield found.backend, f"rewritten already: {counts}"


class _Drafted(msgspec.Struct, frozen=True, kw_only=True):
    """An IR to ask an engine about, and what stood in its way already.

    Attributes:
        kind: The IR's kind.
        ir: The IR; None where the backend lists its operators and some are lacking.
        obstacles: What the exporter or the engine lacks.
        rewritten: How often each rewriter has fired.
    """

    kind: IRKind
    ir: IRModel | None = None
    obstacles: tuple[Obstacle, ...] = ()
    rewritten: dict[str, int] = {}


def preview(
    model: Any,
    args: Any = None,
    *,
    backends: Sequence[str] = (),
    rewriters: Sequence[RewriterSet | str] = (),
    timeout: float = 600.0,
    watch: Callable[[str], None] | None = None,
) -> Preview:
    """List all operators that stand between a model and each engine; builds nothing.

    The model is exported as for a deployment, with the rewriters of each backend. Where
    torch.export fails, ``torch.export.draft_export`` goes on and lists all of its problems; where
    the ONNX exporter has no translation, a placeholder stands in. Then each engine says which
    operators it lacks.

    Args:
        model: As :func:`enginebay.deploy` takes it.
        args: Example inputs, or recorded calls; by default the model's own.
        backends: Their names; by default all whose engines are installed.
        rewriters: Rewriters of your own, as :class:`enginebay.ExportOptions` takes them.
        timeout: Seconds that each child process may take. The engines are asked in child
            processes. The export happens in one too, if the model can be sent there: text, or a
            module whose class can be imported.
        watch: Called with each backend's name before its turn.

    Raises:
        BackendUnavailableError: A backend that is named cannot be used.
        UsageError: The model or its inputs are wrong, or no engine is installed.
        ModelError: The model's forward raised.
        RewriterError: One of ``rewriters`` is no set.

    Example:
        >>> import enginebay as eb, torch
        >>> eb.preview(torch.nn.ReLU(), torch.ones(1, 3)).clear  # doctest: +SKIP
        True
    """
    names = list(dict.fromkeys(backends)) or [
        name for name in installed_backends() if _is_here(name)
    ]
    check_timeout(timeout)
    if not names:
        raise UsageError("no engine is installed", hint="enginebay backends")
    for name in backends:
        get_backend(name)
    find_sets(rewriters)
    found = []
    for name in names:
        if watch is not None:
            watch(name)
        found.append(_preview((model, args, rewriters), name, timeout))
    title = model if isinstance(model, str) else type(model).__name__
    return Preview(model=title, backends=tuple(found))


def _is_here(name: str) -> bool:
    try:
        return check_distributions(get_backend(name).info.runtime_distributions).ok
    except EnginebayError:
        return True  # its own preview says what is wrong with the plugin


def _preview(given: _Given, name: str, timeout: float) -> BackendPreview:
    with TemporaryDirectory(prefix="enginebay-preview-") as text:
        folder, error = Path(text), ""
        asked: list[Obstacle] = []
        try:
            asked = _asked(given, name, folder, timeout)
        except (UsageError, ModelError):
            raise
        except EnginebayError as err:
            error = " ".join(str(err).split())  # a program's log has many lines
        drafted = _read(folder)
        if drafted is None:
            return BackendPreview(backend=name, error=error)
        obstacles = [
            msgspec.structs.replace(one, rewriter=replacement(name, one.operator))
            for one in (*drafted.obstacles, *asked)
        ]
        return BackendPreview(
            backend=name,
            ir=drafted.kind,
            obstacles=tuple(merged(obstacles)),
            rewritten=drafted.rewritten,
            error=error,
        )


def _asked(given: _Given, name: str, folder: Path, timeout: float) -> list[Obstacle]:
    """What the engine lacks; all in one child process if the model can be sent to it."""
    from enginebay.isolation import call

    if sent := _sent(given):
        (folder / _SENT).write_bytes(sent)
        function, subject = _PREVIEW, f"the preview on backend '{name}'"
    else:
        draft(*given, name, folder)
        function, subject = _ENGINE, f"the engine of backend '{name}'"
    asked = (function, name, folder)
    return call(*asked, timeout=timeout, result_type=list[Obstacle], subject=subject)


def _sent(given: _Given) -> bytes:
    """What was given, for a child process; empty where it could not read that."""
    module = type(given[0]).__module__
    if module == "__main__" or module.startswith("enginebay_source_"):
        return b""
    try:
        return pickle.dumps(given)
    except Exception:  # noqa: BLE001  # anything may be in a model that cannot be pickled
        return b""


def preview_here(name: str, folder: Path) -> list[Obstacle]:
    """Draft what the parent wrote and ask the engine about it; called in a child process."""
    given: _Given = pickle.loads((folder / _SENT).read_bytes())  # noqa: S301  # our own file
    draft(*given, name, folder)
    return ask_engine(name, folder)


def draft(
    model: Any, args: Any, rewriters: Sequence[RewriterSet | str], name: str, folder: Path
) -> None:
    """Write the IR that a backend prefers, whatever stands in its way, and what it is."""
    source = find_model(model, None, shapes_of(args))
    if source.model is None and source.ir is not None:
        _write(folder, _Drafted(kind=source.ir.kind, ir=source.ir))
        return
    kind = get_backend(name).info.irs[0]
    with unchanged(source):
        bound = bind(source, args)
        patch = export_patch(backend=name, ir=kind, rewriters=rewriters, config=None, opset=None)
        ir: IRModel | None = None
        obstacles: tuple[Obstacle, ...] = ()
        if kind == "onnx":
            drafted = write_draft(
                bound,
                folder / "draft.onnx",
                patch=patch,
                translated=lambda: {_qualified(name) for name in patch.symbolics},
            )
            ir, obstacles = drafted.ir, drafted.obstacles
        else:
            try:
                ir = write_ir(bound, kind, folder / "draft", patch=patch)
            except LackingOperatorsError as err:
                obstacles = tuple(unlowered(err))
    rewritten = patch.report.fired if patch.report else {}
    _write(folder, _Drafted(kind=kind, ir=ir, obstacles=obstacles, rewritten=rewritten))


def ask_engine(name: str, folder: Path) -> list[Obstacle]:
    """Ask a backend what it lacks for the draft; called in a child process.

    Raises:
        EnginebayError: It does not say, or cannot read the draft.
    """
    drafted = _read(folder)
    assert drafted is not None
    if drafted.ir is None:
        return []  # nothing that it could read
    backend = get_backend(name)
    work_dir = folder / "engine"
    work_dir.mkdir()
    request = ConvertRequest(ir=drafted.ir, params=backend.Params(), work_dir=work_dir)
    found = backend.unsupported_operators(request)
    if found is None:
        raise EnginebayError(f"backend '{name}' does not say which operators it lacks")
    return list(explained(drafted.ir, found))


def _write(folder: Path, drafted: _Drafted) -> None:
    (folder / _DRAFTED).write_bytes(msgspec.json.encode(drafted, enc_hook=str))


def _read(folder: Path) -> _Drafted | None:
    """What was drafted; None where that failed."""
    file = folder / _DRAFTED
    if not file.is_file():
        return None
    return msgspec.json.decode(
        file.read_bytes(), type=_Drafted, dec_hook=lambda kind, text: kind(text)
    )


def _qualified(operator: str) -> str:
    return operator if "::" in operator else f"aten::{operator}"
