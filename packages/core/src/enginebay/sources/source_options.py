"""Options of a model source: ``codebase_config``, and the requested image size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, overload

import msgspec

from enginebay.errors import ModelSourceError, did_you_mean
from enginebay.sources.weights import RANDOM_WEIGHTS

if TYPE_CHECKING:
    from enginebay.hooks import ModelRequest


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of ``codebase_config`` that Enginebay's own model sources support.

    Attributes:
        type: The scheme of the model source.
        task: The task of the model.
        arguments: Keyword arguments of the model, or of its config.
        pretrained: Use the codebase's pretrained weights, which it may download.
        checkpoint: A local file of weights: a saved ``state_dict``, or safetensors.
    """

    type: str | None = None
    task: str | None = None
    arguments: dict[str, Any] = {}
    pretrained: bool = False
    checkpoint: str | None = None

    @property
    def weights(self) -> str:
        """The origin of the weights: the fourth item of the tuple that a model source returns."""
        return self.checkpoint or ("pretrained" if self.pretrained else RANDOM_WEIGHTS)


_Kind = TypeVar("_Kind", bound=Options)


@overload
def read_options(request: ModelRequest) -> Options: ...
@overload
def read_options(request: ModelRequest, kind: type[_Kind]) -> _Kind: ...
def read_options(request: ModelRequest, kind: type[Options] = Options) -> Options:
    """Return the options in the ``codebase_config`` of a request for a model.

    Args:
        request: The request.
        kind: :class:`Options`, or a subclass with the codebase's own keys. A ``Literal`` lists the
            values that a key may have: ``task: Literal["Segmentation"] | None = None``.

    Raises:
        ModelSourceError: A key is unknown, a value is wrong, or both pretrained and checkpoint are
            set.

    Example:
        >>> from enginebay.hooks import ModelRequest
        >>> section = {"type": "timm", "arguments": {"num_classes": 10}}
        >>> read_options(ModelRequest(name="resnet18", codebase_config=section)).arguments
        {'num_classes': 10}
    """
    section = dict(request.codebase_config)
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in section.items():
        if key not in types:
            raise ModelSourceError(
                f"codebase_config: unknown key '{key}'; available: {', '.join(types)}",
                hint=did_you_mean(key, types),
            )
        parts = (types[key], *get_args(types[key]))
        listed = [text for part in parts if get_origin(part) is Literal for text in get_args(part)]
        if listed and value is not None and value not in listed:
            raise ModelSourceError(
                f"codebase_config.{key}: '{value}' is not a {key} of "
                f"{section.get('type', 'this codebase')}; available: {', '.join(listed)}",
                hint=did_you_mean(str(value), listed)
                or f"set {key}='{listed[0]}', or remove {key}",
            )
    try:
        options = msgspec.convert(section, kind)
    except msgspec.ValidationError as err:
        raise ModelSourceError(f"codebase_config: {err}") from err
    if options.pretrained and options.checkpoint:
        raise ModelSourceError(
            "codebase_config: 'pretrained' and 'checkpoint' cannot be combined",
            hint="leave one of them out",
        )
    return options


def image_size(request: ModelRequest) -> tuple[int, int, int] | None:
    """Return channels, height and width if exactly one shape of rank 4 is requested, else None.

    Example:
        >>> from enginebay.hooks import ModelRequest
        >>> image_size(ModelRequest(name="vit", input_shapes={"image": (1, 3, 96, 64)}))
        (3, 96, 64)
    """
    shapes = list(request.input_shapes.values())
    if len(shapes) != 1 or len(shapes[0]) != 4 or None in shapes[0]:
        return None
    _, channels, height, width = shapes[0]
    return channels, height, width  # type: ignore[return-value]  # none of them is None
