"""Backend: the typed interface to one plugin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from enginebay.backend.contributed import collect_rewriters
from enginebay.backend.output_files import check_output_files
from enginebay.errors import (
    BackendUnavailableError,
    ConversionError,
    EnginebayError,
    FallbackError,
    ParamsError,
    UsageError,
    disk_error,
    message_of,
)
from enginebay.hooks import (
    BindingRequest,
    BuiltFor,
    ConvertRequest,
    RewritersRequest,
    WrapperRequest,
    not_lowered,
)
from enginebay.plugins import wrong_result

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from enginebay.environment import EnvReport
    from enginebay.hooks import BackendInfo, CalibrationData, CheckEnvRequest, Lower
    from enginebay.inference import Wrapper
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams, IRKind
    from enginebay.plugins import LoadedPlugin
    from enginebay.rewriting import RewriterSet
    from enginebay.tensors import TensorSpec

#: Returns ``ConvertRequest.lower`` for a backend's name and the kind of an IR.
LowerFor: TypeAlias = "Callable[[str, IRKind], Lower]"


def default_backend() -> str:
    """Return the name of the installed backend if there is only one; otherwise ``onnxruntime``."""
    from enginebay.plugins import installed_backends, preferred_backend

    usable = installed_backends()
    return usable[0] if len(usable) == 1 else preferred_backend()


def get_backend(name: str) -> Backend:
    """Load and return a backend by name, for loading: its conversions cannot lower models.

    Raises:
        BackendNotFoundError: No installed distribution provides a backend of this name.
        PluginError: The plugin is broken, disabled, provided by several distributions, or written
            for another API version.
    """
    from enginebay.plugins import load_backend

    return Backend(load_backend(name))


class Backend:
    """A backend: the hooks of a plugin as typed methods, which check requests and results.

    Attributes:
        name: The backend's name.
        info: The capabilities that the plugin declares.
        Params: The class that declares the backend's parameters.
        distribution: The distribution that provides the plugin.
        distribution_version: The version of this distribution.
    """

    def __init__(self, plugin: LoadedPlugin, lower_for: LowerFor | None = None) -> None:
        self._plugin = plugin
        self._lower_for = lower_for
        self.info: BackendInfo = plugin.info
        self.name = plugin.info.name
        self.Params: type[BackendParams] = plugin.info.params
        self.distribution = plugin.status.distribution
        self.distribution_version = plugin.status.version
        self._available: dict[bool, bool] = {}

    def __repr__(self) -> str:
        return f"<Backend {self.name} from {self.distribution}>"

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

    def check_env(
        self,
        params: BackendParams | None = None,
        *,
        with_custom_ops: bool = False,
        timeout: float = 120.0,
        log_callback: Callable[[str], object] | None = None,
    ) -> EnvReport:
        """Check in four stages, each in a child process, whether the backend works on this machine.

        Args:
            params: The parameters to check with; by default the backend's defaults.
            with_custom_ops: True to load the custom operators in ``params`` too.
            timeout: The time limit of each stage in seconds.
            log_callback: A function that is called at the end of each stage, with one line for each
                check.
        """
        from enginebay.backend.tiers import check_environment

        return check_environment(
            self.name,
            params or self.Params(),
            with_custom_ops=with_custom_ops,
            timeout=timeout,
            log=log_callback,
        )

    def check_tier(self, request: CheckEnvRequest) -> EnvReport:
        """Run the plugin's checks of one check-env stage in this process; return their results."""
        from enginebay.environment import EnvReport

        return self._plugin.call_typed("check_env", EnvReport, request) or EnvReport()

    def is_available(self, with_custom_ops: bool = False) -> bool:
        """Return True if :meth:`check_env` passes; later calls return the first result again."""
        if with_custom_ops not in self._available:
            report = self.check_env(with_custom_ops=with_custom_ops)
            self._available[with_custom_ops] = report.ok
        return self._available[with_custom_ops]

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

    # -- IR → engine --------------------------------------------------------------------------

    def to_backend(
        self, ir: str | Path | IRModel, *, data: object = None, **params: Any
    ) -> tuple[Path, ...]:
        """Convert an IR; see :meth:`to_backend_from_param`. Parameters are passed by name."""
        return self.to_backend_from_param(ir, self.Params(**params), data)

    def to_backend_from_param(
        self, ir: str | Path | IRModel, params: BackendParams, data: object = None
    ) -> tuple[Path, ...]:
        """Convert an IR into engine files in ``params.work_dir``, by default the current folder.

        Existing files are replaced. No manifest is written, and nothing is verified; to build an
        artifact, use :func:`enginebay.convert`.

        Args:
            ir: The IR, or the path of its file.
            params: The backend's parameters.
            data: The calibration data: an :class:`enginebay.DataSet`, or an argument for one, such
                as a path.

        Returns:
            The paths of the engine's files.

        Raises:
            ParamsError: The precision requires calibration data, and none was passed.
            ConversionError: The engine's converter failed.
        """
        from enginebay.ir import read_ir

        self.check_data(params, has_data=data is not None)
        work_dir = Path(params.work_dir or ".")
        work_dir.mkdir(parents=True, exist_ok=True)
        # Absolute, as in a deployment: a converter may run elsewhere, or return relative paths.
        model = read_ir(ir)
        calibration = self.calibration(model, params, data)
        request = ConvertRequest(
            ir=model, params=params, work_dir=work_dir.resolve(), calibration=calibration
        )
        files = self.convert(request)
        return tuple(work_dir / file for file in files)

    def convert(self, request: ConvertRequest[Any]) -> tuple[Path, ...]:
        """Convert an IR with the plugin's converter, and check the returned files.

        Returns:
            The paths of the engine's files relative to the request's ``work_dir``.

        Raises:
            ConversionError: The backend does not support this kind of IR or the dtype of an
                input, its converter failed, or a returned file is missing, empty or outside
                ``work_dir``.
        """
        ir = request.ir
        if ir.kind not in self.info.irs:
            raise ConversionError(
                f"backend '{self.name}' cannot convert '{ir.path.name}': "
                f"expected {' or '.join(self.info.irs)}, found {ir.kind}"
            )
        request = self._complete_request(request)
        try:
            listed = self._plugin.call("to_backend", request=request)
            return check_output_files(listed, request.work_dir, self.name)
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:  # a converter may call sys.exit
            if disk_error(err):
                raise  # not the converter's fault; the caller, which owns the folder, reports it
            raise ConversionError(
                f"backend '{self.name}' could not convert '{ir.path.name}': "
                f"{type(err).__name__}: {message_of(err)}"
            ) from err

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
        """Check the inputs' dtypes; return the request with ``backend`` and ``lower`` filled in."""
        self.check_dtypes(request.ir.inputs)
        lower = request.lower
        # A deployment passes its own function, which knows the caller's rewriters.
        if lower is not_lowered:
            lower = self.lowering(request.ir.kind)
        # Plugins for every backend need the name.
        return msgspec.structs.replace(request, backend=self.name, lower=lower)

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

    def calibration(
        self, ir: IRModel, params: BackendParams, data: object, unused: Iterable[str] = ()
    ) -> CalibrationData | None:
        """Return the calibration data for a converter.

        Returns:
            The data; None without data, or if the precision requires no calibration.

        Args:
            ir: The IR to convert.
            params: The backend's parameters.
            data: An :class:`enginebay.DataSet`, or an argument for one; None without data.
            unused: Inputs of the model that the exporter has dropped; they may be in the data.

        Raises:
            InputError: The data does not fit the IR's inputs, or every float input is constant.
        """
        from enginebay.data import CheckedItems, DataSet

        if data is None or not self.calibrated_precision(params):
            return None
        items = CheckedItems(DataSet.of(data), ir.inputs, unused)
        # Calibration measures the range of each input, and a constant input has none.
        items.check_varied()
        return items

    # -- engine → wrapper ---------------------------------------------------------------------

    def build_wrapper(self, **params: Any) -> Wrapper:
        """Load an engine; see :meth:`build_wrapper_from_param`. Parameters are passed by name."""
        return self.build_wrapper_from_param(self.Params(**params))

    def build_wrapper_from_param(self, params: BackendParams) -> Wrapper:
        """Load the engine that :meth:`to_backend_from_param` wrote with the same parameters."""
        directory = Path(params.work_dir or ".")
        files = tuple(Path(file).relative_to(directory) for file in params.get_model_files())
        return self.load(WrapperRequest(directory=directory, files=files, params=params))

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

    # -- rewriters and configs ----------------------------------------------------------------

    def rewriters(self, ir: IRKind = "onnx", *, builtin: bool = True) -> list[RewriterSet]:
        """Return the rewriters of this backend, and of plugins that apply to every backend.

        Args:
            ir: The IR of the export.
            builtin: False to exclude Enginebay's own rewriters.

        Raises:
            PluginError: A plugin did not return a ``RewriterSet``, or Enginebay's own rewriters
                cannot be used.
        """
        request = RewritersRequest(backend=self.name, ir=ir, builtin=builtin)
        return collect_rewriters(self._plugin, request)

    def lowering(self, ir: IRKind) -> Lower:
        """Return ``ConvertRequest.lower`` for one conversion without the caller's rewriters.

        Args:
            ir: The kind of the IR that is converted.
        """
        return self._lower_for(self.name, ir) if self._lower_for else not_lowered

    def build_param_from_config(
        self, config: Mapping[str, object], work_dir: str | Path | None = None, **over: object
    ) -> BackendParams:
        """Return the parameters that a deploy config specifies.

        Args:
            config: A config, as :func:`enginebay.authors.files.read_config` returns it.
            work_dir: The folder of the engine's files.
            **over: Field name → value; these values override the config.

        Raises:
            ConfigError: The config is invalid, or is for another backend.
        """
        from enginebay.config import Problems, backend_params, read_sections

        problems = Problems()
        sections = read_sections(config, problems)
        if sections.backend not in (None, self.name):
            problems.wrong(
                ("backend_config", "type"),
                f"the config is for backend '{sections.backend}', not '{self.name}'",
            )
        if work_dir is not None:
            over = {"work_dir": str(work_dir), **over}
        params = backend_params(self.Params, sections, problems, over=over)
        problems.raise_first()
        return params

    # -- command line tool --------------------------------------------------------------------

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add a command line flag for each documented parameter of the backend."""
        self.Params.add_arguments(parser)

    @contextmanager
    def parse_args(
        self, parser: ArgumentParser, args: Sequence[str] | None = None
    ) -> Iterator[Namespace]:
        """Yield the parsed arguments; convert the IR file at the end of the ``with`` block."""
        parser.add_argument("ir", help="the IR file to convert")
        if self.info.calibrated:
            parser.add_argument("--data", help="calibration data, as for 'enginebay deploy --data'")
        self.add_arguments(parser)
        parsed = parser.parse_args(args)
        yield parsed
        data = getattr(parsed, "data", None)
        self.to_backend_from_param(parsed.ir, self.Params.from_args(parsed), data)

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Run the backend's command line tool, for ``python -m`` with the backend's package.

        ``convert IR [flags]`` converts an IR file, with one flag for each parameter; the word
        ``convert`` is optional. An error is printed in one line on stderr, with its hint.

        Raises:
            SystemExit: After an error, with the error's exit code; after ``--help``, with 0.
        """
        from enginebay.backend.console import run

        run(self, argv)


def device_kind(device: str) -> str:
    """Return the kind of a device: ``cuda`` of ``cuda:1``, ``gpu`` of ``GPU.0``."""
    return re.split("[.:]", device.lower())[0]
