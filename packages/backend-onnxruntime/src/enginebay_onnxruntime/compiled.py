"""Compiles a model for the provider of a package, so that loading skips the compilation.

ONNX Runtime writes a model with one node, which holds what the provider has compiled. Another
version of the provider or of ONNX Runtime may not read it, so the artifact is bound to both.
"""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

from enginebay.authors.isolation import call
from enginebay.environment import installed_version
from enginebay.errors import ConversionError, ParamsError
from enginebay_onnxruntime.environment import RIVALS
from enginebay_onnxruntime.provider_packages import find_distribution, find_module, plug_in
from enginebay_onnxruntime.providers import demands_packaged, provider_options
from enginebay_onnxruntime.reasons import format_reason

if TYPE_CHECKING:
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: Seconds for the compilation.
_TIMEOUT = 3600.0


def list_versions(params: OnnxruntimeParams) -> dict[str, str]:
    """Return the versions that a compiled model depends on, by distribution."""
    packages = filter(None, (find_distribution(find_module(name)) for name in params.providers))
    versions = {package.name: package.version for package in packages}
    return versions | {name: text for name in RIVALS if (text := installed_version(name))}


def check_compiled(params: OnnxruntimeParams) -> None:
    """Check that the parameters name a provider that can compile a model.

    Raises:
        ParamsError: They name no provider of a package, allow the CPU to run a part, or list sizes.
    """
    if not demands_packaged(params) or len(params.providers) > 1:
        raise ParamsError(
            "compiled is for one provider of a package, which runs the whole model",
            hint="--providers onnxruntime_qnn, without --device auto",
        )
    if params.sizes:
        raise ParamsError("a compiled model has fixed sizes", hint="leave out --sizes")


def compile_file(model: Path, params: OnnxruntimeParams) -> None:
    """Replace a model by the compiled one, in a child process.

    Raises:
        ConversionError: The provider does not run the whole model, or does not write compiled ones.
    """
    (name,) = params.providers
    options = provider_options(params)[name]
    compiled = model.with_name(f"{model.name}.compiled")
    function = f"{__name__}:write_compiled"
    call(
        *(function, str(model), str(compiled), name, params.device, options),
        timeout=_TIMEOUT,
        result_type=NoneType,
    )
    compiled.replace(model)


def write_compiled(
    model: str, compiled: str, name: str, device: str, options: dict[str, str]
) -> None:
    """In the child process: write the compiled model."""
    import onnxruntime

    provider = plug_in(name, device)
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 4
    entries = {
        "session.disable_cpu_ep_fallback": "1",
        "ep.context_enable": "1",
        "ep.context_file_path": compiled,
        "ep.context_embed_mode": "1",
    }
    for key, value in entries.items():
        session_options.add_session_config_entry(key, value)
    session_options.add_provider_for_devices([provider.handle], provider.complete_options(options))
    try:
        onnxruntime.InferenceSession(model, session_options)
    except Exception as err:
        raise ConversionError(
            f"{provider.package} cannot compile '{Path(model).name}' to a file: "
            f"{format_reason(err)}",
            hint="leave out --compiled",
        ) from err
    if not Path(compiled).is_file():
        raise ConversionError(
            f"{provider.package} compiles no models to files", hint="leave out --compiled"
        )
