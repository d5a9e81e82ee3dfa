"""Patches replace functions and methods, but only in threads that have a rewriter for them.

Of a function written in Python, only the code object is replaced. Thereby all aliases change too:
names imported elsewhere, bound methods stored on an instance, closures, defaults. Other objects,
and inherited functions, are replaced as attributes of their module or class. The new code or
attribute calls the rewriter of the calling thread, or the original in a thread without a rewriter.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from contextlib import contextmanager
from types import BuiltinMethodType, ClassMethodDescriptorType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, cast

from enginebay.errors import RewriterError
from enginebay.rewriting.active_rewriters import ActiveRewriter, activate_layer, thread_rewriters
from enginebay.rewriting.dotted_names import find_name
from enginebay.rewriting.rewriter import Rewriter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from contextlib import ExitStack

    from enginebay.rewriting.dotted_names import ResolvedName

#: The code that a rewritten function runs; ``...`` is replaced by its patch. Only a constant of the
#: code can refer to the patch: globals belong to the function's module, and a function without a
#: closure does not accept code with one.
_TEMPLATE: CodeType = (lambda *args, **kwargs: (...).call(*args, **kwargs)).__code__  # type: ignore[attr-defined]  # it is not the `...` that is called

#: The patches of all threads. Threads that rewrite the same function share its patch, which the
#: last context uninstalls.
_patches: dict[Hashable, Patch] = {}
#: Held while patches are created, installed or uninstalled. Also between the lookup of an attribute
#: and the creation of its patch: its value may be another thread's replacement, which would then be
#: taken for the original. Reentrant, since get_patch, which is called in between, holds it too.
patch_lock = threading.RLock()


class Patch:
    """Base class. A patch replaces one function for the ``rewrite`` contexts of all threads.

    Attributes:
        key: The function's key in :attr:`ThreadRewriters.table`.
        original: The original function; callable while the patch is installed.
        users: One object for each ``rewrite`` context that uses the patch.
    """

    original: Callable[..., object]

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.users: set[object] = set()

    def original_for(self, rewriter: ActiveRewriter) -> Callable[..., object]:
        """Return ``ctx.origin_func``: it calls the next outer rewriter, or the original."""

        def origin_func(*args: object, **kwargs: object) -> object:
            return (rewriter.outer or self.original)(*args, **kwargs)

        return origin_func

    def call(self, /, *args: object, **kwargs: object) -> object:
        """Call this thread's rewriter of the function, or the original if the thread has none."""
        return (thread_rewriters().table.get(self.key) or self.original)(*args, **kwargs)

    def install(self) -> None:
        """Replace the function in the process."""
        raise NotImplementedError

    def uninstall(self) -> None:
        """Restore exactly the state before ``install``, even if ``install`` was interrupted."""
        raise NotImplementedError


class CodePatch(Patch):
    """Replaces the code object of a Python function."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(_patch_key(function, "__code__"))
        self.function = function

    def install(self) -> None:
        """Replace the function's code."""
        function = self.function
        self._attributes = dict(function.__dict__)
        self.original = _copy_function(function)
        # inspect.signature follows __wrapped__: exporters name inputs by the parameters.
        function.__dict__["__wrapped__"] = self.original
        function.__code__ = _TEMPLATE.replace(
            co_consts=tuple(self if each is ... else each for each in _TEMPLATE.co_consts),
            # Python accepts only code with as many free variables as the function's closure.
            co_freevars=function.__code__.co_freevars,
            co_name=function.__code__.co_name,  # tracebacks and profilers show it
        )

    def uninstall(self) -> None:
        """Restore the function's code."""
        if not hasattr(self, "original"):  # install was interrupted before any change
            return
        function = self.function
        function.__code__ = self.original.__code__
        function.__dict__.pop("__wrapped__", None)
        if "__wrapped__" in self._attributes:
            function.__dict__["__wrapped__"] = self._attributes["__wrapped__"]


class AttributePatch(Patch):
    """Replaces an attribute of a module, class or object."""

    def __init__(self, resolved: ResolvedName) -> None:
        super().__init__(_patch_key(resolved.owner, resolved.attribute))
        self.resolved = resolved
        self._replacement: object = None
        self.locations: list[tuple[object, str]] = [(resolved.owner, resolved.attribute)]
        #: Modules that hold a class method written in C as a function: name = Class.method.
        self.bound_methods: list[tuple[ModuleType, str, BuiltinMethodType]] = []
        self.original = _find_original(resolved)

    @property
    def importable(self) -> bool:
        """True if other modules may have imported the attribute's value by name."""
        return isinstance(self.resolved.owner, ModuleType)

    def install(self) -> None:
        """Replace the attribute, and names in other modules that refer to the same object."""
        self._replacement = _wrap_in_descriptor_like(self.resolved.value, self._make_wrapper())
        for owner, attribute in self.locations:
            try:
                setattr(owner, attribute, self._replacement)
            except (AttributeError, TypeError) as err:  # the owner is a type written in C
                raise RewriterError(f'"{attribute}" cannot be rewritten: {err}') from err
        for module, name, method in self.bound_methods:
            setattr(module, name, getattr(method.__self__, self.resolved.attribute))

    def uninstall(self) -> None:
        """Restore what :meth:`install` replaced, unless other code has replaced it meanwhile."""
        for module, name, method in self.bound_methods:
            if vars(module).get(name) == getattr(method.__self__, self.resolved.attribute):
                setattr(module, name, method)
        for owner, attribute in self.locations:
            # Other code may have replaced it in the meantime, such as a test's monkeypatch.
            if getattr(owner, "__dict__", {}).get(attribute) is not self._replacement:
                continue
            if self.resolved.inherited:  # it was not in the owner itself
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, self.resolved.value)

    def _make_wrapper(self) -> Callable[..., object]:
        @functools.wraps(self.original)
        def call_patch(*args: object, **kwargs: object) -> object:
            return self.call(*args, **kwargs)

        return call_patch


def get_patch(resolved: ResolvedName, code_patch: type[CodePatch] = CodePatch) -> Patch:
    """Return the existing patch of an attribute, or a new patch that is not yet installed.

    Args:
        resolved: The attribute to patch.
        code_patch: The class of the patch for a function written in Python.
    """
    with patch_lock:
        # By its owner first: while a patch is installed, the attribute holds the replacement.
        patch = _patches.get(_patch_key(resolved.owner, resolved.attribute))
        if patch is not None:
            return patch
        function = None if resolved.inherited else _unwrap_function(resolved.value)
        if function is None:
            return AttributePatch(resolved)
        # A function with several names has only one patch.
        return _patches.get(_patch_key(function, "__code__")) or code_patch(function)


@contextmanager
def install_patches(patches: Iterable[Patch]) -> Iterator[list[Patch]]:
    """Install patches inside the ``with`` statement; contexts and threads may share them.

    Yields:
        The installed patches, in the order of ``patches``. If another context has already
        installed a patch of a function, the list has the other context's patch instead.
    """
    user = object()
    shared: list[Patch] = []
    try:
        with patch_lock:
            shared = [_patches.setdefault(patch.key, patch) for patch in patches]
            new = [patch for patch in shared if not patch.users]
            for patch in shared:  # first: if an install fails, all patches are released below
                patch.users.add(user)
            _find_aliases([each for each in new if isinstance(each, AttributePatch)])
            for patch in new:
                patch.install()
        yield shared
    finally:
        with patch_lock:
            for patch in reversed(shared):
                patch.users.discard(user)
                if not patch.users:
                    patch.uninstall()
                    _patches.pop(patch.key, None)


def replace_functions(undo: ExitStack, replacements: Mapping[str, Callable[..., object]]) -> None:
    """Replace functions of torch in this thread, for core's own use; no report lists them.

    Args:
        undo: An exit stack that the caller must close; it restores the functions.
        replacements: Dotted name → replacement, whose first argument is the original function.
    """
    with patch_lock:
        requested = {get_patch(find_name(name)): name for name in replacements}
    patches = undo.enter_context(install_patches(requested))
    layer = {}
    for patch, name in zip(patches, requested.values(), strict=True):
        rewriter = layer[patch.key] = ActiveRewriter(Rewriter("function", name, replacements[name]))
        rewriter.context = patch.original_for(rewriter)
    activate_layer(undo, layer)


def _unwrap_function(value: object) -> FunctionType | None:
    """Return a Python function, or the one in a descriptor such as ``staticmethod``; else None."""
    # Not of a cached property: the instance would store the rewriter's result beyond the context,
    # and an already stored result would hide the rewriter.
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if type(value) is FunctionType else None


def _copy_function(function: FunctionType) -> FunctionType:
    """Return a copy of a function that stays the same when the original's code is replaced."""
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


def _patch_key(owner: object, attribute: str) -> Hashable:
    # By identity, since an owner may not be hashable. The id is not reused: the patch has a
    # reference to the owner.
    return (id(owner), attribute)


def _find_original(resolved: ResolvedName) -> Callable[..., object]:
    """Return the function that an attribute holds; methods of a class take ``self`` or ``cls``."""
    owner, attribute, value = resolved.owner, resolved.attribute, resolved.value
    if not isinstance(owner, type):
        return cast("Callable[..., object]", value)
    if isinstance(value, functools.cached_property) and not resolved.inherited:
        return functools.wraps(value.func)(lambda self: value.__get__(self, type(self)))
    if not resolved.inherited:
        return cast("Callable[..., object]", getattr(value, "__func__", value))

    # Looked up by super at each call, so that a rewriter of the base class is called too.
    def call_inherited(*args: object, **kwargs: object) -> object:
        if isinstance(value, staticmethod):
            return getattr(super(owner, owner), attribute)(*args, **kwargs)
        if _is_property(value):
            return getattr(super(owner, args[0]), attribute)
        return getattr(super(owner, args[0]), attribute)(*args[1:], **kwargs)

    call_inherited.__name__ = attribute
    return functools.update_wrapper(call_inherited, _unwrap_function(value) or value)


def _is_property(value: object) -> bool:
    return isinstance(value, (property, functools.cached_property)) or inspect.isgetsetdescriptor(
        value
    )


def _wrap_in_descriptor_like(value: object, function: Callable[..., object]) -> object:
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(function)
    if isinstance(value, ClassMethodDescriptorType):  # a class method that is written in C
        return classmethod(function)
    if isinstance(value, property):
        return property(function, value.fset, value.fdel, value.__doc__)
    return property(function) if _is_property(value) else function


def _find_aliases(patches: list[AttributePatch]) -> None:
    """Find the names by which loaded modules refer to the objects that are to be replaced.

    The names are stored in the ``locations`` of the object's patch; names of a class method that
    is written in C are stored in its ``bound_methods``.
    """
    by_id = {id(each.resolved.value): each for each in patches if each.importable}
    for patch in by_id.values():
        patch.locations = []
    # A few thousand modules hold about 80,000 values. The first check of a module runs no Python
    # code, and therefore no other thread that changes the module. The second is in a copy.
    has_none_of = set(by_id).isdisjoint
    for module in list(sys.modules.values()) if by_id else ():
        if isinstance(module, ModuleType) and not has_none_of(map(id, vars(module).values())):
            for name, value in list(vars(module).items()):
                if id(value) in by_id:
                    by_id[id(value)].locations.append((module, name))
    for patch in patches:
        if isinstance(patch.resolved.value, ClassMethodDescriptorType):
            patch.bound_methods = list(_find_bound_methods(patch.resolved))


def _find_bound_methods(
    resolved: ResolvedName,
) -> Iterator[tuple[ModuleType, str, BuiltinMethodType]]:
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            klass = value.__self__ if type(value) is BuiltinMethodType else None
            is_class = isinstance(klass, type) and issubclass(klass, resolved.owner)
            if is_class and value == resolved.value.__get__(None, klass):
                yield module, name, value
