"""The class that every backend's parameters derive from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from enginebay.params.declared import Declared
from enginebay.params.file_names import FileName
from enginebay.params.shapes import ShapeProfile, Shapes, resolve_profiles


class ConfigKey(msgspec.Struct, frozen=True):
    """A key of ``backend_config`` in addition to the fields, for configs written for other tools.

    Attributes:
        type: The type of its value, as in an annotation.
        fields: Its meaning: a callable that takes the value and returns fields of the params. It
            raises :class:`~enginebay.errors.ParamsError` for a value that is not supported.
        no_effect: The reason why it does nothing here, for a note to the user.

    Example:
        >>> use_vulkan = ConfigKey(bool, lambda on: {"device": "vulkan"} if on else {})
        >>> use_vulkan.fields(True)
        {'device': 'vulkan'}
    """

    type: Any
    fields: Callable[[Any], Mapping[str, Any]] = lambda _value: {}
    no_effect: str = ""


class BackendParams(Declared):
    """The parameters with which a backend converts or runs a model.

    A subclass adds fields with defaults and documents them. Values are checked when an instance is
    made: a list is accepted for a tuple, a path for a text, a text like ``x:1x3`` for shapes, and
    None for "not given". Nothing else is converted.

    The fields in the ``Args:`` or ``Attributes:`` section of a class become flags, in that order,
    and no others: a subclass with such a section decides anew which of the fields it inherits are
    flags; one without it has the flags of its base.

    Attributes:
        work_dir: Folder of the artifact's files.
        file_name: Name of the artifact's main file.
        device: Device to run on: cpu, cuda, cuda:1, gpu, as the backend calls it.
        input_shapes: Shapes of the inputs, like input:1x3x224x224,mask:1x77.
        min_shapes: Smallest shapes, with ? where they equal input_shapes.
        max_shapes: Largest shapes, with ? where they equal input_shapes.

    Raises:
        ParamsError: A field is unknown, or a value does not fit.

    Example:
        >>> params = BackendParams(device="cuda:1", input_shapes="x:1x3")
        >>> params.input_shapes
        {'x': (1, 3)}
    """

    work_dir: str | None = None
    file_name: FileName = FileName("model")
    device: str = "cpu"
    input_shapes: Shapes = {}
    min_shapes: Shapes = {}
    max_shapes: Shapes = {}

    def __post_init__(self) -> None:
        """Check that the three kinds of shapes fit each other."""
        if self.input_shapes:
            self.shape_profiles()

    @classmethod
    def config_keys(cls) -> Mapping[str, ConfigKey]:
        """Return more keys for ``backend_config`` than the fields; none by default.

        A backend overrides it so that configs for another tool kit work. A nested key is written
        with a dot. Where a field and such a key are both given, the field wins; where two such
        keys set one field, the key that is declared later wins::

            @classmethod
            def config_keys(cls):
                return {"common_config.fp16_mode": eb.ConfigKey(bool, lambda on: …)}
        """
        return {}

    @property
    def allowed_precision(self) -> str:
        """The coarsest precision that these parameters allow an engine to compute in.

        The verdict's tolerances follow it, and an engine whose receipt claims a coarser one is a
        mismatch. Override it where another field than ``precision`` allows one; empty for the
        backend's default.
        """
        return getattr(self, "precision", "")

    def get_model_files(self) -> tuple[str, ...]:
        """Return the files of the artifact, inside ``work_dir`` where there is one.

        A backend that writes several files overrides it::

            def get_model_files(self):
                return self.in_work_dir(self.file_name, self.file_name.sibling(".bin"))
        """
        return self.in_work_dir(self.file_name)

    def in_work_dir(self, *names: str) -> tuple[str, ...]:
        """Return paths in ``work_dir``; the names themselves if it is not set."""
        return tuple(str(PurePath(self.work_dir or "", name)) for name in names)

    def shape_profiles(self, usual: Shapes | None = None) -> dict[str, ShapeProfile]:
        """Return the smallest, usual and largest shapes of every input that has some.

        Args:
            usual: The shapes of example inputs, for where ``input_shapes`` are left out.

        Raises:
            ParamsError: The three kinds of shapes do not fit each other.
        """
        return resolve_profiles(self.input_shapes or usual or {}, self.min_shapes, self.max_shapes)
