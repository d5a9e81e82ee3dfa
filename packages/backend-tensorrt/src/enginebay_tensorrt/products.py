"""NVIDIA's two products, TensorRT and TensorRT for RTX: the names of their wheels and modules."""

from __future__ import annotations

import msgspec

from enginebay.environment import install_command


class Product(msgspec.Struct, frozen=True):
    """TensorRT or TensorRT for RTX.

    Attributes:
        backend: The name of the product's backend.
        title: The product's name in messages.
        modules: The Python modules that may contain the bindings, in the order of preference.
        wheels: The names of the wheels by CUDA's major version, without the suffixes ``-bindings``
            and ``-libs``.
        extras: The pip extras of this package that install the product, by CUDA's major version.
        versions: The supported versions of the product, as a version specifier.
        libraries: The prefix of the file names of the product's shared libraries.
        index: The pip option for the package index with the libraries; empty for the default index.
        install: The command that installs the product.
    """

    backend: str
    title: str
    modules: tuple[str, ...]
    wheels: dict[str, str]
    extras: dict[str, str]
    versions: str
    libraries: str
    index: str

    def requirements(self) -> tuple[str, ...]:
        """Return a tuple of one requirement, which any wheel that contains the bindings meets."""
        # Wheels by CUDA's version, NVIDIA's archives, and bindings without libraries.
        whole = [*self.wheels.values(), self.backend]
        bindings = [f"{wheel}-bindings" for wheel in self.wheels.values()]
        return (" | ".join(f"{name}{self.versions}" for name in (*whole, *bindings)),)

    @property
    def uninstall(self) -> str:
        """The command that uninstalls all wheels of the product."""
        parts = ("", "-bindings", "-libs")
        return "pip uninstall -y " + " ".join(
            wheel + part for wheel in self.wheels.values() for part in parts
        )

    @property
    def install(self) -> str:
        """The command that installs the product, and what to change for an older driver."""
        return f"{self.install_for('13')}, or [{self.extras['12']}] for a driver of CUDA 12"

    def install_for(self, cuda: str) -> str:
        """Return the command that installs the product for a major version of CUDA."""
        return install_command(f"enginebay-tensorrt[{self.extras[cuda]}]")


#: The operators that the parser of both products rejects: ``Resize`` with antialias.
LACKING = frozenset(("aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"))

TENSORRT = Product(
    backend="tensorrt",
    title="TensorRT",
    # NVIDIA's wheels and archives have ``tensorrt``; the bindings' wheels alone the other module.
    modules=("tensorrt", "tensorrt_bindings"),
    wheels={"13": "tensorrt-cu13", "12": "tensorrt-cu12"},
    extras={"13": "cu13", "12": "cu12"},
    versions=">=10.1,<12",
    libraries="libnv",
    index=" --extra-index-url https://pypi.nvidia.com",
)

TENSORRT_RTX = Product(
    backend="tensorrt-rtx",
    title="TensorRT for RTX",
    modules=("tensorrt_rtx", "tensorrt_rtx_bindings"),
    wheels={"13": "tensorrt-rtx-cu13", "12": "tensorrt-rtx-cu12"},
    extras={"13": "rtx", "12": "rtx-cu12"},
    versions=">=1.7,<2",
    libraries="libtensorrt_",
    index="",
)
