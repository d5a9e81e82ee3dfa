"""Creates an ONNX Runtime session from the parameters."""

from __future__ import annotations

import logging
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

import msgspec

from enginebay.environment import install_command
from enginebay.errors import ConversionError, FallbackError, MissingDependencyError, ParamsError
from enginebay_onnxruntime import cache
from enginebay_onnxruntime.custom_ops import locate_libraries, register_libraries
from enginebay_onnxruntime.optimizers import KEY, find_wrong_optimizers
from enginebay_onnxruntime.params import CUDA
from enginebay_onnxruntime.providers import (
    CPU,
    available_providers,
    count_nodes,
    demands_packaged,
    describe_others,
    is_packaged,
    list_others,
    list_packaged,
    preload_cuda,
    provider_options,
    records_assignment,
    resolve_providers,
)
from enginebay_onnxruntime.reasons import find_locale, format_reason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import onnxruntime

    from enginebay.hooks import WrapperRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams
    from enginebay_onnxruntime.provider_packages import Provider

_log = logging.getLogger("enginebay.onnxruntime")

_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
#: ONNX Runtime's message about an operator that it has for other dtypes only.
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node with name '(.*)'")
#: The hint if a model does not run as a CUDA graph.
NO_GRAPH = (
    "leave out --cuda-graph: a graph has no node on the CPU, no branch or loop, and no size that "
    "depends on values"
)
# Of OrtLoggingLevel. The receipt reports the warnings about providers, so only -v shows them.
_WARNING_SEVERITY, _ERROR_SEVERITY, _FATAL_SEVERITY = 2, 3, 4


def create_session(
    request: WrapperRequest[OnnxruntimeParams],
) -> tuple[onnxruntime.InferenceSession, str]:
    """Create a session on the artifact's model, from the cache of optimised models if possible.

    Returns:
        The session, and how the cache was used: ``hit``, ``written``, or empty without a cache.

    Raises:
        MissingDependencyError: ONNX Runtime does not import.
        ParamsError: A provider or a provider's option does not exist or is not valid.
        ConversionError: ONNX Runtime cannot load the model or a custom-op library.
        FallbackError: ``strict`` is set, and a part of the graph would run on the CPU.
    """
    import_onnxruntime()
    params = request.params
    model = request.directory / request.files[0]
    if params.optimized_cache and any(map(is_packaged, resolve_providers(params))):
        raise ParamsError(
            "optimized_cache is for ONNX Runtime's own providers: it cannot write the graph of "
            "another provider to a file",
            hint="leave out --optimized-cache",
        )
    if not params.optimized_cache:
        return load_session(model, request, make_session_options(request)), ""
    files = [request.directory / file for file in request.files]
    entry = cache.locate_entry(params.optimized_cache, files, _cache_settings(request))
    optimized = cache.find_model(entry)
    if optimized:
        try:
            # The graph in the cache is optimised already.
            return load_session(
                optimized, request, make_session_options(request, level="disable")
            ), "hit"
        except ConversionError as err:
            _log.warning(
                "the optimised model in '%s' cannot be loaded and is created again: %s", entry, err
            )
    options = make_session_options(request)
    with cache.write_entry(entry, options):
        return load_session(model, request, options), "written"


def import_onnxruntime() -> None:
    """Check that ONNX Runtime can be imported.

    Raises:
        MissingDependencyError: ONNX Runtime is not installed, or its import fails.
    """
    try:
        import onnxruntime  # noqa: F401  # only to check that it imports
    except ImportError as err:
        raise MissingDependencyError(
            f"ONNX Runtime cannot be imported: {err}",
            hint=f"{install_command('enginebay-onnxruntime[cpu]')}, or [gpu]",
        ) from err


def make_session_options(
    request: WrapperRequest[OnnxruntimeParams],
    *,
    level: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> onnxruntime.SessionOptions:
    """Create session options from the parameters.

    Args:
        request: The request to load the model.
        level: The level of graph optimisation, instead of the parameters'.
        sizes: The sizes of open dimensions, by name, which become fixed.
    """
    import onnxruntime

    params = request.params
    options = onnxruntime.SessionOptions()
    verbose = _log.isEnabledFor(logging.DEBUG)
    options.log_severity_level = _WARNING_SEVERITY if verbose else _ERROR_SEVERITY
    options.intra_op_num_threads = params.intra_op_threads
    if params.inter_op_threads != 1:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = params.inter_op_threads
    name = _LEVELS[level or params.graph_optimization]
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    if records_assignment(params):
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if _forbids_cpu(request):
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if demands_packaged(params):  # the error says it, and more
            options.log_severity_level = _FATAL_SEVERITY
    if wrong := find_wrong_optimizers(request):
        options.add_session_config_entry(KEY, wrong)
    for dimension, size in (sizes or {}).items():
        options.add_free_dimension_override_by_name(dimension, size)
    for key, value in params.session_options.items():
        options.add_session_config_entry(key, value)
    _enable_profile(options, params.profile)
    register_libraries(locate_libraries(params.custom_ops, request.directory), options)
    return options


def _enable_profile(options: onnxruntime.SessionOptions, prefix: str | None) -> None:
    if not prefix:
        return
    from pathlib import Path

    # If the folder is missing, ONNX Runtime writes nothing, without an error.
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    options.enable_profiling = True
    options.profile_file_prefix = prefix


def _forbids_cpu(request: WrapperRequest[OnnxruntimeParams]) -> bool:
    """Return True if the session must reject a model that would partly run on the CPU."""
    if demands_packaged(request.params):
        return True
    first = resolve_providers(request.params)[0]
    if is_packaged(first):
        return request.strict
    return request.strict and first != CPU and first in available_providers()


def load_session(
    model: Path,
    request: WrapperRequest[OnnxruntimeParams],
    options: onnxruntime.SessionOptions,
    sizes: Mapping[str, int] | None = None,
) -> onnxruntime.InferenceSession:
    """Create a session with the given options, which fix the ``sizes`` of open dimensions.

    Raises:
        ConversionError: ONNX Runtime cannot load the model.
        FallbackError: A part of the graph would run on the CPU, and ``strict`` is set, or the
            provider of a package was requested alone.
    """
    import onnxruntime

    packaged = list_packaged(request.params)
    if packaged:
        return _load_packaged(model, request, options, packaged, sizes)
    available = available_providers()
    # A session without CPU fallback also rejects the CPU provider in the list.
    excluded = {CPU} if _forbids_cpu(request) else set()
    providers = [
        (name, options_of_provider)
        for name, options_of_provider in provider_options(request.params).items()
        if name in available and name not in excluded
    ] or [(CPU, {})]
    if any(name == CUDA for name, _ in providers):
        preload_cuda()
    try:
        # ONNX Runtime's own fallback prints to stdout and tries the CPU, even during a run.
        return onnxruntime.InferenceSession(
            str(model), options, providers=providers, enable_fallback=0
        )
    except Exception as err:  # ONNX Runtime's errors have no other base class
        if request.strict and "fallback" in str(err).lower():
            raise FallbackError(
                "the requested provider cannot run the whole model, and strict mode forbids the "
                f"CPU for the rest: {err}",
                hint="leave out --strict, or request another provider",
            ) from err
        if request.params.cuda_graph and "graph capture" in str(err):
            raise ConversionError(
                f"ONNX Runtime cannot load '{model.name}' for a CUDA graph: {format_reason(err)}",
                hint=NO_GRAPH,
            ) from err
        _raise_unloadable(model, err)


def _raise_unloadable(model: Path, err: Exception) -> NoReturn:
    if locale := find_locale(err):
        raise ConversionError(
            f"ONNX Runtime cannot load '{model.name}': StringNormalizer requires the locale "
            f"{locale}, which this machine lacks",
            hint="apt-get install locales-all; or export the model with the locale C: "
            "options={id(vectorizer): {'locale': 'C'}}",
        ) from err
    without = _find_missing_kernel(str(err), model)
    reason = f"it has no kernel of {without}: " if without else ""
    raise ConversionError(
        f"ONNX Runtime cannot load '{model.name}': {reason}{format_reason(err)}",
        hint="compute there in another dtype, such as float32; enginebay preview MODEL "
        "--backend onnxruntime names the modules"
        if without
        else None,
    ) from err


def _load_packaged(
    model: Path,
    request: WrapperRequest[OnnxruntimeParams],
    options: onnxruntime.SessionOptions,
    packaged: Mapping[str, Provider],
    sizes: Mapping[str, int] | None,
) -> onnxruntime.InferenceSession:
    """Create a session with providers of packages, and perhaps others."""
    import onnxruntime

    for name, given in provider_options(request.params).items():
        if name in packaged:
            provider = packaged[name]
            options.add_provider_for_devices([provider.handle], provider.complete_options(given))
        elif name != CPU and name in available_providers():
            options.add_provider(name, given)
    try:
        return onnxruntime.InferenceSession(str(model), options, enable_fallback=0)
    except Exception as err:  # noqa: BLE001  # ONNX Runtime's errors have no other base class
        if not (_forbids_cpu(request) and "fallback" in str(err).lower()):
            _raise_unloadable(model, err)
    provider = next(iter(packaged.values()))
    params = request.params.replace(providers=(*request.params.providers, CPU))
    partial = msgspec.structs.replace(request, params=params, strict=False)
    options = make_session_options(partial, sizes=sizes)
    session = _load_packaged(model, partial, options, packaged, sizes)
    total, others = count_nodes(params, session).total(), list_others(params, session)
    raise FallbackError(
        f"{provider.package} does not run the whole model: {describe_others(others, total)}",
        hint="--device auto lets the CPU run the rest"
        if others.total() < total
        else "it takes no node: check --provider-options, or choose another provider",
    )


def _find_missing_kernel(error: str, model: Path) -> str:
    """Return the operator and the dtypes that have no kernel, such as ``MatMul for bfloat16``.

    An empty string if the error is another one, or the model's file does not say the dtypes.
    """
    found = _NO_KERNEL.search(error)
    if found is None or find_spec("onnx") is None:  # loading needs no onnx
        return ""
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    values = (*graph.input, *graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    read = [n.input for n in graph.node if (n.op_type, n.name) == found.groups()]
    kinds = dict.fromkeys(types[name] for name in (read[0] if read else ()) if types.get(name))
    names = [onnx.helper.tensor_dtype_to_np_dtype(kind).name for kind in kinds]
    return f"{found[1]} for {' and '.join(names)}" if names else ""


def _cache_settings(request: WrapperRequest[OnnxruntimeParams]) -> tuple[object, ...]:
    """Return the settings that an optimised model depends on, in addition to the model's files."""
    import onnxruntime

    params = request.params
    return (
        onnxruntime.__version__,
        params.graph_optimization,
        find_wrong_optimizers(request),
        provider_options(params),
        sorted(params.session_options.items()),
    )
