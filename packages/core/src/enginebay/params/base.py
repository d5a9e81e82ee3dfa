"""The class that every backend's parameters derive from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, ClassVar

import msgspec

from enginebay.params.declared import Declared
from enginebay.params.file_names import FileName
from enginebay.params.shapes import ShapeProfile, Shapes, resolve_profiles


class ConfigKey(msgspec.Struct, frozen=True):
    """A key of ``backend_config`` in addition to the fields, for configs written for other tools.

    Attributes:
        type: The type of the key's value, as in an annotation.
        fields: A function that converts the key's value to values by field name. For an unsupported
            value, the function raises :class:`~enginebay.errors.ParamsError`.
        no_effect: The reason why the key has no effect, for a note to the user.

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
    created: a list is accepted for a tuple, a path for a text, a text like ``x:1x3`` for shapes,
    and None for the default. Nothing else is converted.

    The fields in the ``Args:`` or ``Attributes:`` section of a class become flags, in that order,
    after those of its base. If a section lists ``work_dir``, it is complete: inherited fields that
    it leaves out get no flag.

    Attributes:
        work_dir: Folder of the artifact's files.
        file_name: Name of the artifact's main file. Its suffix is added if it has none.
        device: Device to run on: cpu, cuda, cuda:1, gpu, as the backend calls it.
        input_shapes: Shapes of the inputs, like input:1x3x224x224,mask:1x77.
        min_shapes: Smallest shapes, with ? where they equal input_shapes.
        max_shapes: Largest shapes, with ? where they equal input_shapes. Dimensions larger than in
            min_shapes are dynamic.

    Raises:
        ParamsError: A field is unknown, or a value is invalid.

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

    #: Field → values that may be faster and compute the same, the most promising field first; or a
    #: function that returns them for the params of an artifact, if they depend on its other fields.
    speed_values: ClassVar[Mapping[str, Iterable[Any] | Callable[[Any], Iterable[Any]]]] = {}

    def __post_init__(self) -> None:
        """Check that the usual, smallest and largest shapes are consistent."""
        # Without usual shapes, the bounds are checked later, with the shapes of the example inputs.
        if self.input_shapes:
            self.shape_profiles()

    @classmethod
    def config_keys(cls) -> Mapping[str, ConfigKey]:
        """Return keys of ``backend_config`` in addition to the fields; none by default.

        A backend overrides this method to support configs of another toolkit. Dots separate the
        parts of a nested key. A key with the name of a field overrides these keys. If two of these
        keys set the same field, the later key applies::

            @classmethod
            def config_keys(cls):
                return {"common_config.fp16_mode": eb.ConfigKey(bool, lambda on: …)}
        """
        return {}

    @property
    def allowed_precision(self) -> str:
        """The coarsest precision in which an engine may compute; empty for the backend's default.

        This precision determines the verdict's tolerances. An engine whose receipt states a coarser
        precision gets the verdict ``mismatched``. Override this property if the params have no
        field ``precision``, or if another field allows a coarser precision.
        """
        return getattr(self, "precision", "")

    @property
    def run_time_fields(self) -> tuple[str, ...]:
        """The fields that only a load of the engine reads, such as its threads; none by default.

        They change nothing in an artifact's files, and :func:`enginebay.load` may get other values
        of them. Override this property if there are any::

            @property
            def run_time_fields(self):
                return ("threads",)
        """
        return ()

    def get_model_files(self) -> tuple[str, ...]:
        """Return the paths of the artifact's files, in ``work_dir`` if it is set.

        These are the main file and the siblings that the default of ``file_name`` has.
        """
        name = self.file_name
        return self.in_work_dir(name, *map(name.sibling, name.siblings))

    def in_work_dir(self, *names: str) -> tuple[str, ...]:
        """Return the paths of files in ``work_dir``; if it is not set, return the names."""
        return tuple(str(PurePath(self.work_dir or "", name)) for name in names)

    def shape_profiles(self, usual: Shapes | None = None) -> dict[str, ShapeProfile]:
        """Return the smallest, usual and largest shape of each input, by input name.

        Args:
            usual: The shapes of the example inputs, which are used if ``input_shapes`` is empty.

        Raises:
            ParamsError: The shapes are not consistent.
        """
        return resolve_profiles(self.input_shapes or usual or {}, self.min_shapes, self.max_shapes)
