"""Check of inputs against the specs of the model's inputs, before the engine is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError, did_you_mean
from enginebay.tensors import is_text, is_torch, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from enginebay.params import SizeLimits
    from enginebay.tensors import Array, TensorSpec


class InputCheck:
    """Checks the names, dtypes and shapes of arrays against the specs of the model's inputs.

    Attributes:
        exact: The name, dtype and shape of each input of the model. If the input has a dynamic
            dimension, None stands instead of the shape, and equals the shape of no array.
        is_file: True if the specs are those of a file, whose sizes no option can open.
        limits: The smallest and the largest size of dynamic dimensions, as far as they are known.
    """

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        limits: SizeLimits | None = None,
        *,
        is_file: bool = False,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._dtypes = {spec.name: numpy_dtype(spec.dtype) for spec in specs}
        self.exact: tuple[tuple[str, np.dtype[Any], tuple[int | str, ...] | None], ...] = tuple(
            (spec.name, self._dtypes[spec.name], spec.dims if spec.is_static else None)
            for spec in specs
        )
        self.is_file = is_file
        self.limits: SizeLimits = limits or {}

    def bind_inputs(self, /, *inputs: object, **by_name: object) -> dict[str, Any]:
        """Return positional and named arrays as one mapping by the inputs' names.

        Args:
            *inputs: Arrays in the order of the model's inputs.
            **by_name: Further arrays by the names of the inputs.

        Raises:
            InputError: An input is missing, unknown or passed twice, or a value is not an array.
        """
        # Not strict: the count below finds superfluous inputs, and the error names all of them.
        bound = dict(zip(self._specs, inputs, strict=False)) | by_name
        is_complete = len(bound) == len(inputs) + len(by_name) == len(self._specs)
        if is_complete and all(hasattr(value, "dtype") for value in bound.values()):
            return bound
        kinds = [type(value).__name__ for value in inputs]
        kinds += [f"{name}={type(value).__name__}" for name, value in by_name.items()]
        specs = ", ".join(spec.describe() for spec in self._specs.values())
        example = ", ".join(f"'{name}': …" for name in self._specs)
        raise InputError(
            f"wrong inputs: expected arrays or tensors {specs}; found ({', '.join(kinds)})",
            hint=f"pass the inputs in this order, or as a dict: {{{example}}}",
        )

    def check_names(self, names: Mapping[str, object], *, spare: str = "") -> None:
        """Raise InputError if a name is missing or unknown.

        Args:
            names: The inputs by name.
            spare: A name that is no input's, but that an unknown one may be meant for.
        """
        if names.keys() == self._specs.keys():
            return
        expected = ", ".join(self._specs) or "no input"
        missing = [name for name in self._specs if name not in names]
        extra = [name for name in names if name not in self._specs]
        if extra:
            close = did_you_mean(str(extra[0]), missing or self._specs)
            raise InputError(
                f"unknown input '{extra[0]}': the model takes {expected}",
                hint=close or _suggest_name([*map(str, extra)], missing, spare),
            )
        raise InputError(
            f"input '{missing[0]}' is missing: the model takes {expected}",
            hint=f"add '{missing[0]}': {self._specs[missing[0]].describe()}",
        )

    def check(self, feed: Mapping[str, Array], *, torch: bool | None = None) -> None:
        """Raise InputError if a dtype or a shape is wrong; call :meth:`check_names` first.

        Args:
            feed: The inputs by name.
            torch: True if the caller passed torch tensors, False for NumPy arrays, None if unknown.
                The hint about a wrong dtype shows the call that converts a value of this type, or
                the calls for both types.
        """
        sizes: dict[str, tuple[int, str]] = {}
        for name, value in feed.items():
            spec = self._specs[name]
            is_tensor = is_torch(value)
            expected = f"torch.{spec.dtype}" if is_tensor else spec.dtype
            fits = str(value.dtype) == expected if is_tensor else value.dtype == self._dtypes[name]
            if spec.dtype == "string" and not (fits and is_text(value)):
                found = f"dtype {value.dtype}" if not fits else "objects other than texts"
                raise InputError(
                    f"input '{name}' has {found}, expected texts",
                    hint=f"pass a NumPy array of texts: numpy.asarray({name}, str)",
                )
            if not fits:
                calls = f"{name}.astype('{spec.dtype}')", f"{name}.to(torch.{spec.dtype})"
                raise InputError(
                    f"input '{name}' has dtype {value.dtype}, expected {expected}",
                    hint=f"convert it: {' or '.join(calls) if torch is None else calls[torch]}",
                )
            if spec.dims is not None:
                self._check_shape(spec, tuple(value.shape), sizes)
        _check_sums(sizes)

    def _check_shape(
        self, spec: TensorSpec, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]
    ) -> None:
        assert spec.dims is not None
        limits = self.limits.get(spec.name, {})
        if len(shape) != len(spec.dims):
            raise InputError(
                f"input '{spec.name}' has {len(shape)} dimensions {shape}, "
                f"expected {len(spec.dims)}: {spec.describe()}",
                hint=None if spec.dims else f"--input {spec.name}=1 for a single number",
            )
        for axis, (size, dim) in enumerate(zip(shape, spec.dims, strict=True)):
            if isinstance(dim, int):
                if size != dim:
                    raise InputError(
                        f"input '{spec.name}' has size {size} in dimension {axis} "
                        f"of {shape}, expected {dim}: {spec.describe()}",
                        hint=self._size_hint(spec, axis, shape),
                    )
            # Dynamic dimensions with the same name must have the same size.
            elif sizes.setdefault(dim, (size, spec.name))[0] != size:
                other_size, other = sizes[dim]
                raise InputError(
                    f"dimension '{dim}' has size {size} in input '{spec.name}', but size "
                    f"{other_size} in input '{other}': the sizes must be equal"
                )
            elif axis in limits:
                low, high = limits[axis]
                if size < low or (high is not None and size > high):
                    raise _limit_error(spec, axis, shape, low, high)

    def _size_hint(self, spec: TensorSpec, axis: int, shape: tuple[int, ...]) -> str:
        assert spec.dims is not None
        size = spec.dims[axis]
        opened = (
            f"give it {size}: the file fixes this size"
            if self.is_file
            else f"deploy with --dynamic {spec.name}:{axis} to make this dimension dynamic"
        )
        if axis != 1 or len(shape) != 4 or "float" not in spec.dtype:
            return opened
        # The weights of a model of images fix the number of channels: no flag opens it.
        form = (
            "pass them as N×C×H×W, not N×H×W×C"
            if shape[3] == size
            else f"give them {size} channels"
        )
        return f"if '{spec.name}' holds images, {form}; if not, {opened}"


def _check_sums(sizes: Mapping[str, tuple[int, str]]) -> None:
    sums = [dim for dim in sizes if "+" in dim]
    if not sums:
        return
    from enginebay.params import add_sizes

    known = {dim: size for dim, (size, _) in sizes.items()}
    for dim in sums:
        size, name = sizes[dim]
        expected = add_sizes(dim.replace(" ", ""), known)
        if expected not in (None, size):
            raise InputError(
                f"dimension '{dim}' has size {size} in input '{name}', but the sum of the others "
                f"is {expected}"
            )


def _limit_error(
    spec: TensorSpec, axis: int, shape: tuple[int, ...], low: int, high: int | None
) -> InputError:
    size = shape[axis]
    limits = f"{low} or more" if high is None else f"{low} to {high}"
    # The flag has no form for a range without an upper end.
    wider = f"{min(low, size)}:{max(high or 10 * max(low, 1), size)}"
    assert spec.dims is not None
    return InputError(
        f"input '{spec.name}' has size {size} in dimension {axis} of {shape}, but the artifact was "
        f"made for sizes of {limits}: {spec.describe()}",
        hint=f"deploy with a larger range: --dynamic {spec.name}:{axis}={spec.dims[axis]}:{wider} "
        "(for an ONNX file --min-shapes and --max-shapes)",
    )


def _suggest_name(unknown: Sequence[str], missing: Sequence[str], spare: str) -> str:
    found, lacking = (" or ".join(f"'{name}'" for name in names) for names in (unknown, missing))
    if missing:
        return f"rename {found} to {lacking}"
    return (f"rename {found} to '{spare}', or " if spare else "") + f"leave '{unknown[0]}' out"
