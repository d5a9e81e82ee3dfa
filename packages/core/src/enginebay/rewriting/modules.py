"""The module rewriters of one ``rewrite`` context: they replace modules until the context ends.

Other threads still call the original modules with the original hooks. But changes that the
constructor of a replacement makes to an original module affect all threads until the context ends.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, cast

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting.active_rewriters import ActiveRewriter
from enginebay.rewriting.dotted_names import NameNotFoundError, find_name
from enginebay.rewriting.selection import select_for_each
from enginebay.rewriting.thread_modules import ThreadDict, claim_children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from torch import nn

    from enginebay.rewriting.rewriter import MakeContext, Rewriter

#: Stands for a missing attribute; None is a possible value.
_MISSING = object()


class ModuleRewriters:
    """The module rewriters of one ``rewrite`` context.

    Args:
        rewriters: The module rewriters whose conditions hold.

    Attributes:
        selection: The selected rewriters, and why the others are not used.
        active: The selected rewriters, which :meth:`enter` uses.

    Raises:
        RewriterError: Two rewriters are equally specific, or a name does not refer to a class.
    """

    def __init__(self, rewriters: Iterable[Rewriter]) -> None:
        not_found = []
        candidates: dict[type, list[Rewriter]] = {}
        for rewriter in rewriters:
            try:
                value = find_name(rewriter.name, rewriter.subject).value
            except NameNotFoundError as err:
                not_found.append(str(err))
                continue
            if not isinstance(value, type):
                raise RewriterError(
                    f'a module rewriter cannot replace "{rewriter.name}": expected a class, found '
                    f"an object of type {type(value).__name__}",
                    hint="use .function for a function or a method",
                )
            candidates.setdefault(value, []).append(rewriter)
        winners, self.selection = select_for_each(candidates, not_found)
        self._by_class = {key: ActiveRewriter(each) for key, each in winners.items()}
        self.active = list(self._by_class.values())

    def enter(
        self,
        undo: ExitStack,
        model: nn.Module,
        make_context: MakeContext,
        options: Mapping[str, object],
    ) -> nn.Module:
        """Replace the modules for which a rewriter is selected.

        Args:
            undo: An exit stack that the caller must close; it restores the model.
            model: The model whose modules are replaced.
            make_context: Takes an original module, and returns the rewriter's ``ctx``.
            options: Keyword arguments for the constructors of replacements. A constructor receives
                those that it has as parameters.

        Returns:
            The model to export: ``model``, or the replacement of ``model``.

        Raises:
            RewriterError: The model is not a module, or another thread is rewriting the model.
        """
        from torch import nn

        if not isinstance(model, nn.Module):
            raise RewriterError(f"the model is a {type(model).__name__}, not a torch.nn.Module")
        walk = _ModuleWalk(self._by_class, undo, make_context, options)
        walk.visit(model)
        return walk.replacements.get(model, model)


class _ModuleWalk:
    """Replaces the modules of a model that have a rewriter, children before their parents."""

    def __init__(
        self,
        by_class: Mapping[type, ActiveRewriter],
        undo: ExitStack,
        make_context: MakeContext,
        options: Mapping[str, object],
    ) -> None:
        self._by_class = by_class
        self._undo = undo
        self._make_context = make_context
        self._options = options
        self._visited: set[nn.Module] = set()
        self.replacements: dict[nn.Module, nn.Module] = {}

    def visit(self, module: nn.Module) -> None:
        from torch.jit import ScriptModule

        # A ScriptModule runs compiled code, which ignores replaced children.
        if module in self._visited or isinstance(module, ScriptModule):
            return
        self._visited.add(module)
        for name, child in list(torch_private.children_of(module).items()):
            if child is not None:
                self.visit(child)
                if child in self.replacements:
                    children = claim_children(module, self._undo)
                    children[name] = self.replacements[child]
                    self._undo.callback(_restore_child, children, name, child, children[name])
        self._replace_module(module)

    def _replace_module(self, module: nn.Module) -> None:
        classes = type(module).__mro__
        rewriter = next((self._by_class[each] for each in classes if each in self._by_class), None)
        if rewriter is None:
            return
        claim_children(module, self._undo)
        # The constructor may change the original (fuse weights, move hooks): its state is recorded
        # before and after, to revert the difference later.
        holders = _state_holders(module)
        before = list(map(_copy_members, holders))
        try:
            rewriter.context = self._make_context(module)
            replacement = _construct_replacement(rewriter, module, self._options)
            _copy_training_flag(replacement, module)
            _move_hooks(replacement, module)
            _share_state(replacement, module)
        finally:
            self._undo.callback(_revert_changes, holders, before, list(map(_copy_members, holders)))
        self.replacements[module] = replacement


def _construct_replacement(
    rewriter: ActiveRewriter, module: nn.Module, options: Mapping[str, object]
) -> nn.Module:
    # Without the first two, ctx and the module.
    parameters = list(inspect.signature(rewriter.replacement).parameters.values())[2:]
    # The options are those of all rewriters: a constructor gets only its own parameters.
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        names = {each.name for each in parameters}
        options = {name: value for name, value in options.items() if name in names}
    return cast("nn.Module", rewriter(module, **options))


def _copy_training_flag(replacement: nn.Module, module: nn.Module) -> None:
    """Copy the original module's training flag to modules that only the replacement has."""
    existing = set(module.modules())
    for each in replacement.modules():
        if each not in existing:
            each.training = module.training


def _move_hooks(replacement: nn.Module, module: nn.Module) -> None:
    """Move the original module's hooks to the replacement, so that each hook runs once per call."""
    for name in torch_private.hook_attributes():
        hooks = getattr(module, name)
        getattr(replacement, name).update(
            {
                # Called with the original: weight_norm's hook, for example, sets its weights. Flags
                # of hooks, as in _forward_hooks_with_kwargs, are bools.
                key: functools.partial(_call_hook, value, module) if callable(value) else value
                for key, value in hooks.items()
            }
        )
        setattr(module, name, ThreadDict(hooks, {}))  # other threads still have the hooks


def _call_hook(
    hook: Callable[..., object], module: nn.Module, _: nn.Module, *args: object
) -> object:
    return hook(module, *args)


def _share_state(replacement: nn.Module, module: nn.Module) -> None:
    """Give parameters and buffers in the replacement the names that they have in ``module``.

    Exporters and ``state_dict`` use these names. With ``self.inner = module`` in the constructor of
    the replacement, the names would start with ``inner.``. The original module therefore becomes a
    plain attribute instead of a child, and its parameters, buffers and children are registered in
    the replacement. If one of these names belongs to another object in the replacement, nothing is
    changed.
    """
    children = torch_private.children_of(replacement)
    names = [name for name, child in children.items() if child is module]
    for name in names:
        del children[name]
    own = _named_state(replacement)
    inherited = _named_state(module)
    if not names or any(own[name] is not inherited[name] for name in own.keys() & inherited):
        children.update(dict.fromkeys(names, module))
        return
    vars(replacement).update(dict.fromkeys(names, module))
    # The same dictionary for both: exporters replace its tensors during a trace.
    torch_private.parameters_of(module).update(torch_private.parameters_of(replacement))
    torch_private.buffers_of(module).update(torch_private.buffers_of(replacement))
    torch_private.share_tensors(replacement, module)
    torch_private.set_children(replacement, {**torch_private.children_of(module), **children})
    # train() visits registered children only, and the original is no longer registered.
    vars(replacement)["train"] = functools.partial(_train_both, replacement, module)


def _named_state(module: nn.Module) -> dict[str, object]:
    return {
        **torch_private.parameters_of(module),
        **torch_private.buffers_of(module),
        **torch_private.children_of(module),
    }


def _train_both(replacement: nn.Module, module: nn.Module, mode: bool = True) -> nn.Module:
    module.train(mode)
    return type(replacement).train(replacement, mode)


def _state_holders(module: nn.Module) -> list[dict[str, object] | set[str]]:
    """Return a module's ``__dict__``, and the dictionaries and sets in it, such as hooks."""
    return [vars(module), *(each for each in vars(module).values() if isinstance(each, dict | set))]


def _copy_members(holder: dict[str, object] | set[str]) -> dict[str, object]:
    return dict(holder) if isinstance(holder, dict) else dict.fromkeys(holder)


def _revert_changes(
    holders: list[dict[str, object] | set[str]],
    before: list[dict[str, object]],
    after: list[dict[str, object]],
) -> None:
    """Undo the changes of a module from the state ``before`` to the state ``after``.

    Entries that the module got or lost only after these changes stay as they are.

    Args:
        holders: The result of :func:`_state_holders`.
        before: For each holder, a copy of its entries before the changes.
        after: For each holder, a copy of its entries after the changes.
    """
    for holder, old, new in zip(holders, before, after, strict=True):
        added = new.keys() - old.keys()
        changed = {
            name: value for name, value in old.items() if new.get(name, _MISSING) is not value
        }
        if isinstance(holder, dict):
            for name in added:
                holder.pop(name, None)
        else:
            holder -= added  # in place: the module refers to this set
        holder.update(changed)


def _restore_child(
    children: dict[str, nn.Module], name: str, child: nn.Module, replacement: nn.Module
) -> None:
    if children.get(name) is replacement:  # the caller may have set another one in the meantime
        children[name] = child
