"""Make a bundle of a decoder: one verified artifact for all tokens, and a verdict on the tokens."""

from __future__ import annotations

import inspect
import os
import shutil
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay.authors.files import write_whole
from enginebay.commands import Fields, Result, Table
from enginebay.errors import (
    ArtifactExistsError,
    ConversionError,
    ExportError,
    NotVerifiedError,
    UsageError,
    one_line,
)
from enginebay_transformers.bundle import (
    ARTIFACT,
    RECORD,
    SCHEMA,
    Bundle,
    CacheTensor,
    Generation,
    PromptVerdict,
    pad_left,
)
from enginebay_transformers.laws import Part, find_breaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np

    from enginebay.authors import Step
    from enginebay.commands import Block

    Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Fields of a generation config that only choose among probable tokens.
_SAMPLING = "do_sample temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff"
#: Fields that choose no tokens, or that the loop honours.
_HONOURED = (
    "max_length max_new_tokens bos_token_id eos_token_id pad_token_id use_cache output_attentions "
    "output_hidden_states output_scores output_logits return_dict_in_generate compile_config "
    "disable_compile transformers_version _from_model_config"
)
#: Tokens of the example: of the cache, and after it.
_PAST, _NEW = 5, 3
#: The default of the largest number of tokens, if the model has more positions.
_LIMIT = 512
#: A prompt of the verdict is longer than the window of sliding layers if this is not longer.
_LONG_WINDOW = 256


class BundleDeployment(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`deploy_decoder`.

    Attributes:
        path: The bundle's folder.
        deployment: The deployment of its artifact.
        prompts: The verdict on the tokens.
        notes: What was decided about the generation config and the positions.
    """

    path: Path
    deployment: eb.Deployment
    prompts: tuple[PromptVerdict, ...]
    notes: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield the artifact's blocks, the bundle's folder, and the verdict on the tokens."""
        yield from self.deployment.blocks()
        yield ""
        yield Fields([("bundle", str(self.path)), *(("note", note) for note in self.notes)])
        rows = []
        for text, batched in (("alone", False), ("in a left-padded batch", True)):
            found = [prompt.verdict for prompt in self.prompts if prompt.batched is batched]
            counts = (str(found.count(each)) for each in ("equal", "undecided", "wrong"))
            rows.append((text, str(len(found)), *counts))
        header = ("TOKENS", "PROMPTS", "EQUAL", "UNDECIDED", "WRONG")
        yield Table(header, rows, header[1:])
        yield from (each.detail for each in self.prompts if each.detail)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``enginebay bundle --json`` prints."""
        more = {"kind": "bundle", "bundle": str(self.path), "bundle_notes": self.notes}
        prompts = msgspec.to_builtins(self.prompts)
        return self.deployment.to_dict() | more | {"prompts": prompts}


def deploy_decoder(
    model: object,
    *,
    backend: str,
    work_dir: str | Path,
    params: eb.BackendParams | Mapping[str, object] | None = None,
    verify: eb.VerifyOptions | Mapping[str, object] | None = None,
    prompts: int = 8,
    tokens: int = 16,
    positions: int | None = None,
    greedy: bool = False,
    overwrite: bool = False,
    watch: Callable[[Step], None] | bool | None = None,
) -> BundleDeployment:
    """Deploy a decoder of transformers, and compare its tokens with those of ``model.generate``.

    One artifact reads the prompt and each new token. It takes the ids, a mask, the positions and
    the cache, and returns the last logits and the longer cache. The bundle appears complete at its
    path, or not at all.

    Args:
        model: The decoder, or its name, as :func:`enginebay.deploy` takes it.
        backend: The backend, whose engine must support empty tensors: the cache is empty at first.
        work_dir: The folder of the new bundle.
        params: The backend's parameters.
        verify: How to compare: :class:`enginebay.VerifyOptions`, or a mapping of its fields.
        prompts: The number of random prompts, each of which is tried alone and in a batch.
        tokens: The number of tokens to compare after each prompt.
        positions: The largest number of tokens of a prompt and its continuation; by default the
            model's, at most 512.
        greedy: Accept a generation config that asks for sampling; the bundle does not sample.
        overwrite: Replace an existing bundle.
        watch: As for :func:`enginebay.deploy`.

    Raises:
        UsageError: The model is no such decoder, its generation config asks for what the bundle
            does not do, or an argument is wrong; nothing was written.
        NotVerifiedError: The outputs or the tokens are wrong.
    """
    from enginebay.authors.sources import evaluation, find_model

    source = find_model(model)
    decoder = source.module
    argument = check_decoder(decoder, source.description)
    notes = check_generation(decoder, greedy)
    _check_backend(backend)
    available = getattr(decoder.config.get_text_config(), "max_position_embeddings", _LIMIT)
    limit = min(positions or _LIMIT, available)
    if limit < available:
        notes += (f"the bundle has {limit} of the model's {available} positions: --positions",)
    if limit < tokens + _PAST + _NEW:
        raise UsageError(f"{tokens} tokens after each prompt require more than {limit} positions")
    with evaluation(decoder), _staged(Path(work_dir), overwrite) as (folder, target):
        example = make_example(decoder, argument, limit)
        dynamic: dict[str, Any] = {
            name: {0: "batch", 1: "tokens"}
            for name in ("input_ids", "position_ids")
            if name in example
        }
        dynamic["attention_mask"] = {0: "batch", 1: "past+tokens"}
        dynamic[argument] = {0: "batch", 2: ("past", 0, limit - 1)}
        deployment = eb.deploy(
            source,
            example,
            backend=backend,
            params=params,
            verify=verify,
            dynamic=dynamic,
            work_dir=folder / ARTIFACT,
            watch=watch,
        )
        _check_laws(decoder, example, deployment)
        record = describe_generation(decoder, deployment, argument, limit)
        with Bundle(record, eb.load(deployment.artifact)) as bundle:
            verdicts = tuple(compare_tokens(decoder, bundle, deployment, prompts, tokens))
        wrong = [each for each in verdicts if each.verdict == "wrong"]
        if wrong and not eb.VerifyOptions.of(verify).allow_mismatch:
            raise _wrong_tokens(wrong, len(verdicts), deployment)
        record = msgspec.structs.replace(record, prompts=verdicts)
        record = msgspec.structs.replace(record, sha256=record.digest())
        write_whole(folder / RECORD, msgspec.json.format(msgspec.json.encode(record)))
    artifact = msgspec.structs.replace(deployment.artifact, path=target / ARTIFACT)
    deployment = msgspec.structs.replace(deployment, artifact=artifact, steps=deployment.steps[:-1])
    return BundleDeployment(path=target, deployment=deployment, prompts=verdicts, notes=notes)


def check_decoder(model: Any, name: str) -> str:
    """Return the name of the argument for the cache.

    Raises:
        UsageError: The model is not a decoder of token ids with a cache of keys and values.
    """
    config: Any = getattr(model, "config", None)
    names = inspect.signature(model.forward).parameters
    cache = next((each for each in ("cache", "past_key_values") if each in names), None)
    kinds = {*(getattr(config, "layer_types", None) or ())}
    other = [
        each for each in names if each.startswith(("pixel_", "input_features", "input_values"))
    ]
    if not hasattr(model, "generation_config") or not model.can_generate():
        cause = "it has no 'generate'"
    elif config.is_encoder_decoder:
        cause = "it is an encoder and a decoder, and a bundle has no encoder"
    elif other:
        cause = f"images or sound are among its inputs: {', '.join(other)}"
    elif cache is None or "attention_mask" not in names:
        cause = f"its forward takes no {'mask' if cache else 'cache of keys and values'}"
    elif odd := sorted(kinds - {"full_attention", "sliding_attention", "chunked_attention"}):
        cause = f"it has layers without a cache of keys and values: {', '.join(odd)}"
    else:
        try:
            make_example(model, cache, _PAST + _NEW)
        except Exception as err:  # noqa: BLE001  # a model may raise anything
            cause = f"it does not run with a cache of keys and values alone: {one_line(err)}"
        else:
            return cache
    raise UsageError(
        f"'{name}' cannot become a bundle: {cause}",
        hint="a bundle is for a decoder such as LlamaForCausalLM; enginebay deploy takes any model",
    )


def check_generation(model: Any, greedy: bool) -> tuple[str, ...]:
    """Check that the generation config asks for nothing but the most probable token.

    Returns:
        A note about the fields that ``greedy`` overrides; empty if there are none.

    Raises:
        UsageError: The config asks for more; the message names every such field.
    """
    config = model.generation_config
    defaults = config._get_default_generation_params()
    asked = {
        name: value
        for name, value in config.to_dict().items()
        if value is not None and value != defaults.get(name) and name not in _HONOURED.split()
        # Theirs replaces this default of older releases by a dynamic cache, too.
        if (name, value)
        not in (("cache_implementation", "hybrid"), ("cache_implementation", "dynamic"))
    }
    ignored = [f"{name}={value!r}" for name, value in asked.items() if name in _SAMPLING.split()]
    others = [f"{name}={value!r}" for name, value in asked.items() if name not in _SAMPLING.split()]
    if others or (ignored and not greedy):
        named = [*others, *(() if greedy else ignored)]
        raise UsageError(
            f"the generation config asks for {', '.join(named)}, and a bundle only appends the "
            "most probable token",
            hint="remove these fields from model.generation_config"
            if others
            else "--greedy makes a bundle that does not sample",
        )
    return (f"greedy: the bundle ignores {', '.join(ignored)}",) if ignored else ()


def make_example(model: Any, cache: str, limit: int) -> dict[str, Any]:
    """Return inputs with a filled cache.

    One row is padded, since exports lose a mask that is all 1; the other is at the last positions.
    """
    import torch
    from transformers.cache_utils import DynamicCache, DynamicLayer

    names = inspect.signature(model.forward).parameters
    mask = torch.ones(2, _PAST + _NEW, dtype=torch.int64)
    mask[1, :2] = 0
    ids = (
        torch.arange(mask.numel()).reshape(mask.shape) % model.get_input_embeddings().num_embeddings
    )
    # Without the config, sliding layers keep all tokens, and the mask cuts them.
    filled = DynamicCache()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    positions[0] += limit - _PAST - _NEW
    inputs = {"input_ids": ids, "position_ids": positions}
    inputs = {name: value for name, value in inputs.items() if name in names}
    past = {name: value[:, :_PAST] for name, value in inputs.items()}
    more = {cache: filled, "use_cache": True}
    with torch.no_grad():
        model(**past, attention_mask=mask[:, :_PAST], **more)
    for layer in filled.layers:
        if type(layer) is not DynamicLayer or layer.keys is None:
            raise UsageError(f"a layer's cache is a {type(layer).__name__}, or empty")
    new = {name: value[:, _PAST:] for name, value in inputs.items()}
    last = {"logits_to_keep": 1} if "logits_to_keep" in names else {}
    return {**new, "attention_mask": mask, **more, **last}


@cache
def _check_backend(backend: str) -> None:
    """Raise UsageError if a backend cannot append to an empty cache, before a long export."""
    import torch

    class Append(torch.nn.Module):
        def forward(self, past: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            return torch.cat([past, new], 2)

    example = {"past": torch.rand(1, 2, 3, 4), "new": torch.rand(1, 2, 1, 4)}
    dynamic = {"past": {2: ("past", 0, 4)}}
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder, "append")
            eb.deploy(Append(), example, backend=backend, dynamic=dynamic, work_dir=path)
    except (ConversionError, NotVerifiedError) as err:
        message = f"backend '{backend}' cannot open the past of a cache: {err}"
        raise UsageError(message, hint="choose another --backend: enginebay backends") from err


def _check_laws(model: Any, example: Mapping[str, Any], deployment: eb.Deployment) -> None:
    """Raise ExportError if the artifact lacks what changes the tokens of ``generate``."""
    artifact = deployment.artifact
    known = artifact.verified_range
    tried = {name: size.sizes for name, size in known.sizes.items()} if known else {}
    sizes = {spec.name: spec.dims or () for spec in artifact.inputs}
    mask = example["attention_mask"]
    sample = {"input_ids": mask.cumsum(1), "attention_mask": mask}
    breaches = find_breaches(model, sample, [Part(ARTIFACT, model, example, sizes, tried)])
    if breaches:
        raise ExportError("\n".join(breaches))


def describe_generation(
    model: Any, deployment: eb.Deployment, cache: str, limit: int
) -> Generation:
    """Return the record of a decoder's loop, without the verdict on tokens."""
    from importlib.metadata import version

    artifact = deployment.artifact
    eos = model.generation_config.eos_token_id
    ends = tuple(eos) if isinstance(eos, list | tuple) else () if eos is None else (eos,)
    pad = model.generation_config.pad_token_id
    tensors = [spec for spec in artifact.inputs if spec.name.startswith(f"{cache}.")]
    distributions = ("enginebay", "enginebay-transformers", "transformers", "torch")
    return Generation(
        schema=SCHEMA,
        versions={name: version(name) for name in distributions},
        model=type(model).__name__,
        artifact=artifact.digest,
        ids="input_ids",
        mask="attention_mask",
        positions=next((s.name for s in artifact.inputs if s.name == "position_ids"), None),
        logits=artifact.outputs[0].name,
        cache=tuple(
            CacheTensor(spec.name, f"{spec.name}_out", spec.dims[1], spec.dims[3])  # type: ignore[arg-type,index]  # 4 dimensions
            for spec in tensors
        ),
        vocabulary=model.get_input_embeddings().num_embeddings,
        limit=limit,
        eos=ends,
        pad=pad if pad is not None else ends[0] if ends else 0,
    )


def compare_tokens(
    model: Any, bundle: Bundle, deployment: eb.Deployment, prompts: int, tokens: int
) -> Iterator[PromptVerdict]:
    """Yield the verdict on each prompt, alone and as a row of a left-padded batch."""
    import numpy as np

    record = bundle.generation
    generator = np.random.default_rng(0)
    window = getattr(model.config.get_text_config(), "sliding_window", None) or 0
    longest = min(record.limit - tokens, max(24, window + 8 if window <= _LONG_WINDOW else 0))
    lengths = np.linspace(1, longest, prompts).round().astype(int)
    rows = [generator.integers(0, record.vocabulary, length) for length in lengths]
    for row in rows:
        yield from _compare(model, bundle, deployment, [row], tokens, batched=False)
    yield from _compare(model, bundle, deployment, rows, tokens, batched=True)


def _compare(
    model: Any,
    bundle: Bundle,
    deployment: eb.Deployment,
    rows: list[Ints],
    tokens: int,
    *,
    batched: bool,
) -> Iterator[PromptVerdict]:
    import torch

    record = bundle.generation
    ids, mask = pad_left(rows, record.pad)
    found = bundle.generate(ids, mask, tokens)[:, ids.shape[1] :]
    with torch.no_grad():
        result = model.generate(
            torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask),
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=record.pad,
            return_dict_in_generate=True,
            output_logits=True,
        )
    expected = result.sequences[:, ids.shape[1] :].numpy()
    terms = next(o for o in deployment.verification.outputs if o.name == record.logits)
    for number, row in enumerate(rows):
        # After the end of a row, both sides pad it.
        pairs = enumerate(zip(expected[number], found[number], strict=False))
        place, (right, ours) = next((p for p in pairs if p[1][0] != p[1][1]), (-1, (0, 0)))
        if place < 0:
            yield PromptVerdict(len(row), batched, "equal")
            continue
        logits = result.logits[place][number, [right, ours]].double()
        tolerance = 2 * terms.atol + terms.rtol * float(logits.abs().sum())
        gap = float(logits[0] - logits[1])
        text = (
            f"the prompt of {len(row)} tokens {'in a batch' if batched else 'alone'}: new token "
            f"{place} is {ours}, expected {right}; their logits differ by {gap:.2g} in PyTorch, "
            f"tolerance {tolerance:.2g}"
        )
        word = "undecided" if gap <= tolerance else "wrong"
        yield PromptVerdict(len(row), batched, word, text)


def _wrong_tokens(
    wrong: list[PromptVerdict], count: int, deployment: eb.Deployment
) -> NotVerifiedError:
    text = f"the tokens after {len(wrong)} of {count} prompts are wrong; {wrong[0].detail}"
    verdict = msgspec.structs.replace(deployment.verification, verdict="mismatched", reason=text)
    hint = "--allow-mismatch publishes the bundle with this verdict"
    return NotVerifiedError(verdict.headline(), verdict=verdict, hint=hint)


@contextmanager
def _staged(target: Path, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Yield a new folder and the absolute target, to which the folder is renamed at the end."""
    target = target.absolute()
    if target.exists() and not (overwrite and (target / RECORD).is_file()):
        state = "is a bundle" if (target / RECORD).is_file() else "exists and is no bundle"
        hint = "--overwrite, or choose another --work-dir"
        raise ArtifactExistsError(f"'{target}' {state}", hint=hint)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    old = folder.with_suffix(".old")
    try:
        yield folder, target
        if target.exists():
            target.rename(old)
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
