"""Patches: replacement of functions and methods in place, for one thread.

A function written in Python keeps its identity and gets other code, so that every alias of it is
caught: names imported elsewhere, bound methods stored on an instance, closures, defaults. Any other
attribute, or an inherited one, is replaced as an attribute. The new code calls the rewriter of the
calling thread, and runs the original in every other thread.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from contextlib import contextmanager
from types import (
    BuiltinMethodType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, cast

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.active_rewriters import ActiveRewriter, activate, thread_rewriters
from enginebay.rewriting.rewriter import Rewriter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from contextlib import ExitStack

    from enginebay.rewriting.names import Found

#: The code that a rewritten function runs; its patch takes the place of the ``...``. Only as a
#: constant can code carry an object: globals are the function's module's, and a function that has
#: no closure accepts no code with one.
_TEMPLATE: CodeType = (lambda *args, **kwargs: (...).call(*args, **kwargs)).__code__  # type: ignore[attr-defined]  # it is not the `...` that is called

#: The patches of all threads. Two threads that rewrite one function share its patch, and the last
#: one to leave takes it away.
_patches: dict[Hashable, Patch] = {}
#: Held while a patch is made, installed or uninstalled, and from the look at an attribute to the
#: patch for it: what was found there may be the replacement of another thread, soon to be gone.
lock = threading.RLock()


class Patch:
    """One function that at least one context of the process rewrites.

    Attributes:
        key: The function's key in :attr:`ThreadRewriters.table`.
        original: The function as it was; callable while the patch is installed.
        users: The contexts that need it.
    """

    original: Callable[..., Any]

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.users: set[object] = set()

    def original_for(self, rewriter: ActiveRewriter) -> Callable[..., Any]:
        """Return a rewriter's ``origin_func``: the outer context's rewriter, or the original."""

        def origin_func(*args: Any, **kwargs: Any) -> Any:
            return (rewriter.outer or self.original)(*args, **kwargs)

        return origin_func

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the rewriter of this thread, or the original where the thread has none."""
        return (thread_rewriters().table.get(self.key) or self.original)(*args, **kwargs)

    def install(self) -> None:
        """Change the process."""
        raise NotImplementedError

    def uninstall(self) -> None:
        """Put back exactly what was there, even if ``install`` was interrupted."""
        raise NotImplementedError


class CodePatch(Patch):
    """A Python function that keeps its identity and runs other code."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(_key(function, "__code__"))
        self.function = function

    def install(self) -> None:
        """Replace the function's code."""
        function = self.function
        self._attributes = dict(function.__dict__)
        self.original = _copy(function)
        # inspect.signature must still see the parameters: exporters name inputs after them.
        function.__dict__["__wrapped__"] = self.original
        function.__code__ = _TEMPLATE.replace(
            co_consts=tuple(self if each is ... else each for each in _TEMPLATE.co_consts),
            co_freevars=function.__code__.co_freevars,
            co_name=function.__code__.co_name,  # tracebacks and profilers show it
        )

    def uninstall(self) -> None:
        """Give the function its code back."""
        if not hasattr(self, "original"):  # install never got there
            return
        function = self.function
        function.__code__ = self.original.__code__
        function.__dict__.pop("__wrapped__", None)
        if "__wrapped__" in self._attributes:
            function.__dict__["__wrapped__"] = self._attributes["__wrapped__"]


class AttributePatch(Patch):
    """An attribute of a module, class or object that holds something else for a while."""

    def __init__(self, found: Found) -> None:
        super().__init__(_key(found.owner, found.attribute))
        self.found = found
        self._replacement: Any = None
        self.places: list[tuple[Any, str]] = [(found.owner, found.attribute)]
        #: A class method that is written in C, as modules hold it: name = Class.method.
        self.bound: list[tuple[ModuleType, str, Any]] = []
        self.original = _original(found)

    @property
    def importable(self) -> bool:
        """True if other modules may have imported the value by name."""
        return isinstance(self.found.owner, ModuleType)

    def install(self) -> None:
        """Replace the attribute in every place that holds it."""
        self._replacement = _as_kind_of(self.found.value, self._function())
        for owner, attribute in self.places:
            try:
                setattr(owner, attribute, self._replacement)
            except (AttributeError, TypeError) as err:  # of a type that is not written in Python
                raise RewriterError(f'"{attribute}" cannot be rewritten: {err}') from err
        for module, name, method in self.bound:
            setattr(module, name, getattr(method.__self__, self.found.attribute))

    def uninstall(self) -> None:
        """Put the attribute back in every place that still holds the replacement."""
        for module, name, method in self.bound:
            if vars(module).get(name) == getattr(method.__self__, self.found.attribute):
                setattr(module, name, method)
        for owner, attribute in self.places:
            # Somebody else may have replaced it meanwhile, as monkeypatch in a test does.
            if getattr(owner, "__dict__", {}).get(attribute) is not self._replacement:
                continue
            if self.found.inherited:  # the owner had none of its own
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, self.found.value)

    def _function(self) -> Callable[..., Any]:
        @functools.wraps(self.original)
        def rewritten(*args: Any, **kwargs: Any) -> Any:
            return self.call(*args, **kwargs)

        return rewritten


def patch_for(found: Found, code_patch: type[CodePatch] = CodePatch) -> Patch:
    """Return the patch that rewrites an attribute; nothing is changed yet.

    Args:
        found: The attribute that a rewriter names.
        code_patch: The class to use for a function written in Python.
    """
    with lock:
        # While it is installed, the attribute holds the replacement and not what we look for.
        patch = _patches.get(_key(found.owner, found.attribute))
        if patch is not None:
            return patch
        function = None if found.inherited else _python_function(found.value)
        if function is None:
            return AttributePatch(found)
        # Two names may lead to one function, which has one patch.
        return _patches.get(_key(function, "__code__")) or code_patch(function)


@contextmanager
def installed(patches: Iterable[Patch]) -> Iterator[list[Patch]]:
    """Keep patches installed; several contexts and threads may request the same ones.

    Yields:
        The installed patches, one for each requested one: another context's where it has one for
        the same function already.
    """
    user = object()
    shared: list[Patch] = []
    try:
        with lock:
            shared = [_patches.setdefault(patch.key, patch) for patch in patches]
            new = [patch for patch in shared if not patch.users]
            for patch in shared:  # before any is installed: one that fails is uninstalled below
                patch.users.add(user)
            _find_aliases([each for each in new if isinstance(each, AttributePatch)])
            for patch in new:
                patch.install()
        yield shared
    finally:
        with lock:
            for patch in reversed(shared):
                patch.users.discard(user)
                if not patch.users:
                    patch.uninstall()
                    _patches.pop(patch.key, None)


def replace_functions(undo: ExitStack, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Replace functions of torch for core's own ends; no report counts them.

    Args:
        undo: Closed by the caller on every path; puts the functions back.
        replacements: By dotted name; each is called with the original first.
    """
    with lock:
        requested = {patch_for(names.find(name)): name for name in replacements}
    patches = undo.enter_context(installed(requested))
    layer = {}
    for patch, name in zip(patches, requested.values(), strict=True):
        rewriter = layer[patch.key] = ActiveRewriter(Rewriter("function", name, replacements[name]))
        rewriter.context = patch.original_for(rewriter)
    activate(undo, layer)


def _python_function(value: Any) -> FunctionType | None:
    """Return the Python function in a function, a static or class method, or a property.

    Not the one in a cached property: its result would stay on the instance for good, and an
    earlier result would hide the rewriter.
    """
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if type(value) is FunctionType else None


def _copy(function: FunctionType) -> FunctionType:
    """Return another function that does what ``function`` does now."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    copy.__doc__ = function.__doc__
    copy.__annotations__ = function.__annotations__
    copy.__dict__.update(function.__dict__)
    return copy


def _key(owner: object, attribute: str) -> Hashable:
    """Key an owner by identity: not every one can be hashed, and its patch keeps it alive."""
    return (id(owner), attribute)


def _original(found: Found) -> Callable[..., Any]:
    """Return the function behind an attribute, to be called with ``self`` or ``cls`` first."""
    owner, attribute, value = found.owner, found.attribute, found.value
    if not isinstance(owner, type):
        return cast("Callable[..., Any]", value)
    if isinstance(value, functools.cached_property) and not found.inherited:
        return functools.wraps(value.func)(lambda self: value.__get__(self, type(self)))
    if not found.inherited:
        return cast("Callable[..., Any]", getattr(value, "__func__", value))

    # Through super at each call, so that a rewriter for the base class is called as well.
    def inherited(*args: Any, **kwargs: Any) -> Any:
        if isinstance(value, staticmethod):
            return getattr(super(owner, owner), attribute)(*args, **kwargs)
        if _is_property(value):
            return getattr(super(owner, args[0]), attribute)
        return getattr(super(owner, args[0]), attribute)(*args[1:], **kwargs)

    inherited.__name__ = attribute
    return functools.update_wrapper(inherited, _python_function(value) or value)


def _is_property(value: Any) -> bool:
    return isinstance(value, (property, functools.cached_property)) or inspect.isgetsetdescriptor(
        value
    )


def _as_kind_of(value: Any, function: Callable[..., Any]) -> Any:
    """Wrap ``function`` as the kind of attribute that ``value`` is."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(function)
    if isinstance(value, ClassMethodDescriptorType):  # a class method that is written in C
        return classmethod(function)
    if isinstance(value, property):
        return property(function, value.fset, value.fdel, value.__doc__)
    return property(function) if _is_property(value) else function


def _find_aliases(patches: list[AttributePatch]) -> None:
    """Collect every place in a loaded module that holds a value to be replaced, in one pass."""
    wanted = {id(each.found.value): each for each in patches if each.importable}
    for patch in wanted.values():
        patch.places = []
    # A few thousand modules hold some 80,000 values. To look first, without a step of Python for
    # each value, if a module holds any of them takes half the time.
    for module in list(sys.modules.values()) if wanted else ():
        if isinstance(module, ModuleType) and not wanted.keys().isdisjoint(
            map(id, list(vars(module).values()))
        ):
            for name, held in list(vars(module).items()):
                if id(held) in wanted:
                    wanted[id(held)].places.append((module, name))
    for patch in patches:
        if isinstance(patch.found.value, ClassMethodDescriptorType):
            patch.bound = list(_bound(patch.found))


def _bound(found: Found) -> Iterator[tuple[ModuleType, str, Any]]:
    """Find the modules that hold a class method, or that of a subclass, as a function."""
    for module in list(sys.modules.values()):
        for name, held in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            klass = held.__self__ if type(held) is BuiltinMethodType else None
            is_class = isinstance(klass, type) and issubclass(klass, found.owner)
            if is_class and held == found.value.__get__(None, klass):
                yield module, name, held
