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
from enginebay import errors
from enginebay.authors.files import write_whole
from enginebay.commands import Result, Table
from enginebay_transformers import bundle, upstream
from enginebay_transformers.bundle import PromptVerdict
from enginebay_transformers.laws import Part, find_breaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from enginebay.authors import Step
    from enginebay.authors.arrays import NumpyArray
    from enginebay.commands import Block
    from enginebay_transformers.bundle import Bundle, Generation

#: Fields of a generation config that only choose among probable tokens.
_SAMPLING = "do_sample temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff"
#: Fields that choose no tokens, or that the loop honours.
_HONOURED = (
    "max_length max_new_tokens bos_token_id eos_token_id pad_token_id use_cache output_attentions "
    "output_hidden_states output_scores output_logits return_dict_in_generate compile_config "
    "disable_compile transformers_version _from_model_config"
)
#: Tokens of the example: of the cache, and after it. With more than one after it, the largest cache
#: would need more positions than some models have.
_PAST, _NEW = 7, 1
#: The default of the largest number of tokens, if the model has more positions.
_LIMIT = 512


class BundleDeployment(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`deploy_decoder`.

    Attributes:
        path: The bundle's folder.
        deployment: The deployment of its artifact.
        prompts: The verdict on the tokens.
    """

    path: Path
    deployment: eb.Deployment
    prompts: tuple[PromptVerdict, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield the artifact's blocks, and the verdict on the tokens."""
        yield from self.deployment.blocks()
        yield ""
        header = ("TOKENS", "EQUAL", "UNDECIDED", "WRONG")
        found = [(each.batched, each.verdict) for each in self.prompts]
        rows = [
            (text, *(str(found.count((batched, name.lower()))) for name in header[1:]))
            for text, batched in (("alone", False), ("in a left-padded batch", True))
        ]
        yield Table(header, rows, header[1:])
        yield from (each.detail for each in self.prompts if each.detail)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``enginebay bundle --json`` prints."""
        more = {"kind": "bundle", "bundle": str(self.path)}
        return self.deployment.to_dict() | more | {"prompts": msgspec.to_builtins(self.prompts)}


def deploy_decoder(
    model: object,
    *,
    backend: str,
    work_dir: str | Path,
    precision: str | None = None,
    params: eb.BackendParams | Mapping[str, object] | None = None,
    verify: eb.VerifyOptions | Mapping[str, object] | None = None,
    prompts: int = 8,
    tokens: int | None = None,
    positions: int | None = None,
    greedy: bool = False,
    watch: Callable[[Step], None] | bool | None = None,
) -> BundleDeployment:
    """Deploy a decoder of transformers, and compare its tokens with those of ``model.generate``.

    One artifact reads the prompt and each new token. It takes the ids, a mask, the positions and
    the cache, and returns the last logits and the longer cache. The bundle appears complete at its
    path, or not at all.

    Args:
        model: The decoder, or its name, as :func:`enginebay.deploy` takes it.
        backend: The backend, whose engine must support empty tensors: the cache is empty at first.
        work_dir: The folder of the new bundle; it must not exist yet.
        precision: The backend's parameter ``precision``, such as ``fp16``.
        params: The backend's other parameters.
        verify: How to compare: :class:`enginebay.VerifyOptions`, or a mapping of its fields.
        prompts: The number of random prompts, each of which is tried alone and in a batch.
        tokens: The number of tokens to compare after each prompt; by default 16, or fewer if there
            are few positions.
        positions: The largest number of tokens of a prompt and its continuation; by default the
            model's, at most 512.
        greedy: Accept a generation config that asks for sampling; the bundle does not sample.
        watch: As for :func:`enginebay.deploy`.

    Raises:
        UsageError: The model is no such decoder, its generation config asks for what the bundle
            does not do, or an argument is wrong; nothing was written.
        ExportError: The export failed, or lost an argument that changes the tokens.
        NotVerifiedError: The outputs or the tokens are wrong.
    """
    from enginebay.authors.sources import evaluation, find_model

    source = find_model(model)
    decoder = source.module
    argument = check_decoder(decoder, source.description)
    notes = check_generation(decoder, greedy)
    config = decoder.config.get_text_config()
    counts = (getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len"))
    available = next(filter(None, counts), _LIMIT)
    limit = min(positions or _LIMIT, available)
    tokens = max(min(16, limit - _PAST - _NEW), 1) if tokens is None else tokens
    if min(prompts, tokens) < 1:
        raise errors.UsageError(f"expected 1 prompt and 1 token, found {prompts} and {tokens}")
    if limit < tokens + _PAST + _NEW:
        needed = tokens + _PAST + _NEW
        raise errors.UsageError(
            f"a prompt and its {tokens} new tokens require {needed} positions, "
            f"and there are {limit}",
            hint=f"--positions {needed} or more, up to the model's {available}",
        )
    if limit < available:
        notes += (f"the bundle has {limit} of {available} positions: --positions",)
    with _new_folder(Path(work_dir)) as folder, evaluation(decoder):
        _check_backend(backend)
        example = make_example(decoder, argument, limit)
        dims = {name: {0: "batch", 1: "tokens"} for name in ("input_ids", "position_ids")}
        deployment = eb.deploy(
            source,
            example,
            backend=backend,
            precision=precision,
            params=params,
            verify=verify,
            dynamic={name: axes for name, axes in dims.items() if name in example}
            | {"attention_mask": {0: "batch", 1: "past+tokens"}}
            | {argument: {0: "batch", 2: ("past", 0, limit - 1)}},
            work_dir=folder / bundle.ARTIFACT,
            watch=watch,
        )
        _check_laws(decoder, example, deployment)
        record = _describe_loop(decoder, deployment.artifact, limit)
        with bundle.Bundle(record, eb.load(deployment.artifact)) as made:
            verdicts = tuple(compare_tokens(decoder, made, deployment, prompts, tokens))
        wrong = [each.detail for each in verdicts if each.verdict == "wrong"]
        if wrong and not eb.VerifyOptions.of(verify).allow_mismatch:
            reason = (
                f"the tokens after {len(wrong)} of {len(verdicts)} prompts are wrong; {wrong[0]}"
            )
            fields = {"verdict": "mismatched", "reason": reason}
            verdict = msgspec.structs.replace(deployment.verification, **fields)
            hint = "--allow-mismatch publishes the bundle with this verdict"
            raise errors.NotVerifiedError(verdict.headline(), verdict=verdict, hint=hint)
        record = msgspec.structs.replace(record, prompts=verdicts)
        record = msgspec.structs.replace(record, sha256=record.digest())
        text = msgspec.json.format(msgspec.json.encode(record))
        write_whole(folder / bundle.RECORD, text)
    path = Path(work_dir).absolute()
    artifact = msgspec.structs.replace(deployment.artifact, path=path / bundle.ARTIFACT)
    changes = {"artifact": artifact, "notes": (*deployment.notes, *notes)}
    # The last step names the temporary folder.
    deployment = msgspec.structs.replace(deployment, steps=deployment.steps[:-1], **changes)
    return BundleDeployment(path=path, deployment=deployment, prompts=verdicts)


def check_decoder(model: Any, name: str) -> str:
    """Return the name of the argument for the cache.

    Raises:
        UsageError: The model is not a decoder of token ids with a cache of keys and values.
    """
    config: Any = getattr(model, "config", None)
    names = [*inspect.signature(model.forward).parameters] if hasattr(model, "forward") else []
    argument = next((each for each in ("cache", "past_key_values") if each in names), "")
    inputs = ("pixel_", "input_features", "input_values")
    kinds = {*(getattr(config, "layer_types", None) or ())}
    if not hasattr(model, "generation_config") or not model.can_generate():
        cause = "it has no 'generate'"
    elif config.is_encoder_decoder:
        cause = "it is an encoder and a decoder, and a bundle has no encoder"
    elif other := [each for each in names if each.startswith(inputs)]:
        cause = f"images or sound are among its inputs: {', '.join(other)}"
    elif not argument or "attention_mask" not in names:
        cause = f"its forward takes no {'mask' if argument else 'cache of keys and values'}"
    elif odd := sorted(kinds - {"full_attention", "sliding_attention", "chunked_attention"}):
        cause = f"it has layers without a cache of keys and values: {', '.join(odd)}"
    else:
        try:
            make_example(model, argument, _PAST + _NEW)
        except Exception as err:  # noqa: BLE001  # a model may raise anything
            text = errors.one_line(err)
            cause = f"it does not run with a cache of keys and values alone: {text}"
        else:
            return argument
    hint = "a bundle is for a decoder such as LlamaForCausalLM; any model: enginebay deploy MODEL"
    raise errors.UsageError(f"'{name}' cannot become a bundle: {cause}", hint=hint)


def check_generation(model: Any, greedy: bool) -> tuple[str, ...]:
    """Return a note about the sampling that ``greedy`` ignores; empty if none is asked for.

    Raises:
        UsageError: The generation config asks for more than the most probable token; the message
            names every such field.
    """
    # transformers, too, takes the default of older releases, "hybrid", for the default.
    usual = {"cache_implementation": "hybrid"}
    usual |= upstream.GenerationConfig._get_default_generation_params()
    asked = {
        name: f"{name}={value!r}"
        for name, value in model.generation_config.to_dict().items()
        if value is not None and value != usual.get(name) and name not in _HONOURED.split()
    }
    sampling = [text for name, text in asked.items() if name in _SAMPLING.split()]
    others = [text for text in asked.values() if text not in sampling]
    if refused := others if greedy else [*others, *sampling]:
        raise errors.UsageError(
            f"the generation config asks for {', '.join(refused)}, and a bundle only appends the "
            "most probable token",
            hint="remove these fields from model.generation_config"
            if others
            else "--greedy makes a bundle that does not sample",
        )
    return (f"greedy: the bundle ignores {', '.join(sampling)}",) if sampling else ()


def make_example(model: Any, argument: str, limit: int) -> dict[str, Any]:
    """Return inputs with a filled cache.

    One row is padded, since exports lose a mask that is all 1; the other is at the last positions.
    """
    import torch

    names = inspect.signature(model.forward).parameters
    mask = torch.ones(2, _PAST + _NEW, dtype=torch.int64, device=model.device)
    mask[1, :2] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    ids = positions % model.get_input_embeddings().num_embeddings
    positions[0] += limit - _PAST - _NEW
    inputs = {"input_ids": ids, "position_ids": positions}
    inputs = {name: value for name, value in inputs.items() if name in names}
    # Without the config, sliding layers keep all tokens, and the mask cuts them.
    filled = upstream.DynamicCache()
    more = {argument: filled, "use_cache": True}
    past = {name: value[:, :_PAST] for name, value in inputs.items()}
    with torch.no_grad():
        model(**past, attention_mask=mask[:, :_PAST], **more)
    for layer in filled.layers:
        if type(layer) is not upstream.DynamicLayer or layer.keys is None:
            raise errors.UsageError(f"a layer has a {type(layer).__name__}, or shares another's")
    new = {name: value[:, _PAST:] for name, value in inputs.items()}
    # A prompt needs only its last logits.
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
    except (errors.ConversionError, errors.NotVerifiedError) as err:
        message = f"backend '{backend}' cannot open the past of a cache: {err}"
        raise errors.UsageError(message, hint="choose another --backend") from err


def _check_laws(model: Any, example: Mapping[str, Any], deployment: eb.Deployment) -> None:
    """Raise ExportError if the artifact lacks what changes the tokens of ``generate``."""
    mask = example["attention_mask"]
    sample = {"input_ids": mask.cumsum(1), "attention_mask": mask}
    part = Part.of(deployment.artifact, "decoder", model, example)
    if found := find_breaches(model, sample, [part]):
        raise errors.ExportError("\n".join(found))


def _describe_loop(model: Any, artifact: eb.Artifact, limit: int) -> Generation:
    """Return the record of a bundle, without the verdict on the tokens."""
    from importlib.metadata import version

    eos, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id
    ends = () if eos is None else tuple(eos) if isinstance(eos, list | tuple) else (eos,)
    inputs = {"ids": "input_ids", "mask": "attention_mask", "positions": "position_ids"}
    known, (logits, *present) = [spec.name for spec in artifact.inputs], artifact.outputs
    past = [name for name in known if name not in inputs.values()]
    names = {role: name for role, name in inputs.items() if name in known}
    distributions = ("enginebay", "enginebay-transformers", "transformers", "torch")
    return bundle.Generation(
        versions={name: version(name) for name in distributions},
        model=type(model).__name__,
        artifact=artifact.digest,
        names=names | {"logits": logits.name},
        cache=dict(zip(past, (spec.name for spec in present), strict=True)),
        vocabulary=model.get_input_embeddings().num_embeddings,
        limit=limit,
        eos=ends,
        pad=pad if pad is not None else (*ends, 0)[0],
    )


def compare_tokens(
    model: Any, made: Bundle, deployment: eb.Deployment, prompts: int, tokens: int
) -> Iterator[PromptVerdict]:
    """Yield the verdict on each prompt, alone and as a row of a left-padded batch."""
    import numpy as np

    record, generator = made.generation, np.random.default_rng(0)
    window = getattr(model.config.get_text_config(), "sliding_window", None) or 0
    # Longer than the window of sliding layers, if the bundle can be.
    longest = min(record.limit - tokens, max(24, window + 8 if window < record.limit else 0))
    lengths = np.linspace(1, longest, prompts).round().astype(int)
    rows = [generator.integers(0, record.vocabulary, length) for length in lengths]
    for batch in (*([row] for row in rows), rows):
        yield from _compare(model, made, deployment, batch, tokens)


def _compare(
    model: Any, made: Bundle, deployment: eb.Deployment, rows: list[NumpyArray], tokens: int
) -> Iterator[PromptVerdict]:
    import torch

    record = made.generation
    ids, mask = bundle.pad_left(rows, record.pad)
    found = made.generate(ids, mask, tokens)[:, ids.shape[1] :]
    with torch.no_grad():
        result = model.generate(
            torch.from_numpy(ids).to(model.device),
            attention_mask=torch.from_numpy(mask).to(model.device),
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=record.pad,
            return_dict_in_generate=True,
            output_logits=True,
        )
    expected = result.sequences[:, ids.shape[1] :].cpu().numpy()
    terms = [
        each for each in deployment.verification.outputs if each.name == record.names["logits"]
    ]
    rtol, atol = (terms[0].rtol, terms[0].atol) if terms else (0.0, 0.0)
    place = "in a batch" if len(rows) > 1 else "alone"
    for number, row in enumerate(rows):
        verdict, detail = "equal", ""
        # After the end of a row, both sides pad it, and one may stop.
        for step, (right, ours) in enumerate(zip(expected[number], found[number], strict=False)):
            if right != ours:
                logits = result.logits[step][number, [right, ours]].double()
                gap = float(logits[0] - logits[1])
                tolerance = 2 * atol + rtol * float(logits.abs().sum())
                verdict = "undecided" if gap <= tolerance else "wrong"
                detail = (
                    f"the prompt of {len(row)} tokens {place}: new token {step} is {ours}, "
                    f"expected {right}; their logits differ by {gap:.2g} in PyTorch, tolerance "
                    f"{tolerance:.2g}"
                )
                break
        yield PromptVerdict(len(row), len(rows) > 1, verdict, detail)


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to the target at the end."""
    if target.exists():
        hint = "remove it, or choose another --work-dir"
        raise errors.ArtifactExistsError(f"'{target}' exists: expected a new path", hint=hint)
    target = target.absolute()
    folder = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    try:
        yield folder
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
