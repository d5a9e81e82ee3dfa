"""The typed interface to one backend plugin, for all that builds, loads and runs engines."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import (
    BackendUnavailableError,
    ConversionError,
    EnginebayError,
    FallbackError,
    ParamsError,
    UsageError,
    message_of,
)
from enginebay.hooks import (
    BindingRequest,
    BuiltFor,
    ConvertRequest,
    WrapperRequest,
)
from enginebay.plugins import wrong_result

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from enginebay.environment import Check, EnvReport
    from enginebay.hooks import BackendInfo, CheckEnvRequest
    from enginebay.inference import Wrapper
    from enginebay.params import BackendParams
    from enginebay.plugins import LoadedPlugin
    from enginebay.tensors import TensorSpec


_log = logging.getLogger("enginebay.backend")


def default_backend() -> str:
    """Return the name of the installed backend if there is only one; otherwise ``onnxruntime``."""
    from enginebay.plugins import installed_backends, preferred_backend

    usable = installed_backends()
    return usable[0] if len(usable) == 1 else preferred_backend()


def load_hooks(name: str) -> BackendHooks:
    """Load a backend's plugin by name, and return its hooks; raise what ``load_backend`` raises."""
    from enginebay.plugins import load_backend

    return BackendHooks(load_backend(name))


class BackendHooks:
    """The hooks of a backend as typed methods, which check requests and results.

    Attributes:
        name: The backend's name.
        info: The capabilities that the plugin declares.
        Params: The class that declares the backend's parameters.
        distribution: The distribution that provides the plugin.
        distribution_version: The version of this distribution.
        status: The plugin's metadata.
    """

    def __init__(self, plugin: LoadedPlugin) -> None:
        self._plugin = plugin
        self.status = plugin.status
        self.info: BackendInfo = plugin.info
        self.name = plugin.info.name
        self.Params: type[BackendParams] = plugin.info.params
        self.distribution = plugin.status.distribution
        self.distribution_version = plugin.status.version

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} from {self.distribution}>"

    # -- environment --------------------------------------------------------------------------

    def get_version(self) -> str:
        """Return the installed version of the engine.

        Raises:
            BackendUnavailableError: The engine is not installed.
        """
        from enginebay.environment import installed_version

        if not self.info.runtime_distributions:
            return self.distribution_version  # the plugin contains its engine
        requirement = self.info.runtime_distributions[0]
        version = installed_version(requirement)
        if version is None:
            raise BackendUnavailableError(
                f"the engine of backend '{self.name}' is not installed: expected {requirement}",
                hint=f"enginebay check-env {self.name}",
            )
        return version

    def check_tier(self, request: CheckEnvRequest) -> EnvReport:
        """Run the plugin's checks of one check-env stage in this process; return their results."""
        from enginebay.environment import EnvReport

        return self._plugin.call_typed("check_env", EnvReport, request) or EnvReport()

    def params_from(self, params: BackendParams | Mapping[str, object] | None) -> BackendParams:
        """Convert a mapping to an instance of :attr:`Params`; None gives the defaults.

        Raises:
            ParamsError: A field is unknown, or a value is invalid.
            UsageError: The parameters belong to another backend.
        """
        if params is None:
            return self.Params()
        if isinstance(params, self.Params):
            return params
        if isinstance(params, Mapping):
            return self.Params.from_mapping(params)
        raise UsageError(
            f"wrong parameters for backend '{self.name}': expected {self.Params.__name__} or a "
            f"mapping, found {type(params).__name__}"
        )

    def missing_converter(self) -> Check | None:
        """Return the failed check of a distribution that only conversions need; None if none is."""
        from enginebay.environment import check_distributions

        return check_distributions(self.info.build_distributions).failed

    def check_converts(self) -> None:
        """Check that what only conversions need is installed.

        Raises:
            BackendUnavailableError: A distribution of ``build_distributions`` is not installed.
        """
        if lacking := self.missing_converter():
            raise BackendUnavailableError(
                f"backend '{self.name}' converts no model on this machine, and only runs "
                f"artifacts: {lacking.name} is {lacking.found}",
                hint=lacking.fix,
            )

    # -- IR → engine --------------------------------------------------------------------------

    def convert(self, request: ConvertRequest[Any]) -> tuple[Path, ...]:
        """Convert an IR with the plugin's converter, and check the returned files.

        Returns:
            The paths of the engine's files relative to the request's ``work_dir``.

        Raises:
            BackendUnavailableError: The converter is not installed.
            ConversionError: The backend does not support this kind of IR or the dtype of an
                input, its converter failed, or a returned file is missing, empty or outside
                ``work_dir``.
        """
        # Not at the top: loading an engine needs neither.
        from enginebay.backend.output_files import check_output_files
        from enginebay.display import list_files
        from enginebay.errors import disk_error

        self.check_converts()
        ir = request.ir
        if ir.kind not in self.info.irs:
            raise ConversionError(
                f"backend '{self.name}' cannot convert '{ir.path.name}': "
                f"expected {' or '.join(self.info.irs)}, found {ir.kind}"
            )
        request = self._complete_request(request)
        try:
            listed = self._plugin.call("to_backend", request=request)
            files = check_output_files(listed, request.work_dir, self.name)
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:  # a converter may call sys.exit
            if disk_error(err):
                raise  # not the converter's fault; the caller, which owns the folder, reports it
            raise ConversionError(
                f"backend '{self.name}' could not convert '{ir.path.name}': "
                f"{type(err).__name__}: {message_of(err)}"
            ) from err
        if _log.isEnabledFor(logging.DEBUG):
            shown = list_files(request.work_dir / file for file in files)
            _log.debug("%s %s wrote %s", self.name, self.get_version(), shown)
        return files

    def quantizable_nodes(self, request: ConvertRequest[Any]) -> dict[str, str]:
        """Return the nodes that the engine would compute in 8 bits, as node name → operator.

        Raises:
            UsageError: The backend cannot exclude nodes from its 8-bit precision.
            ConversionError: The engine's quantizer failed.
            PluginError: The plugin did not return a mapping.
        """
        request = self._complete_request(request)
        operators = self._plugin.call_typed("quantizable_nodes", Mapping, request)  # type: ignore[type-abstract]  # for isinstance
        if operators is None:
            precision = request.params.allowed_precision
            raise UsageError(
                f"backend '{self.name}' cannot exclude nodes from precision {precision}"
            )
        return dict(operators)

    def unsupported_operators(self, request: ConvertRequest[Any]) -> dict[str, str] | None:
        """Return the operators of an IR that the engine does not support.

        Returns:
            Node or operator → a short description of the reason; None if the plugin does not list
            unsupported operators.

        Raises:
            ConversionError: The engine cannot read the IR.
        """
        request = self._complete_request(request)
        lacking = self._plugin.call_typed("unsupported_operators", Mapping, request)  # type: ignore[type-abstract]  # for isinstance
        return None if lacking is None else dict(lacking)

    def _complete_request(self, request: ConvertRequest[Any]) -> ConvertRequest[Any]:
        """Check the inputs' dtypes; return the request with ``backend`` filled in."""
        self.check_dtypes(request.ir.inputs)
        # Plugins for every backend need the name.
        return msgspec.structs.replace(request, backend=self.name)

    def check_data(self, params: BackendParams, *, has_data: bool) -> None:
        """Check that calibration data was passed if the precision requires such data.

        Raises:
            ParamsError: The precision requires calibration data, and none was passed.
        """
        precision = self.calibrated_precision(params)
        if precision and not has_data:
            raise ParamsError(
                f"precision {precision} requires calibration data",
                hint="--data FILE.npz: numpy.savez('data.npz', x=inputs), where x is the "
                "input's name, and inputs[0] is the value for the first item",
            )

    def check_dtypes(self, inputs: Iterable[TensorSpec]) -> None:
        """Check that the backend supports the dtypes of a model's inputs.

        Raises:
            ConversionError: An input has a dtype that the backend does not support.
        """
        for spec in inputs:
            if spec.dtype not in self.info.dtypes:
                raise ConversionError(
                    f"input '{spec.name}' has dtype {spec.dtype}, but backend '{self.name}' "
                    f"supports {', '.join(self.info.dtypes)}",
                    hint=f"pass '{spec.name}' in one of these dtypes, and convert the dtype in "
                    "the model",
                )

    def check_calibrated(self, params: BackendParams, purpose: str) -> None:
        """Check that the precision requires calibration, since only such precisions use 8 bits.

        Args:
            params: The backend's parameters.
            purpose: The beginning of the error message, which names the operation that requires
                8-bit layers.

        Raises:
            UsageError: The precision requires no calibration.
        """
        precision, calibrated = self.allowed_precision(params), self.info.calibrated
        if precision not in calibrated:
            raise UsageError(
                f"{purpose}, but precision {precision} has no 8-bit layers",
                hint=f"--precision {calibrated[0]}" if calibrated else None,
            )

    # -- engine → wrapper ---------------------------------------------------------------------

    def allowed_precision(self, params: BackendParams) -> str:
        """Return the coarsest precision that the parameters allow.

        If the parameters do not set a precision, this is the backend's default precision.
        """
        return params.allowed_precision or self.info.precisions[0]

    def calibrated_precision(self, params: BackendParams) -> str:
        """Return :meth:`allowed_precision` if it requires calibration data, otherwise ``""``."""
        precision = self.allowed_precision(params)
        return precision if precision in self.info.calibrated else ""

    def load(self, request: WrapperRequest) -> Wrapper:
        """Load an engine with the plugin, and return its wrapper if the receipt fits the request.

        Raises:
            ConversionError: The engine cannot load the files.
            FallbackError: The engine does not run on the requested kind of device, or
                ``request.strict`` is set and the receipt lists a fallback.
        """
        wrapper = self._build_wrapper(request)
        if request.simulation:  # the graph runs on another engine, with devices of its own
            return wrapper
        receipt, requested = wrapper.receipt, request.params.device
        fallbacks, devices = "; ".join(receipt.fallbacks), self.info.devices
        # An engine may ignore a device that it does not know, and would then be verified on another
        # one.
        if device_kind(requested) not in (*devices, "auto"):
            message = f"'{self.name}' has no device '{requested}': expected {', '.join(devices)}"
            hint = f"--device {devices[0]}"
        elif device_kind(requested) not in ("cpu", "auto", device_kind(receipt.device)):
            # cpu is the default: a provider that was requested may still choose another device.
            message = f"device '{requested}' was requested, but {receipt.engine} runs on "
            message += f"'{receipt.device}'" + (f": {fallbacks}" if fallbacks else "")
            hint = (
                f"--device {receipt.device}; enginebay check-env {self.name} --device {requested}"
            )
        elif request.strict and fallbacks:
            message = f"backend '{self.name}' used a fallback, which strict forbids: {fallbacks}"
            hint = f"enginebay check-env {self.name} --device {requested}"
        else:
            return wrapper
        wrapper.close()
        raise FallbackError(message, hint=hint)

    def _build_wrapper(self, request: WrapperRequest) -> Wrapper:
        from enginebay.inference import Wrapper

        request = msgspec.structs.replace(request, backend=self.name)
        try:
            wrapper = self._plugin.call("build_wrapper", request=request)
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:
            raise ConversionError(
                f"backend '{self.name}' could not load '{request.files[0]}': "
                f"{type(err).__name__}: {message_of(err)}"
            ) from err
        if not isinstance(wrapper, Wrapper):
            raise ConversionError(
                f"build_wrapper of '{self.name}' returned {wrapper!r:.80}: expected a Wrapper"
            )
        place = f"execute() of {type(wrapper).__module__}.{type(wrapper).__qualname__}"
        wrapper.fault_hint = self._plugin.status.fault_hint(place)
        return wrapper

    def built_for(self, params: BackendParams) -> BuiltFor | None:
        """Return the machines that an engine with the parameters ``params`` is built for.

        Returns:
            The machines; None if the engine is built for this machine, or for any machine.

        Raises:
            PluginError: The plugin did not return a valid :class:`BuiltFor`.
        """
        request = BindingRequest(params=params, backend=self.name)
        built_for = self._plugin.call_typed("built_for", BuiltFor, request)
        texts = (built_for.machines, built_for.lacking) if built_for else ()
        # An empty text in the manifest would mean that the engine is built for any machine.
        if not all(isinstance(text, str) for text in texts) or (texts and not texts[0].strip()):
            expected = "the machines as text, and the reason why this machine is not among them"
            raise wrong_result("built_for", self._plugin.status, built_for, expected)
        return built_for

    def elsewhere(self, params: BackendParams) -> BuiltFor | None:
        """Return the machines that an engine is built for; None if this machine can run the engine.

        Raises:
            PluginError: The plugin did not return a valid :class:`BuiltFor`.
        """
        built_for = self.built_for(params)
        return built_for if built_for and built_for.lacking else None

    def check_runs_here(self, params: BackendParams, purpose: str, hint: str) -> None:
        """Check that an engine with the parameters ``params`` can run on this machine.

        Args:
            params: The backend's parameters.
            purpose: The beginning of the message, a sentence about the operation that runs the
                engine, such as ``bisecting runs the engine``.
            hint: The command to type instead.

        Raises:
            UsageError: The engine is built for other machines.
        """
        if built_for := self.elsewhere(params):
            message = f"{purpose}, but the engine cannot run here: it is {built_for.describe()}"
            raise UsageError(message, hint=hint)

    def bound_to(self, params: BackendParams) -> dict[str, str]:
        """Return the versions and devices of this machine that an artifact built here requires."""
        request = BindingRequest(params=params, backend=self.name)
        fields = self._plugin.call_typed("bound_to", Mapping, request)  # type: ignore[type-abstract]  # for isinstance
        pinned = dict(fields or {})
        # The manifest stores texts: with any other value, the artifact could not be opened.
        if not all(isinstance(text, str) for text in (*pinned, *pinned.values())):
            raise wrong_result("bound_to", self._plugin.status, pinned, "a mapping of texts")
        return pinned


def device_kind(device: str) -> str:
    """Return the kind of a device: ``cuda`` of ``cuda:1``, ``gpu`` of ``GPU.0``."""
    return re.split("[.:]", device.lower())[0]
