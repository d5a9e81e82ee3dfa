"""A library of OpenMMLab: its import, its configs by name or path, and its models."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import enginebay as eb
from enginebay.authors.files import quiet
from enginebay.authors.sources import Options, no_model_error, read_options, wrap_import_errors
from enginebay.errors import EnginebayError, ModelSourceError
from enginebay_openmmlab.mmcv_operators import replace_operators

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from mmengine.config import Config
    from mmengine.registry import Registry
    from torch import nn

    from enginebay.hooks import ModelRequest

_Kind = TypeVar("_Kind", bound=Options)


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library of OpenMMLab, and the kind of its models that a package of Enginebay builds.

    Attributes:
        name: The library's module, which is also its registry's scope and the scheme of its models.
            The package ``enginebay-NAME`` has an extra ``NAME``, which installs the library.
        fork: The distribution that this extra installs.
        base: The class from which the supported models derive: ``mmdet.models.BaseDetector``.
        noun: What these models are, for messages: ``detector``.
        example: A model in a config, for messages.
        refused: The names of classes derived from ``base`` that are not supported.

    Example:
        >>> library = Library(
        ...     name="mmzoo",
        ...     fork="onedl-mmzoo",
        ...     base="mmzoo.models.BaseClassifier",
        ...     noun="classifier",
        ...     example="model = dict(type='Classifier', backbone=…)",
        ... )
        >>> library.expected
        "expected a classifier of mmzoo: model = dict(type='Classifier', backbone=…)"
    """

    name: str
    fork: str
    base: str
    noun: str
    example: str
    refused: tuple[str, ...] = ()

    def load(self) -> ModuleType:
        """Import the library, and register its models.

        Raises:
            MissingDependencyError: The library is not installed, or cannot be imported.
        """
        package = f"enginebay-{self.name}[{self.name}]"
        with (
            quiet(),
            warnings.catch_warnings(),
            wrap_import_errors(self.name, package, self.fork),
        ):
            warnings.simplefilter("ignore")  # of code that is older than this Python and torch
            library = import_module(self.name)
            replace_operators()
            _exclude_multimodal()
            import_module(f"{self.name}.models")
        return library

    def registry(self, name: str) -> Registry:
        """Return one of the library's registries, such as ``MODELS`` or ``DATASETS``."""
        registry: Registry = getattr(import_module(f"{self.name}.registry"), name)
        return registry

    def read_config(self, name: str, arguments: Mapping[str, Any] | None = None) -> Config:
        """Read a config of the library by its name, or the config in a ``.py`` file.

        Args:
            name: The name of a config file in the library's wheel, or a path.
            arguments: Values that are merged into the config's ``model``.

        Raises:
            ModelSourceError: The config does not exist, cannot be read, describes no supported
                model, or the arguments do not fit the model.
            MissingDependencyError: The library is not installed, or cannot be imported.
        """
        self.load()
        if name.endswith(".py") and not Path(name).is_file():
            raise ModelSourceError(f"no file '{name}'")
        from mmengine.config import Config

        try:
            with quiet():
                config = Config.fromfile(name) if name.endswith(".py") else self.named_config(name)
        except EnginebayError:
            raise
        except Exception as err:  # the config is code
            why = str(err).partition("\n")[0]
            raise ModelSourceError(
                f"the config of '{name}' cannot be loaded: {type(err).__name__}: {why}"
            ) from err
        if not hasattr(config.get("model"), "get"):
            raise ModelSourceError(f"'{name}' contains no model", hint=self.expected)
        self._merge(config, name, arguments or {})
        self._check_kind(config.model.get("type"), name)
        # As mmengine's runner does, for configs that state it once for several models.
        if config.get("data_preprocessor"):
            config.model.setdefault("data_preprocessor", config.data_preprocessor)
        return config

    def named_config(self, name: str) -> Config:
        """Read the config with this name in the library's wheel.

        Raises:
            ModelSourceError: There is no such config.
        """
        from mmengine.config import Config

        library = import_module(self.name)
        folder = Path(library.__path__[0], ".mim", "configs")
        # The folder _base_ has incomplete configs, from which others inherit.
        known = {
            file.stem: file
            for file in sorted(folder.glob("**/*.py"))
            if "_base_" not in file.relative_to(folder).parts
        }
        if name not in known:
            error = no_model_error(f"{self.name} {library.__version__}", name, known)
            error.hint = error.hint or f"the names are those of the files in {folder}"
            raise error
        return Config.fromfile(str(known[name]))

    @property
    def expected(self) -> str:
        """The hint that shows what a config must contain."""
        return f"expected a {self.noun} of {self.name}: {self.example}"

    def _merge(self, config: Config, name: str, arguments: Mapping[str, Any]) -> None:
        if not arguments:
            return
        try:
            config.merge_from_dict({"model": dict(arguments)})
        except (TypeError, KeyError) as err:
            raise ModelSourceError(
                f"codebase_config.arguments do not fit the model of '{name}': {err}",
                hint="an item of a list has its number as key: arguments=dict(head={'1': …})",
            ) from err

    def _check_kind(self, kind: Any, name: str) -> None:
        module, _, base = self.base.rpartition(".")
        found = kind if isinstance(kind, type) else self.registry("MODELS").get(str(kind))
        # mmpretrain registers a function, which raises, for each model that lacks its packages.
        if (
            not isinstance(found, type)
            or not issubclass(found, getattr(import_module(module), base))
            or found.__name__ in self.refused
        ):
            text = getattr(kind, "__name__", kind)
            raise ModelSourceError(
                f"'{name}' is of type '{text}', not a {self.noun}", hint=self.expected
            )

    def build(self, config: Config, name: str) -> nn.Module:
        """Build a config's model.

        Args:
            config: The config, from ``read_config``.
            name: The model's name, for messages.

        Returns:
            The model in evaluation mode.

        Raises:
            ModelSourceError: A part is not in this version of the library, requires a package that
                is not installed, or does not accept its arguments.
        """
        from mmengine.registry import DefaultScope

        try:
            # The default scope is the registry in which mmengine looks up names of classes first.
            with quiet(), DefaultScope.overwrite_default_scope(self.name):
                model: nn.Module = self.registry("MODELS").build(config.model)
        except Exception as err:  # mmengine repeats any error of a constructor
            why = " ".join(f"{type(err).__name__}: {err}".split())[:300]
            raise ModelSourceError(f"'{name}' cannot be built: {why}") from err
        return model.eval()

    def read_class_names(self, config: Mapping[str, Any], count: object) -> list[str]:
        """Return the names of a config's classes; an empty list if they are unknown.

        Args:
            config: The config. The ``metainfo`` of its test data set is used before the library's.
            count: The number of the model's classes. Another number of names is unknown too.
        """
        data = (config.get("test_dataloader") or {}).get("dataset", {})
        names = data.get("metainfo", {}).get("classes")
        kind = data.get("type")
        if not names:
            try:  # imports all data sets, which print what they lack, or fail
                with quiet():
                    data_sets = self.registry("DATASETS")
                    found = kind if isinstance(kind, type) else data_sets.get(str(kind))
                names = getattr(found, "METAINFO", {}).get("classes", ())
            except Exception:  # noqa: BLE001  # names are optional
                return []
        return list(names) if len(names) == count else []

    def read_options(self, request: ModelRequest, kind: type[_Kind]) -> _Kind:
        """Return the options of a request for a model; the published weights are refused.

        Args:
            request: The request.
            kind: A subclass of :class:`enginebay.authors.sources.Options`.

        Raises:
            ModelSourceError: ``codebase_config`` is wrong, or requests published weights.
        """
        options = read_options(request, kind)
        if options.pretrained:
            raise ModelSourceError(
                f"{self.name}'s published weights are not downloaded automatically",
                hint="download the checkpoint from the model zoo and use --weights FILE",
            )
        return options

    def rewriters(self, model: str) -> eb.RewriterSet:
        """Return the rewriters of the package ``enginebay_NAME``, from its module ``rewriters``.

        The set is empty unless this process has imported the package's module ``model``: otherwise
        every export would report rewriters that never fired.
        """
        if f"enginebay_{self.name}.{model}" not in sys.modules:
            return eb.RewriterSet()
        found: eb.RewriterSet = import_module(f"enginebay_{self.name}.rewriters").REWRITERS
        return found


def _exclude_multimodal() -> None:
    """Let mmpretrain, from which other libraries take backbones, not import multimodal models."""
    # mmpretrain imports them if transformers and pycocotools are installed, which raises with
    # transformers 5.
    if find_spec("mmpretrain"):
        with suppress(ImportError):  # so far no library requires it
            dependency: Any = import_module("mmpretrain.utils.dependency")
            dependency.WITH_MULTIMODAL = False
