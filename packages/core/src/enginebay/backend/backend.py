"""Backend: the typed interface to one plugin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.backend.contributed import collect_rewriters
from enginebay.backend.lowered import Lowering
from enginebay.backend.output_files import written_files
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
    from enginebay.hooks import BackendInfo, CalibrationData, CheckEnvRequest
    from enginebay.inference import Wrapper
    from enginebay.ir import IRKind, IRModel
    from enginebay.params import BackendParams
    from enginebay.plugins import LoadedPlugin
    from enginebay.rewriting import RewriterSet
    from enginebay.tensors import TensorSpec

#: Taken where no backend is named and several are installed.
DEFAULT_BACKEND = "onnxruntime"


def default_backend() -> str:
    """The name of the only installed backend, else ``onnxruntime``."""
    from enginebay.plugins import installed_backends

    usable = installed_backends()
    return usable[0] if len(usable) == 1 else DEFAULT_BACKEND


def get_backend(name: str) -> Backend:
    """Load one backend by name.

    Raises:
        BackendNotFoundError: No installed distribution provides it.
        PluginError: Its plugin is broken, duplicated, disabled or made for another API version.
    """
    from enginebay.plugins import load_backend

    return Backend(load_backend(name))


class Backend:
    """One backend, as callers use it.

    Attributes:
        name: The name users type.
        info: Its name, IRs and abilities, as the plugin declares them.
        Params: The class that declares its parameters.
        distribution: The distribution that provides the plugin.
        distribution_version: That distribution's version.
    """

    def __init__(self, plugin: LoadedPlugin) -> None:
        self._plugin = plugin
        self.info: BackendInfo = plugin.info
        self.name = plugin.info.name
        self.Params: type[BackendParams] = plugin.info.params
        self.distribution = plugin.status.distribution
        self.distribution_version = plugin.status.version
        self._available: dict[bool, bool] = {}

    def __repr__(self) -> str:
        return f"<Backend {self.name} from {self.distribution}>"

    # -- is it usable? ------------------------------------------------------------------------

    def get_version(self) -> str:
        """The installed version of the engine.

        Raises:
            BackendUnavailableError: The engine is not installed.
        """
        from enginebay.environment import installed_version

        if not self.info.runtime_distributions:
            return self.distribution_version
        wanted = self.info.runtime_distributions[0]
        version = installed_version(wanted)
        if version is None:
            raise BackendUnavailableError(
                f"the engine of backend '{self.name}' is not installed: expected {wanted}",
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
        """Check the environment in four tiers, each in a child process.

        Args:
            params: The parameters to check with; by default the backend's defaults.
            with_custom_ops: Whether its custom-op libraries must load too.
            timeout: Seconds that each tier may take.
            log_callback: Gets a line for each check, when its tier has ended.
        """
        from enginebay.backend.tiers import check_environment

        return check_environment(
            *(self.name, params or self.Params()),
            with_custom_ops=with_custom_ops,
            timeout=timeout,
            log=log_callback,
        )

    def check_tier(self, request: CheckEnvRequest) -> EnvReport:
        """The plugin's own checks of one tier, run in this process."""
        from enginebay.environment import EnvReport

        return self._plugin.call_typed("check_env", EnvReport, request) or EnvReport()

    def is_available(self, with_custom_ops: bool = False) -> bool:
        """Return True if a tiny model was built, run and compared here; cached for the process."""
        if with_custom_ops not in self._available:
            report = self.check_env(with_custom_ops=with_custom_ops)
            self._available[with_custom_ops] = report.ok
        return self._available[with_custom_ops]

    def params_from(self, params: BackendParams | Mapping[str, Any] | None) -> BackendParams:
        """Parameters of this backend's own class.

        Raises:
            ParamsError: A field is unknown, or a value does not fit.
            UsageError: They are another backend's.
        """
        if params is None:
            return self.Params()
        if isinstance(params, self.Params):
            return params
        if isinstance(params, Mapping):
            return self.Params.from_mapping(params)
        raise UsageError(
            f"backend '{self.name}' takes {self.Params.__name__} or a mapping, "
            f"found {type(params).__name__}"
        )

    # -- IR → engine --------------------------------------------------------------------------

    def to_backend(
        self, ir: str | Path | IRModel, *, data: Any = None, **params: Any
    ) -> tuple[Path, ...]:
        """Convert with parameters given by name; see :meth:`to_backend_from_param`."""
        return self.to_backend_from_param(ir, self.Params(**params), data)

    def to_backend_from_param(
        self, ir: str | Path | IRModel, params: BackendParams, data: Any = None
    ) -> tuple[Path, ...]:
        """Write the engine's files into ``params.work_dir``, the current folder by default.

        This is the bare conversion, without manifest and verification; existing files are
        replaced. :func:`enginebay.convert` makes an artifact.

        Args:
            ir: The IR or its file.
            params: The parameters.
            data: The calibration data: an :class:`enginebay.DataSet`, or its source.

        Returns:
            The paths of the files.

        Raises:
            ParamsError: The precision requires calibration data, and none was passed.
            ConversionError: The engine's converter failed.
        """
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
        """Ask the plugin to convert, and check the files that it lists.

        Returns:
            The paths of the engine's files relative to the request's ``work_dir``.

        Raises:
            ConversionError: The backend does not take this IR or the dtype of an input, its
                converter failed, or a file that it promised is missing, empty or outside
                ``work_dir``.
        """
        ir = request.ir
        if ir.kind not in self.info.irs:
            raise ConversionError(
                f"backend '{self.name}' does not convert from {ir.kind} ('{ir.path.name}'): "
                f"it takes {', '.join(self.info.irs)}"
            )
        request = self._filled_in(request)
        try:
            listed = self._plugin.call("to_backend", request=request)
            return written_files(listed, request.work_dir, self.name)
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:
            if disk_error(err):
                raise  # not the converter's fault; the caller, which owns the folder, reports it
            raise ConversionError(
                f"backend '{self.name}' could not convert '{ir.path.name}': "
                f"{type(err).__name__}: {message_of(err)}"
            ) from err

    def quantizable_nodes(self, request: ConvertRequest[Any]) -> dict[str, str]:
        """Ask the plugin which nodes it would compute in 8 bits: their operators by name.

        Raises:
            UsageError: The backend cannot exclude nodes from its 8-bit precision.
            ConversionError: The engine's quantiser failed, or the plugin returned another type.
        """
        request = self._filled_in(request)
        found = self._plugin.call_typed("quantizable_nodes", Mapping, request)  # type: ignore[type-abstract]  # for isinstance
        if found is None:
            precision = request.params.allowed_precision
            raise UsageError(f"backend '{self.name}' cannot exclude nodes from its {precision}")
        return dict(found)

    def unsupported_operators(self, request: ConvertRequest[Any]) -> dict[str, str] | None:
        """Ask the plugin for the operators of an IR that the engine lacks; None if it cannot tell.

        Raises:
            ConversionError: The IR cannot be read.
        """
        request = self._filled_in(request)
        found = self._plugin.call_typed("unsupported_operators", Mapping, request)  # type: ignore[type-abstract]  # for isinstance
        return None if found is None else dict(found)

    def _filled_in(self, request: ConvertRequest[Any]) -> ConvertRequest[Any]:
        """Return a request with what only the backend knows, if it takes the inputs' dtypes."""
        self.check_dtypes(request.ir.inputs)
        lower = request.lower
        if lower is not_lowered:
            lower = self.lowering(request.ir.kind)
        return msgspec.structs.replace(request, backend=self.name, lower=lower)

    def check_data(self, params: BackendParams, *, has_data: bool) -> None:
        """Check, before any work is done, that there is data where the precision needs some.

        Raises:
            ParamsError: There is none.
        """
        precision = self.calibrated_precision(params)
        if precision and not has_data:
            raise ParamsError(
                f"precision {precision} requires calibration data",
                hint="--data FILE.npz: numpy.savez('data.npz', x=inputs), where inputs[0] "
                "is the first whole input",
            )

    def check_dtypes(self, inputs: Iterable[TensorSpec]) -> None:
        """Check that the backend lists the dtypes of a model's inputs.

        Raises:
            ConversionError: An input has a dtype that the backend does not list.
        """
        for spec in inputs:
            if spec.dtype not in self.info.dtypes:
                raise ConversionError(
                    f"input '{spec.name}' is {spec.dtype}, and backend '{self.name}' takes "
                    f"{', '.join(self.info.dtypes)}",
                    hint=f"give '{spec.name}' one of these dtypes, and convert it in the model",
                )

    def check_calibrated(self, params: BackendParams, purpose: str) -> None:
        """Check that a precision is calibrated, so that layers can be excluded from it.

        Args:
            params: The parameters.
            purpose: The operation on 8-bit layers, for the message.

        Raises:
            UsageError: The precision is not a calibrated one.
        """
        precision, calibrated = self.allowed_precision(params), self.info.calibrated
        if precision not in calibrated:
            raise UsageError(
                f"{purpose}, and precision {precision} has none",
                hint=f"--precision {calibrated[0]}" if calibrated else None,
            )

    def calibration(
        self, ir: IRModel, params: BackendParams, data: Any, unused: Iterable[str] = ()
    ) -> CalibrationData | None:
        """Return the data as a converter takes it; None if the precision needs none.

        Args:
            ir: The IR to convert.
            params: The parameters.
            data: An :class:`enginebay.DataSet`, or its source; None for none.
            unused: Inputs of the model that the IR does not have.

        Raises:
            InputError: The data do not fit the IR, or hold one value alone.
        """
        from enginebay.data import CheckedItems, DataSet

        if data is None or not self.calibrated_precision(params):
            return None
        items = CheckedItems(DataSet.of(data), ir.inputs, unused)
        items.check_varied()
        return items

    # -- engine → wrapper ---------------------------------------------------------------------

    def build_wrapper(self, **params: Any) -> Wrapper:
        """Load converted files with parameters given by name."""
        return self.build_wrapper_from_param(self.Params(**params))

    def build_wrapper_from_param(self, params: BackendParams) -> Wrapper:
        """Load the files that :meth:`to_backend_from_param` wrote with the same parameters."""
        directory = Path(params.work_dir or ".")
        files = tuple(Path(file).relative_to(directory) for file in params.get_model_files())
        return self.load(WrapperRequest(directory=directory, files=files, params=params))

    def allowed_precision(self, params: BackendParams) -> str:
        """The coarsest precision that parameters allow: theirs, or the backend's default."""
        return params.allowed_precision or self.info.precisions[0]

    def calibrated_precision(self, params: BackendParams) -> str:
        """The precision that parameters allow where it is calibrated with data; else empty."""
        precision = self.allowed_precision(params)
        return precision if precision in self.info.calibrated else ""

    def load(self, request: WrapperRequest) -> Wrapper:
        """Ask the plugin for a wrapper; the request gets the backend's name here.

        Raises:
            ConversionError: The engine cannot load the files.
            FallbackError: The engine runs on another kind of device than the one asked for; or
                ``request.strict``, and the receipt lists a fallback.
        """
        wrapper = self._wrapper(request)
        if request.simulation:  # by another engine, wherever that runs
            return wrapper
        receipt, wanted = wrapper.receipt, request.params.device
        fallbacks, known = "; ".join(receipt.fallbacks), self.info.devices
        if device_kind(wanted) not in (*known, "auto"):
            message = f"device '{wanted}' is not one of {self.name}'s: {', '.join(known)}"
            hint = f"--device {known[0]}"
        elif device_kind(wanted) not in ("cpu", "auto", device_kind(receipt.device)):
            # cpu is the default: a provider that was requested may still choose another device.
            message = f"device '{wanted}' was requested, and {receipt.engine} runs on "
            message += f"'{receipt.device}'" + (f": {fallbacks}" if fallbacks else "")
            hint = f"--device {receipt.device}; enginebay check-env {self.name} --device {wanted}"
        elif request.strict and fallbacks:
            message = f"backend '{self.name}' fell back, and strict refuses that: {fallbacks}"
            hint = f"enginebay check-env {self.name} --device {wanted}"
        else:
            return wrapper
        wrapper.close()
        raise FallbackError(message, hint=hint)

    def _wrapper(self, request: WrapperRequest) -> Wrapper:
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
        """Return the machines that an engine with these parameters is built for.

        Returns:
            None if it is built for this machine, or for any machine.

        Raises:
            PluginError: The plugin returned something else.
        """
        request = BindingRequest(params=params, backend=self.name)
        found = self._plugin.call_typed("built_for", BuiltFor, request)
        texts = (found.machines, found.lacking) if found else ()
        if not all(isinstance(text, str) for text in texts) or (texts and not texts[0].strip()):
            wanted = "the machines as text, and the reason why this one is not among them"
            raise wrong_result("built_for", self._plugin.status, found, wanted)
        return found

    def elsewhere(self, params: BackendParams) -> BuiltFor | None:
        """Return the machines that an engine is built for; None if it runs on this machine.

        Raises:
            PluginError: The plugin returned something else.
        """
        found = self.built_for(params)
        return found if found and found.lacking else None

    def check_runs_here(self, params: BackendParams, purpose: str, hint: str) -> None:
        """Check, before any work is done, that an engine with these parameters can run here.

        Args:
            params: The parameters.
            purpose: The reason why it has to run, for the message: ``--strict looks at …``.
            hint: The command to type instead.

        Raises:
            UsageError: It is built for other machines.
        """
        if found := self.elsewhere(params):
            message = f"{purpose}, and it cannot run here: it is {found.describe()}"
            raise UsageError(message, hint=hint)

    def bound_to(self, params: BackendParams) -> dict[str, str]:
        """Return the versions and devices of this machine that an artifact is bound to."""
        request = BindingRequest(params=params, backend=self.name)
        found = self._plugin.call_typed("bound_to", Mapping, request)  # type: ignore[type-abstract]  # for isinstance
        facts = dict(found or {})
        if not all(isinstance(text, str) for text in (*facts, *facts.values())):
            raise wrong_result("bound_to", self._plugin.status, facts, "a mapping of texts")
        return facts

    # -- the rest of the contract -------------------------------------------------------------

    def rewriters(self, ir: IRKind = "onnx") -> list[RewriterSet]:
        """Return the rewriters that this plugin and cross-cutting plugins contribute to an export.

        Raises:
            PluginError: A plugin returned something else.
        """
        return collect_rewriters(self._plugin, RewritersRequest(backend=self.name, ir=ir))

    def lowering(self, ir: IRKind, rewriters: Sequence[RewriterSet] = ()) -> Lowering:
        """Return the lowerings that a conversion uses.

        Args:
            ir: The IR that is converted.
            rewriters: The caller's own.
        """
        return Lowering(self.name, ir, rewriters, partial(self.rewriters, ir))

    def build_param_from_config(
        self, config: Mapping[str, Any], work_dir: str | Path | None = None, **over: Any
    ) -> BackendParams:
        """The parameters that a deploy config asks for.

        Args:
            config: A config, as :func:`enginebay.authors.read_config` returns it.
            work_dir: The folder of the artifact's files.
            **over: Fields that win over the config's.

        Raises:
            ConfigError: The config is wrong, or for another backend.
        """
        from enginebay.config import Problems, backend_params, read_sections

        problems = Problems()
        sections = read_sections(config, problems)
        if sections.backend not in (None, self.name):
            problems.wrong(
                ("backend_config", "type"),
                f"the config is for backend '{sections.backend}', not '{self.name}'",
            )
        given = {} if work_dir is None else {"work_dir": str(work_dir)}
        params = backend_params(self.Params, sections, problems, over={**given, **over})
        problems.raise_first()
        return params

    # -- the console tool ---------------------------------------------------------------------

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add a flag for each documented parameter."""
        self.Params.add_arguments(parser)

    @contextmanager
    def parse_args(
        self, parser: ArgumentParser, args: Sequence[str] | None = None
    ) -> Iterator[Namespace]:
        """Add the flags, yield the parsed arguments, and convert when the block ends well."""
        parser.add_argument("ir", help="the IR file to convert")
        if self.info.calibrated:
            parser.add_argument("--data", help="the data set to calibrate with, as deploy takes it")
        self.add_arguments(parser)
        parsed = parser.parse_args(args)
        yield parsed
        data = getattr(parsed, "data", None)
        self.to_backend_from_param(parsed.ir, self.Params.from_args(parsed), data)

    def main(self, argv: Sequence[str] | None = None) -> None:
        """The backend as a console tool, for ``python -m`` of its package.

        ``convert IR [flags]`` converts an IR file, with flags from the parameters; the word
        ``convert`` may be left out. An error is one line on stderr.

        Raises:
            SystemExit: With the error's exit code, or 0 after the help.
        """
        from enginebay.backend.console import run

        run(self, argv)


def device_kind(device: str) -> str:
    """Return the kind of a device: ``cuda`` of ``cuda:1``, ``gpu`` of ``GPU.0``."""
    return re.split("[.:]", device.lower())[0]


def read_ir(ir: str | Path | IRModel) -> IRModel:
    """An IR file as an :class:`~enginebay.ir.model.IRModel`.

    Raises:
        UsageError: The file is a Python model rather than an IR.
    """
    from enginebay.ir import IRModel
    from enginebay.models import find_model

    if isinstance(ir, IRModel):
        return ir
    source = find_model(ir)
    if source.ir is None:
        raise UsageError(
            f"'{ir}' is not an IR file: expected .onnx, .pt (TorchScript) or .pt2",
            hint="enginebay export MODEL first, or enginebay deploy MODEL",
        )
    return source.ir
