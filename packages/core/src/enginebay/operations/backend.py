"""Backend: what callers hold of a backend: its hooks, parameters from configs, a command."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.backend import BackendHooks
from enginebay.errors import ArtifactError, ConfigError
from enginebay.hooks import ConvertRequest, WrapperRequest, not_lowered
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from enginebay.environment import EnvReport
    from enginebay.hooks import CalibrationData
    from enginebay.inference import Wrapper
    from enginebay.ir import IRModel
    from enginebay.operations.lowering import Lowering
    from enginebay.params import BackendParams, IRKind
    from enginebay.plugins import LoadedPlugin
    from enginebay.rewriting import RewriterSet


def get_backend(name: str) -> Backend:
    """Load and return a backend by name.

    Raises:
        BackendNotFoundError: No installed distribution provides a backend of this name.
        PluginError: The plugin is broken, disabled, provided by several distributions, or written
            for another API version.
    """
    from enginebay.plugins import load_backend

    return Backend(load_backend(name))


class Backend(BackendHooks):
    """A backend: the hooks of a plugin as typed methods, which check requests and results.

    Attributes:
        name: The backend's name.
        info: The capabilities that the plugin declares.
        Params: The class that declares the backend's parameters.
        distribution: The distribution that provides the plugin.
        distribution_version: The version of this distribution.
    """

    def __init__(self, plugin: LoadedPlugin) -> None:
        super().__init__(plugin)
        self._available: dict[bool, bool] = {}

    def check_env(
        self,
        params: BackendParams | None = None,
        *,
        with_custom_ops: bool = False,
        timeout: float = 120.0,
        log_callback: Callable[[str], object] | None = None,
    ) -> EnvReport:
        """Check in four stages, in a child process, whether the backend works on this machine.

        Args:
            params: The parameters to check with; by default the backend's defaults.
            with_custom_ops: True to load the custom operators in ``params`` too.
            timeout: The time limit of each stage in seconds.
            log_callback: A function that is called at the end of each stage, with one line for each
                check.
        """
        from enginebay.operations.tiers import check_environment

        return check_environment(
            self.name,
            params or self.Params(),
            with_custom_ops=with_custom_ops,
            timeout=timeout,
            log=log_callback,
        )

    def is_available(self, with_custom_ops: bool = False) -> bool:
        """Return True if :meth:`check_env` passes; later calls return the first result again."""
        if with_custom_ops not in self._available:
            report = self.check_env(with_custom_ops=with_custom_ops)
            self._available[with_custom_ops] = report.ok
        return self._available[with_custom_ops]

    # -- IR → engine --------------------------------------------------------------------------

    def to_backend(
        self, ir: str | Path | IRModel, *, data: object = None, **params: Any
    ) -> tuple[Path, ...]:
        """Convert an IR; see :meth:`to_backend_from_param`. Parameters are passed by name."""
        return self.to_backend_from_param(ir, self.Params(**params), data)

    def to_backend_from_param(
        self,
        ir: str | Path | IRModel,
        params: BackendParams | Mapping[str, object] | None,
        data: object = None,
    ) -> tuple[Path, ...]:
        """Convert an IR into engine files in ``params.work_dir``, by default the current folder.

        Existing files are replaced. No manifest is written, but a file ``*.tensors.json`` with the
        names, dtypes and shapes of the inputs and outputs; nothing is verified. To build an
        artifact, use :func:`enginebay.convert`.

        Args:
            ir: The IR, or the path of its file.
            params: The backend's parameters, or some of them by name; None for the defaults.
            data: The calibration data: an :class:`enginebay.DataSet`, or an argument for one, such
                as a path.

        Returns:
            The paths of the engine's files.

        Raises:
            UsageError: The parameters belong to another backend, or ``ir`` is not an IR.
            ParamsError: The precision requires calibration data, and none was passed.
            ConversionError: The engine's converter failed.
        """
        from enginebay.ir import read_ir

        params = self.params_from(params)
        self.check_data(params, has_data=data is not None)
        work_dir = Path(params.work_dir or ".")
        work_dir.mkdir(parents=True, exist_ok=True)
        # Absolute, as in a deployment: a converter may run elsewhere, or return relative paths.
        model = read_ir(ir)
        calibration = self.calibration(model, params, data)
        request = ConvertRequest(
            ir=model, params=params, work_dir=work_dir.resolve(), calibration=calibration
        )
        files = tuple(work_dir / file for file in self.convert(request))
        tensors = _Tensors(files[0].stat().st_size, model.inputs, model.outputs)
        _tensors_file(files[0]).write_bytes(msgspec.json.encode(tensors))
        return files

    def _complete_request(self, request: ConvertRequest[Any]) -> ConvertRequest[Any]:
        request = super()._complete_request(request)
        # A deployment passes its own function, which knows the caller's rewriters.
        if request.lower is not_lowered:
            request = msgspec.structs.replace(request, lower=self.lowering(request.ir.kind))
        return request

    def lowering(self, ir: IRKind, rewriters: Sequence[RewriterSet] = ()) -> Lowering:
        """Return the function to pass as ``ConvertRequest.lower`` in one conversion.

        Args:
            ir: The kind of the IR that is converted.
            rewriters: The caller's rewriters; the plugins' rewriters are added.
        """
        from enginebay.operations.lowering import Lowering

        return Lowering(self.name, ir, rewriters)

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

    def build_wrapper_from_param(
        self, params: BackendParams | Mapping[str, object] | None
    ) -> Wrapper:
        """Load the engine that :meth:`to_backend_from_param` wrote with the same parameters."""
        params = self.params_from(params)
        directory = Path(params.work_dir or ".")
        files = tuple(Path(file).relative_to(directory) for file in params.get_model_files())
        tensors = _read_tensors(directory / files[0])
        return self.load(
            WrapperRequest(
                directory=directory,
                files=files,
                params=params,
                inputs=tensors.inputs,
                outputs=tensors.outputs,
            )
        )

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
        from enginebay.operations.rewriter_sets import plugin_rewriters

        return plugin_rewriters(self.name, ir, builtin=builtin)

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

        if not isinstance(config, Mapping):
            raise ConfigError(
                f"invalid config: expected a mapping, found a {type(config).__name__}",
                hint="read a file by enginebay.authors.files.read_config",
            )
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
        from enginebay.operations.console import run

        run(self.name, self.parse_args, argv)


class _Tensors(msgspec.Struct, frozen=True):
    """The inputs and outputs of a model, which the files of many engines have only by position.

    Attributes:
        size: The size of the engine's file in bytes, which tells a later file from this one.
        inputs: The inputs in order.
        outputs: The outputs in order.
    """

    size: int = 0
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()


def _tensors_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.tensors.json")


def _read_tensors(file: Path) -> _Tensors:
    path = _tensors_file(file)
    if not (path.is_file() and file.is_file()):
        return _Tensors()
    try:
        tensors = msgspec.json.decode(path.read_bytes(), type=_Tensors)
    except msgspec.MsgspecError as err:
        raise ArtifactError(f"'{path}' is damaged: {err}", hint="convert the IR again") from err
    # Another tool may have replaced the engine's file.
    return tensors if tensors.size == file.stat().st_size else _Tensors()
