"""An installed TensorRT: NVIDIA's module, imported once, and what depends on its version."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.errors import MissingDependencyError
from enginebay_tensorrt.logger import Messages

if TYPE_CHECKING:
    from enginebay_tensorrt.params import Params
    from enginebay_tensorrt.products import Product

_T = TypeVar("_T")


class Library:
    """TensorRT or TensorRT for RTX, as it is installed.

    Args:
        product: Which of them.

    Attributes:
        product: Which of them.
        trt: NVIDIA's module.
        logger: The ``ILogger`` that everything of this library is made with: it keeps the first
            that it gets, and ignores later ones.
        loaded: The digests of the plugin libraries that this process has registered with it.

    Raises:
        MissingDependencyError: It is not installed, or does not import.
    """

    def __init__(self, product: Product) -> None:
        self.product = product
        self.trt: Any = _import(product)
        self._derived: dict[type, Any] = {}
        self.logger: Any = self.derived(Messages)()
        self.loaded: set[str] = set()

    @property
    def title(self) -> str:
        """Its name and version: ``TensorRT 11.4.0``."""
        return f"{self.product.title} {self.version}"

    @property
    def version(self) -> str:
        """The version of NVIDIA's module."""
        return str(self.trt.__version__)

    @property
    def has_precision_flags(self) -> bool:
        """True for TensorRT 10, where flags can leave the choice of precision to the builder.

        Since 11, and in TensorRT for RTX, every network computes as its tensors are typed.
        """
        return hasattr(self.trt.BuilderFlag, "FP16")

    def derived(self, methods: type[_T]) -> type[_T]:
        """Return the class with these methods that the library takes for its own interface.

        Args:
            methods: A class that names the interface in its attribute ``interface``, and calls
                ``super().__init__()``.
        """
        if methods not in self._derived:
            interface = getattr(self.trt, methods.interface)  # type: ignore[attr-defined]  # see Args
            self._derived[methods] = type(methods.__name__, (methods, interface), {})
        found: type[_T] = self._derived[methods]
        return found


def library_of(params: Params) -> Library:
    """Return the library that an engine with these parameters is built and run by.

    Raises:
        MissingDependencyError: It is not installed, or does not import.
    """
    return _libraries(type(params))


@cache
def _libraries(params: type[Params]) -> Library:
    return Library(params.product)


def module_name(product: Product) -> str:
    """Return the name of the module that is installed.

    Raises:
        MissingDependencyError: None is.
    """
    for name in product.modules:
        if find_spec(name) is not None:
            return name
    raise MissingDependencyError(
        f"the Python bindings of {product.title} are not installed", hint=product.install
    )


def _import(product: Product) -> Any:
    name = module_name(product)
    try:
        return import_module(name)
    except ImportError as err:
        raise MissingDependencyError(
            f"the Python bindings of {product.title} are installed and do not import: {err}",
            hint=f"enginebay check-env {product.backend}",
        ) from err
