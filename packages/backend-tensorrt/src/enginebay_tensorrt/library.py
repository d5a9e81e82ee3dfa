"""Import NVIDIA's Python module for TensorRT once, and find out what the version supports."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.errors import MissingDependencyError
from enginebay_tensorrt.logger import Messages

if TYPE_CHECKING:
    from types import ModuleType

    from enginebay_tensorrt.params import Params
    from enginebay_tensorrt.products import Product

_T = TypeVar("_T")


class Library:
    """The installed TensorRT or TensorRT for RTX.

    Args:
        product: TensorRT or TensorRT for RTX.

    Attributes:
        product: TensorRT or TensorRT for RTX.
        trt: NVIDIA's Python module, such as ``tensorrt``.
        logger: The only ``ILogger`` of this process, since TensorRT ignores all loggers except the
            first.
        loaded: The digests of the plugin libraries that this process has registered.

    Raises:
        MissingDependencyError: The library is not installed, or cannot be imported.
    """

    def __init__(self, product: Product) -> None:
        self.product = product
        self.trt: Any = _import_bindings(product)
        self._derived: dict[type, Any] = {}
        self.logger: Any = self.derive(Messages)()
        self.loaded: set[str] = set()

    @property
    def title(self) -> str:
        """The name and version of the library: ``TensorRT 11.4.0``."""
        return f"{self.product.title} {self.version}"

    @property
    def version(self) -> str:
        """The version of NVIDIA's module."""
        return str(self.trt.__version__)

    @property
    def has_precision_flags(self) -> bool:
        """True for TensorRT 10, where builder flags can set the precision.

        In TensorRT 11 and TensorRT for RTX, every network computes in the types of its tensors.
        """
        return hasattr(self.trt.BuilderFlag, "FP16")

    def derive(self, methods: type[_T]) -> type[_T]:
        """Return a class derived from ``methods`` and from a TensorRT interface.

        Args:
            methods: A class that calls ``super().__init__()``; its attribute ``interface`` is the
                name of the TensorRT interface, such as ``ILogger``.
        """
        if methods not in self._derived:
            interface = getattr(self.trt, methods.interface)  # type: ignore[attr-defined]  # see Args
            self._derived[methods] = type(methods.__name__, (methods, interface), {})
        derived_class: type[_T] = self._derived[methods]
        return derived_class


def get_library(params: Params) -> Library:
    """Return the library that builds and runs an engine with these parameters.

    Raises:
        MissingDependencyError: The library is not installed, or cannot be imported.
    """
    return _load_library(type(params))


# By class and not by parameters: a second Library's logger would be ignored by TensorRT.
@cache
def _load_library(params: type[Params]) -> Library:
    return Library(params.product)


def find_module_name(product: Product) -> str:
    """Return the name of the installed Python module that contains the bindings.

    Raises:
        MissingDependencyError: No module is installed.
    """
    for name in product.modules:
        if find_spec(name) is not None:
            return name
    raise MissingDependencyError(
        f"the Python bindings of {product.title} are not installed", hint=product.install
    )


def _import_bindings(product: Product) -> ModuleType:
    name = find_module_name(product)
    try:
        return import_module(name)
    except ImportError as err:
        raise MissingDependencyError(
            f"the Python bindings of {product.title} are installed but cannot be imported: {err}",
            hint=f"enginebay check-env {product.backend}",
        ) from err
