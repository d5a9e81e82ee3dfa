"""Module rewriters of one context: instances replaced in the model, and put back after it.

Other threads see the model without the replacements meanwhile, its hooks included. What a
rewriter's constructor does to the original itself, every thread sees until the end of the context.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.active_rewriters import ActiveRewriter
from enginebay.rewriting.selection import most_specific
from enginebay.rewriting.thread_modules import ThreadDict, claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack
    from typing import TypeAlias

    from torch import nn

    from enginebay.rewriting.rewriter import Context, Lost, Rewriter

    MakeContext: TypeAlias = Callable[[Callable[..., Any]], Context]

#: The attributes that hold a module's hooks and their flags, in torch 2.13.
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
#: The value of an attribute that is not there; None may be one that is.
_MISSING = object()


class ModuleRewriters:
    """The module rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        not_found: Gets one line for each name that no loaded module has.
        lost: Gets the losers, each with its winner.

    Attributes:
        active: The winners, which :meth:`enter` uses.

    Raises:
        RewriterError: Two are equally specific, or a name is not that of a class.
    """

    def __init__(self, rewriters: Iterable[Rewriter], not_found: list[str], lost: Lost) -> None:
        candidates: dict[type, list[Rewriter]] = {}
        for rewriter in rewriters:
            try:
                value = names.find(rewriter.name).value
            except names.NameNotFoundError as err:
                not_found.append(str(err))
                continue
            if not isinstance(value, type):
                raise RewriterError(
                    f'the module rewriter of "{rewriter.name}" names '
                    f"a {type(value).__name__}, not a class",
                    hint="use .function for a function or a method",
                )
            candidates.setdefault(value, []).append(rewriter)
        winners = most_specific(candidates, lost)
        self._by_class = {key: ActiveRewriter(each) for key, each in winners.items()}
        self.active = list(self._by_class.values())

    def enter(
        self,
        undo: ExitStack,
        model: nn.Module,
        make_context: MakeContext,
        options: Mapping[str, Any],
    ) -> nn.Module:
        """Replace the instances.

        Args:
            undo: Closed by the caller on every path; puts everything back.
            model: The model.
            make_context: Makes a rewriter's context from the original module.
            options: Further arguments of constructors, by name.

        Returns:
            The model to export: the same object, unless it is replaced itself.

        Raises:
            RewriterError: The model is no module, or another thread rewrites it.
        """
        from torch import nn

        if not isinstance(model, nn.Module):
            raise RewriterError(f"the model is a {type(model).__name__}, not a torch.nn.Module")
        walk = _Walk(self._by_class, undo, make_context, options)
        walk.visit(model)
        return walk.replacements.get(model, model)


class _Walk:
    """A walk over a model, from the leaves to the root; a shared module is visited once."""

    def __init__(
        self,
        by_class: Mapping[type, ActiveRewriter],
        undo: ExitStack,
        make_context: MakeContext,
        options: Mapping[str, Any],
    ) -> None:
        self._by_class = by_class
        self._undo = undo
        self._make_context = make_context
        self._options = options
        self._visited: set[nn.Module] = set()
        self.replacements: dict[nn.Module, nn.Module] = {}

    def visit(self, module: nn.Module) -> None:
        from torch.jit import ScriptModule

        # A ScriptModule runs compiled code, which no replacement of a child would change.
        if module in self._visited or isinstance(module, ScriptModule):
            return
        self._visited.add(module)
        for name, child in list(module._modules.items()):
            if child is not None:
                self.visit(child)
                if child in self.replacements:
                    children = claim(module, self._undo)
                    children[name] = self.replacements[child]
                    self._undo.callback(_put_back, children, name, child, children[name])
        self._replace(module)

    def _replace(self, module: nn.Module) -> None:
        classes = type(module).__mro__
        rewriter = next((self._by_class[each] for each in classes if each in self._by_class), None)
        if rewriter is None:
            return
        claim(module, self._undo)
        # A constructor may change the original (fuse weights, move hooks), so we note its state
        # before and after, and later undo the difference.
        holders = _holders(module)
        before = list(map(_members, holders))
        try:
            context = self._make_context(module)
            replacement = _construct(rewriter.rewriter, context, module, self._options)
            _copy_training_flag(replacement, module)
            _move_hooks(replacement, module)
            _share_state(replacement, module)
        finally:
            self._undo.callback(_revert, holders, before, list(map(_members, holders)))
        rewriter.count += 1
        self.replacements[module] = replacement


def _construct(
    rewriter: Rewriter, context: Context, module: nn.Module, options: Mapping[str, Any]
) -> nn.Module:
    parameters = list(inspect.signature(rewriter.replacement).parameters.values())[2:]
    # Options are for all rewriters of an export, so each constructor gets those that it names.
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        wanted = {each.name for each in parameters}
        options = {name: value for name, value in options.items() if name in wanted}
    made: nn.Module = rewriter.replacement(context, module, **options)
    return made


def _copy_training_flag(replacement: nn.Module, module: nn.Module) -> None:
    """Give the modules that the constructor made the original's training flag."""
    known = set(module.modules())
    for each in replacement.modules():
        if each not in known:
            each.training = module.training


def _move_hooks(replacement: nn.Module, module: nn.Module) -> None:
    """Run the original's hooks around the replacement: once, even if it calls the original."""
    for name in _HOOKS:
        hooks = getattr(module, name)
        getattr(replacement, name).update(
            {
                # A hook still gets the original: that of weight_norm computes its weights there.
                key: functools.partial(_call_hook, value, module) if callable(value) else value
                for key, value in hooks.items()
            }
        )
        setattr(module, name, ThreadDict(hooks, {}))  # in other threads it keeps them


def _call_hook(hook: Callable[..., Any], module: nn.Module, _: nn.Module, *args: Any) -> Any:
    return hook(module, *args)


def _share_state(replacement: nn.Module, module: nn.Module) -> None:
    """Keep the names of the original's parameters and buffers for exporters and ``state_dict``.

    A constructor with ``self.inner = module`` would put ``inner.`` before each of them. The
    original is therefore a plain attribute, no child, and its state is registered as the
    replacement's own. Where another object has one of these names, everything stays as the
    constructor left it.
    """
    places = [name for name, child in replacement._modules.items() if child is module]
    for name in places:
        del replacement._modules[name]
    own = _state(replacement)
    inherited = _state(module)
    if not places or any(own[name] is not inherited[name] for name in own.keys() & inherited):
        replacement._modules.update(dict.fromkeys(places, module))
        return
    vars(replacement).update(dict.fromkeys(places, module))
    # One dictionary for both, since exporters put other tensors into it while they trace.
    module._parameters.update(replacement._parameters)
    module._buffers.update(replacement._buffers)
    replacement._parameters = module._parameters
    replacement._buffers = module._buffers
    replacement._modules = {**module._modules, **replacement._modules}
    replacement._non_persistent_buffers_set |= module._non_persistent_buffers_set
    # train() visits registered children only, and the original is none any more.
    vars(replacement)["train"] = functools.partial(_train_both, replacement, module)


def _state(module: nn.Module) -> dict[str, Any]:
    return {**module._parameters, **module._buffers, **module._modules}


def _train_both(replacement: nn.Module, module: nn.Module, mode: bool = True) -> nn.Module:
    module.train(mode)
    return type(replacement).train(replacement, mode)


def _holders(module: nn.Module) -> list[dict[str, Any] | set[str]]:
    """Return a module's attributes, and the dictionaries and sets in them: hooks, buffers."""
    return [vars(module), *(each for each in vars(module).values() if isinstance(each, dict | set))]


def _members(holder: dict[str, Any] | set[str]) -> dict[str, Any]:
    return dict(holder) if isinstance(holder, dict) else dict.fromkeys(holder)


def _revert(
    holders: list[dict[str, Any] | set[str]],
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
) -> None:
    """Undo the changes between two moments, and none that came later."""
    for holder, old, new in zip(holders, before, after, strict=True):
        added = new.keys() - old.keys()
        changed = {
            name: value for name, value in old.items() if new.get(name, _MISSING) is not value
        }
        if isinstance(holder, dict):
            for name in added:
                holder.pop(name, None)
        else:
            holder -= added
        holder.update(changed)


def _put_back(
    children: dict[str, nn.Module], name: str, child: nn.Module, replacement: nn.Module
) -> None:
    if children.get(name) is replacement:  # the block may have put another one there
        children[name] = child
