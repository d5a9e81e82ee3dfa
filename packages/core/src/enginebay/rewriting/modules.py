"""Module rewriters: instances exchanged inside a context, and put back after it."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.layers import Bound
from enginebay.rewriting.selection import most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from torch import nn

    from enginebay.rewriting.declaration import Rewriter

#: What a module keeps its hooks in, with the flags that go with each.
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
_GONE = object()


class ModuleRewriters:
    """The module rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        not_found: Takes one line for each name that no loaded module has.

    Attributes:
        bound: One entry a rewriter that is in force.

    Raises:
        RewriterError: Two are equally specific, or a name is not that of a class.
    """

    def __init__(self, rewriters: Iterable[Rewriter], not_found: list[str]) -> None:
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
        self._by_class = {key: Bound(each) for key, each in most_specific(candidates).items()}
        self.bound = list(self._by_class.values())

    def enter(
        self,
        undo: ExitStack,
        model: nn.Module,
        context: Callable[[Callable[..., Any]], Any],
        options: Mapping[str, Any],
    ) -> nn.Module:
        """Exchange the instances; the answer is the model to export.

        Args:
            undo: Left by the caller on every path; puts everything back.
            model: The model. The same object is answered unless it is exchanged itself.
            context: Makes a rewriter's context from its original function.
            options: What constructors may ask for by name.

        Raises:
            RewriterError: The model is no module.
        """
        from torch import nn

        if not isinstance(model, nn.Module):
            raise RewriterError(f"the model is a {type(model).__name__}, not a torch.nn.Module")
        exchange = _Exchange(self._by_class, undo, context, options)
        exchange.visit(model)
        return exchange.replacements.get(model, model)


class _Exchange:
    """One walk over a model, from the leaves to the root; a shared module is visited once."""

    def __init__(
        self,
        by_class: Mapping[type, Bound],
        undo: ExitStack,
        context: Callable[[Callable[..., Any]], Any],
        options: Mapping[str, Any],
    ) -> None:
        self._by_class = by_class
        self._undo = undo
        self._context = context
        self._options = options
        self._visited: set[nn.Module] = set()
        self.replacements: dict[nn.Module, nn.Module] = {}

    def visit(self, module: nn.Module) -> None:
        from torch.jit import ScriptModule

        if module in self._visited or isinstance(module, ScriptModule):
            return
        self._visited.add(module)
        for name, child in list(module._modules.items()):
            if child is not None:
                self.visit(child)
                if child in self.replacements:
                    self._undo.callback(_put_back, module, name, child, self.replacements[child])
                    module._modules[name] = self.replacements[child]
        self._replace(module)

    def _replace(self, module: nn.Module) -> None:
        classes = type(module).__mro__
        bound = next((self._by_class[each] for each in classes if each in self._by_class), None)
        if bound is None:
            return
        holders = _holders(module)
        before = list(map(_members, holders))
        try:
            replacement = _construct(bound.rewriter, self._context(module), module, self._options)
            _follow_mode(replacement, module)
            _take_over_hooks(replacement, module)
            _take_over_state(replacement, module)
        finally:
            self._undo.callback(_revert, holders, before, list(map(_members, holders)))
        bound.count += 1
        self.replacements[module] = replacement


def _construct(
    rewriter: Rewriter, context: Any, module: nn.Module, options: Mapping[str, Any]
) -> nn.Module:
    parameters = list(inspect.signature(rewriter.replacement).parameters.values())[2:]
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        wanted = {each.name for each in parameters}
        options = {name: value for name, value in options.items() if name in wanted}
    made: nn.Module = rewriter.replacement(context, module, **options)
    return made


def _follow_mode(replacement: nn.Module, module: nn.Module) -> None:
    """Give what the constructor made the original's training flag, and leave the rest alone."""
    known = set(module.modules())
    for each in replacement.modules():
        if each not in known:
            each.training = module.training


def _take_over_hooks(replacement: nn.Module, module: nn.Module) -> None:
    """Run the original's hooks around the replacement: once, whether or not it calls the original.

    They still get the original module: a hook of weight_norm computes its weights there.
    """
    for name in _HOOKS:
        hooks = getattr(module, name)
        getattr(replacement, name).update(
            {
                key: functools.partial(_call_hook, value, module) if callable(value) else value
                for key, value in hooks.items()
            }
        )
        setattr(module, name, type(hooks)())


def _call_hook(hook: Callable[..., Any], module: nn.Module, _: nn.Module, *args: Any) -> Any:
    return hook(module, *args)


def _take_over_state(replacement: nn.Module, module: nn.Module) -> None:
    """Keep the names of the original's parameters and buffers for exporters and ``state_dict``.

    A constructor that says ``self.inner = module`` would put ``inner.`` into each of them. The
    original is therefore kept beside the registered children, and its state is registered as the
    replacement's own. Both share the dictionaries of parameters and buffers, since exporters put
    other tensors into them while they trace. Where a name is taken by something else, everything
    stays as the constructor left it.
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
    module._parameters.update(replacement._parameters)
    module._buffers.update(replacement._buffers)
    replacement._parameters = module._parameters
    replacement._buffers = module._buffers
    replacement._modules = {**module._modules, **replacement._modules}
    replacement._non_persistent_buffers_set |= module._non_persistent_buffers_set
    vars(replacement)["train"] = functools.partial(_train_both, replacement, module)


def _state(module: nn.Module) -> dict[str, Any]:
    return {**module._parameters, **module._buffers, **module._modules}


def _train_both(replacement: nn.Module, module: nn.Module, mode: bool = True) -> nn.Module:
    module.train(mode)
    return type(replacement).train(replacement, mode)


def _holders(module: nn.Module) -> list[dict[str, Any] | set[str]]:
    """A module's attributes, and the dictionaries and sets among them: children, buffers, hooks."""
    return [vars(module), *(each for each in vars(module).values() if isinstance(each, dict | set))]


def _members(holder: dict[str, Any] | set[str]) -> dict[str, Any]:
    return dict(holder) if isinstance(holder, dict) else dict.fromkeys(holder)


def _revert(
    holders: list[dict[str, Any] | set[str]],
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
) -> None:
    """Undo what changed between two moments, and nothing that changed later."""
    for holder, old, new in zip(holders, before, after, strict=True):
        added = new.keys() - old.keys()
        changed = {name: value for name, value in old.items() if new.get(name, _GONE) is not value}
        if isinstance(holder, dict):
            for name in added:
                holder.pop(name, None)
        else:
            holder -= added
        holder.update(changed)


def _put_back(parent: nn.Module, name: str, child: nn.Module, replacement: nn.Module) -> None:
    if parent._modules.get(name) is replacement:
        parent._modules[name] = child
