"""Execution providers in packages of their own: ``onnxruntime_qnn``, ``nxrt_ep_cpu``.

Such a package contains a shared library, which a process registers with ONNX Runtime once. The
library then offers devices, and a session computes on one of them.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    distributions,
    packages_distributions,
)
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.errors import (
    ConversionError,
    MissingDependencyError,
    ParamsError,
    one_line,
)
from enginebay_onnxruntime.reasons import format_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import Distribution

    import onnxruntime

#: The kinds of hardware, as ``--device`` names them, in the order of preference.
KINDS = ("npu", "gpu", "cpu")
#: The first ONNX Runtime that tells which provider runs each node.
FIRST_VERSION = (1, 24)
#: What a provider must be told on a CPU. Qualcomm's has an emulator of its NPU there.
_OPTIONS_ON_CPU = {"onnxruntime_qnn": {"backend_type": "htp"}}
#: Options that a provider refuses together with another one, and that other one.
_INSTEAD = {"backend_type": "backend_path"}


class Provider(NamedTuple):
    """A registered provider of a package, with the device that a session computes on.

    Attributes:
        module: The package's module.
        package: The distribution's name and version; the module's name if there is none.
        name: The provider's name in ONNX Runtime.
        device: The device, as ``--device`` names it: ``cpu``, ``npu:0``.
        path: The library's path.
        handle: ONNX Runtime's object for the provider on this device.
    """

    module: str
    package: str
    name: str
    device: str
    path: str
    handle: onnxruntime.OrtEpDevice

    def complete_options(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the given options, with those that the provider needs on this device."""
        needed = _OPTIONS_ON_CPU.get(self.module, {}) if self.device == "cpu" else {}
        return {
            name: value for name, value in needed.items() if _INSTEAD.get(name) not in given
        } | dict(given)

    def find_unread(self, options: Iterable[str]) -> list[str]:
        """Return the options whose names do not occur in the library, which cannot read them.

        ONNX Runtime passes any option on, and providers ignore those that they do not know.
        """
        library = Path(self.path).read_bytes() if options else b""
        return [name for name in options if name.encode() not in library]


_lock = Lock()
#: The devices of each registered library, by path.
_registered: dict[str, list[onnxruntime.OrtEpDevice]] = {}


def find_module(name: str) -> str:
    """Return the module that a provider's module or distribution names; "" if none is installed.

    Example:
        >>> find_module("CPUExecutionProvider")
        ''
    """
    module = name.replace("-", "_")
    try:
        return module if module.isidentifier() and find_spec(module) else ""
    except ValueError:  # a module without a spec, such as __main__
        return ""


@cache
def find_distribution(module: str) -> Distribution | None:
    """Return the distribution that contains a module; None if there is none."""
    try:
        return distribution(module)
    except PackageNotFoundError:
        names = packages_distributions().get(module, ())
        return distribution(names[0]) if names else None


def list_installed() -> Iterator[tuple[str, Distribution, str]]:
    """Yield the module, the distribution and the library of each installed provider's package.

    The distributions' metadata tells; nothing is imported.
    """
    seen = set()  # a folder may be on sys.path twice, or two finders may find its packages
    for found in distributions():
        summary = str(found.metadata.json.get("summary", "")).lower()
        if "execution provider" not in summary or "onnx" not in summary:
            continue
        names = {str(file) for file in found.files or ()}
        libraries = [
            name
            for name in names
            if name.endswith((".so", ".dll", ".dylib"))
            and f"{name.partition('/')[0]}/__init__.py" in names
        ]
        if libraries:  # a package may bring its engine's libraries too
            library = min(libraries, key=lambda name: ("provider" not in name, name))
            module = library.partition("/")[0]
            if module not in seen:
                seen.add(module)
                yield module, found, library


def plug_in(name: str, device: str = "cpu") -> Provider:
    """Register the provider of a package with ONNX Runtime, once in a process.

    Args:
        name: The package's module or distribution.
        device: ``npu``, ``gpu:1``, …; the provider's own choice with ``cpu`` or ``auto``, as
            ``cpu`` is the default of all parameters.

    Raises:
        MissingDependencyError: The package does not import, or ONNX Runtime is too old.
        ConversionError: The package has no library, the library does not load, or it offers no
            device.
        ParamsError: The provider does not offer the requested device, or another library has a
            provider with the same name.
    """
    _check_version()
    module = find_module(name)
    package: Any = _import_package(name, module)
    found = find_distribution(module)
    described = f"{found.name} {found.version}" if found else module
    path = _locate_library(package, described)
    with _lock:
        if path not in _registered:
            _registered[path] = _register(package, path, described, found)
        offered = _registered[path]
    handle, kind = _choose_device(offered, package, described, device)
    _check_name(handle.ep_name, path)
    return Provider(module, described, handle.ep_name, kind, path, handle)


def _check_version() -> None:
    import onnxruntime

    numbers = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if numbers < FIRST_VERSION:
        wanted = ".".join(map(str, FIRST_VERSION))
        raise MissingDependencyError(
            f"providers in packages of their own require ONNX Runtime {wanted} or newer, "
            f"found {onnxruntime.__version__}",
            hint=f"pip install 'onnxruntime>={wanted}'",
        )


def _import_package(name: str, module: str) -> object:
    try:
        return importlib.import_module(module or name)
    except Exception as err:
        raise MissingDependencyError(
            f"provider package '{name}' cannot be imported: {one_line(err)}",
            hint=f"pip install --force-reinstall {name.replace('_', '-')}",
        ) from err


def _locate_library(package: Any, described: str) -> str:
    locate = getattr(package, "get_library_path", None) or getattr(package, "library_path", None)
    if not callable(locate):
        raise ConversionError(
            f"package '{package.__name__}' has no execution provider: expected a function "
            "get_library_path() or library_path()",
            hint="name the module of the provider's package, such as onnxruntime_qnn",
        )
    try:
        path = Path(locate())
    except Exception as err:  # noqa: BLE001  # the package's code may raise any error
        reason = one_line(err)
    else:
        if path.is_file():
            return str(path)
        reason = f"'{path}' is not a file"
    raise ConversionError(
        f"{described} has no library for this machine: {reason}",
        hint=f"pip install --force-reinstall {described.partition(' ')[0]}",
    )


def _register(
    package: Any, path: str, described: str, found: Distribution | None
) -> list[onnxruntime.OrtEpDevice]:
    """Return the devices that a library offers, which may be registered by others already."""
    import onnxruntime

    wanted = find_requirement(found, onnxruntime.__version__)
    if not (offered := _list_offered(path)):
        names = getattr(package, "get_ep_name", lambda: package.__name__)
        try:
            onnxruntime.register_execution_provider_library(str(names()), path)
        except Exception as err:
            text = f"ONNX Runtime {onnxruntime.__version__} cannot load the provider of {described}"
            raise ConversionError(
                f"{text}{f', which is made for {wanted}' if wanted else ''}: {format_reason(err)}",
                hint=f"pip install '{wanted}'"
                if wanted
                else "install a release of the provider for this ONNX Runtime and this platform",
            ) from err
        offered = _list_offered(path)
    if not offered:
        hardware = {d.device.type.name for d in onnxruntime.get_ep_devices()}
        raise ConversionError(
            f"{described} offers no device on this machine, where ONNX Runtime sees "
            f"{', '.join(sorted(hardware))}",
            hint="use a machine with the provider's hardware and its driver; if that is here, the "
            f"provider may be made for another ONNX Runtime than {onnxruntime.__version__}: "
            f"pip install {repr(wanted) if wanted else '-U onnxruntime'}",
        )
    return offered


def find_requirement(found: Distribution | None, version: str) -> str:
    """Return the ONNX Runtime that a distribution requires, if ``version`` is another; else ""."""
    from packaging.requirements import Requirement

    for text in (found.requires or ()) if found else ():
        wanted = Requirement(text)
        if wanted.name in ("onnxruntime", "onnxruntime-gpu") and (
            not wanted.specifier.contains(version, prereleases=True)
        ):
            return f"{wanted.name}{wanted.specifier}"
    return ""


def _list_offered(path: str) -> list[onnxruntime.OrtEpDevice]:
    import onnxruntime

    offered = onnxruntime.get_ep_devices()
    return [each for each in offered if each.ep_metadata.get("library_path") == path]


def _choose_device(
    offered: list[onnxruntime.OrtEpDevice], package: Any, described: str, device: str
) -> tuple[onnxruntime.OrtEpDevice, str]:
    """Return one of the provider's devices, and how ``--device`` names it."""
    # A library may have several providers, such as OpenVINO's with a second one for AUTO.
    names = [each.ep_name for each in offered]
    own = str(getattr(package, "get_ep_name", lambda: "")())
    chosen = own if own in names else names[0]
    by_kind: dict[str, list[onnxruntime.OrtEpDevice]] = {kind: [] for kind in KINDS}
    for each in offered:
        if each.ep_name == chosen:
            by_kind[each.device.type.name.lower()].append(each)
    kind, _, index = device.partition(":")
    if device in ("cpu", "auto"):
        kind, index = next(kind for kind in KINDS if by_kind[kind]), "0"
    number = int(index or 0)
    if number >= len(by_kind[kind]):
        here = [f"{each}:{n}" for each in KINDS for n in range(len(by_kind[each]))]
        here = [each.replace("cpu:0", "cpu") for each in here]
        raise ParamsError(
            f"{described} has no device '{device}'; it offers {', '.join(here)}",
            hint=f"--device {here[0]}",
        )
    return by_kind[kind][number], "cpu" if kind == "cpu" else f"{kind}:{number}"


def _check_name(name: str, path: str) -> None:
    import onnxruntime

    others = {
        each.ep_metadata.get("library_path", "ONNX Runtime itself")
        for each in onnxruntime.get_ep_devices()
        if each.ep_name == name
    }
    if others := others - {path}:
        raise ParamsError(
            f"two providers are named '{name}' in this process: '{path}' and {min(others)}",
            hint="use one of them in a process, or uninstall the package of the other",
        )
