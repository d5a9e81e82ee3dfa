"""Engines with fixed sizes for a model with open dimensions, chosen at the call.

Some providers, such as Qualcomm's, take no node of a model with an open dimension. One file serves
all sizes: a session fixes the sizes of its dimensions by their names.
"""

from __future__ import annotations

from itertools import product
from threading import Lock
from typing import TYPE_CHECKING

from enginebay.authors.isolation import call
from enginebay.errors import ConversionError, InputError, ParamsError, did_you_mean
from enginebay_onnxruntime.provider_packages import plug_in
from enginebay_onnxruntime.providers import is_packaged, resolve_providers
from enginebay_onnxruntime.session import import_onnxruntime, load_session, make_session_options
from enginebay_onnxruntime.wrapper import OnnxruntimeWrapper, wrap_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import ConvertRequest, WrapperRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: The name in the parameter ``sizes`` that stands for all dimensions without sizes of their own.
ANY = "*"
#: The engines that a wrapper keeps in addition to those that it makes when it is loaded.
_MOST_OTHERS = 16
_TRIAL_SECONDS = 60.0

Sizes = dict[str, int]


def check_open_dimensions(request: ConvertRequest[OnnxruntimeParams]) -> None:
    """Refuse a model with open dimensions for a provider that takes none.

    Raises:
        ConversionError: The provider of a package takes no open dimension, and the parameter
            ``sizes`` is empty.
        ParamsError: A dimension has no sizes in ``sizes``, or a provider is unknown.
    """
    names = list_open_dimensions(request.ir.inputs)
    if not names:
        return
    if request.params.sizes:
        next(list_sizes(request.params, names))
        return
    device = request.params.device
    for name in filter(is_packaged, resolve_providers(request.params)[:1]):
        function = f"{__name__}:takes_open_dimensions"
        if not call(function, name, device, timeout=_TRIAL_SECONDS, result_type=bool):
            examples = ",".join(spec.describe() for spec in request.ir.inputs if not spec.is_static)
            flags = " ".join(f"--sizes {name}=1,4" for name in names)
            raise ConversionError(
                f"the provider of {name} takes no open dimensions, and the model has some: "
                f"{examples}",
                hint=f"fix all sizes in the model, or make an engine for each size: {flags}",
            )


def takes_open_dimensions(name: str, device: str) -> bool:
    """In a child process: return False if a provider takes a node only with fixed sizes."""
    import onnx
    import onnxruntime

    def takes(size: str) -> bool:
        text = f"(float[{size}, 4] x) => (float[{size}, 4] y) {{ y = Relu(x) }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> tiny {text}')
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices([provider.handle], provider.complete_options({}))
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options)
        except Exception:  # noqa: BLE001  # ONNX Runtime's errors have no other base class
            return False
        return True

    provider = plug_in(name, device)
    return takes("n") or not takes("2")


def list_open_dimensions(specs: Sequence[TensorSpec]) -> list[str]:
    """Return the names of the open dimensions of inputs."""
    dims = (dim for spec in specs for dim in spec.dims or ())
    return list(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))


def list_sizes(params: OnnxruntimeParams, names: Sequence[str]) -> Iterator[Sizes]:
    """Yield all combinations of the sizes that the parameter ``sizes`` gives for dimensions.

    Raises:
        ParamsError: A dimension has no sizes, or sizes are for a dimension that a model with open
            dimensions does not have.
    """
    if names and (unknown := params.sizes.keys() - {*names, ANY}):
        raise ParamsError(
            f"sizes has numbers for '{min(unknown)}', which is no open dimension of the model; "
            f"it has {', '.join(names)}",
            hint=did_you_mean(min(unknown), names),
        )
    numbers = [params.sizes.get(name, params.sizes.get(ANY, ())) for name in names]
    if () in numbers:
        name = names[numbers.index(())]
        raise ParamsError(
            f"sizes has no numbers for the dimension '{name}'", hint=f"--sizes {name}=1,4"
        )
    return (dict(zip(names, chosen, strict=True)) for chosen in product(*numbers))


def load_sized(request: WrapperRequest[OnnxruntimeParams]) -> OnnxruntimeWrapper:
    """Create a session for each combination of sizes, and return a wrapper that chooses one."""
    import_onnxruntime()
    names = list_open_dimensions(request.inputs)
    engines = {
        tuple(sizes.values()): _load(request, sizes) for sizes in list_sizes(request.params, names)
    }
    return SizedWrapper(request, names, engines) if names else engines[()]


def _load(request: WrapperRequest[OnnxruntimeParams], sizes: Sizes) -> OnnxruntimeWrapper:
    model = request.directory / request.files[0]
    options = make_session_options(request, sizes=sizes)
    return wrap_session(load_session(model, request, options, sizes), request)


class SizedWrapper(OnnxruntimeWrapper):
    """Runs a model with an engine for each combination of sizes.

    Sizes that the parameter ``sizes`` does not list get an engine at the first call with them.

    Args:
        request: The request to load the model.
        names: The names of the open dimensions.
        engines: The engines by their sizes, in the order of the names. The first one's receipt is
            the wrapper's.
    """

    def __init__(
        self,
        request: WrapperRequest[OnnxruntimeParams],
        names: Sequence[str],
        engines: dict[tuple[int, ...], OnnxruntimeWrapper],
    ) -> None:
        first = next(iter(engines.values()))
        super().__init__(
            first.session, receipt=first.receipt, inputs=first.inputs, outputs=first.outputs
        )
        self._request = request
        self._dimensions = tuple(names)
        self._engines = engines
        self._others: dict[tuple[int, ...], OnnxruntimeWrapper] = {}
        self._lock = Lock()

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the engine for the arrays' sizes."""
        found = {
            dim: size
            for spec in self.inputs
            for dim, size in zip(spec.dims or (), feed[spec.name].shape, strict=True)
        }
        sizes = tuple(found[name] for name in self._dimensions)
        return (self._engines.get(sizes) or self._find_other(sizes)).execute(feed)

    def _find_other(self, sizes: tuple[int, ...]) -> OnnxruntimeWrapper:
        if 0 in sizes:  # Qualcomm's compiler divides by it, which ends the process
            raise InputError(
                "an engine with fixed sizes has no empty dimension: "
                f"'{self._dimensions[sizes.index(0)]}' is 0",
                hint="leave the call out, or deploy without --sizes to a provider that takes it",
            )
        with self._lock:
            fixed = dict(zip(self._dimensions, sizes, strict=True))
            engine = self._others.pop(sizes, None) or _load(self._request, fixed)
            self._others[sizes] = engine  # the last one is the one that was used last
            if len(self._others) > _MOST_OTHERS:
                del self._others[next(iter(self._others))]
            return engine

    def release(self) -> None:
        """Free all sessions."""
        self._engines.clear()
        self._others.clear()
        super().release()
