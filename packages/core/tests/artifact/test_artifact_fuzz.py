"""Mutated artifacts open, or are refused with one line; ``nox -s fuzz`` tries more of them."""

from __future__ import annotations

import json
import os
import random

import pytest

from enginebay.artifact import open_artifact
from enginebay.errors import ArtifactError
from enginebay.tensors import TensorSpec
from enginebay.verdict import Verification

CASES = int(os.environ.get("ENGINEBAY_FUZZ_CASES", "300"))
VALUES = [None, True, -1, 0, 2**70, 1e308, "", "\ud800", "../x", "\0", "é", [], {}, [[]], {"": 0}]
TOKENS = [b"", b"\0", b"\xff", b'"', b"[", b"{", b"}", b",", b"\\ud800", b"NaN", b"[" * 999]


def mutate(manifest: bytes, chance: random.Random) -> bytes:
    """Replace, remove or add one value of a manifest, or replace some of its bytes."""
    if chance.random() < 0.4:
        start = chance.randrange(len(manifest))
        return manifest[:start] + chance.choice(TOKENS) + manifest[start + chance.randrange(9) :]
    document = json.loads(manifest)
    holder, key = chance.choice(list(find_places(document)))
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(VALUES)
    return json.dumps(document).encode()


def find_places(value):
    """Yield the container and the key of every value in a document."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from find_places(value[key])


def test_a_mutated_artifact_opens_or_is_refused_with_one_line(tmp_path, publish):
    spec = TensorSpec("x", "float32", (1, "n"))
    folder = publish(
        tmp_path / "model",
        params={"device": "cpu", "shapes": {"x": [1, 2]}},
        inputs=(spec,),
        outputs=(spec,),
        verification=Verification.unverified("nothing to compare with"),
        pinned={"engine": "1"},
    ).path
    files = [folder / "manifest.json", folder / "model.bin", folder / "parts" / "weights.data"]
    contents = [path.read_bytes() for path in files]
    chance = random.Random(0)
    messages = []
    for case in range(CASES):
        index = 0 if chance.random() < 0.9 else chance.choice([1, 2])
        if index:
            files[index].write_bytes(contents[index][: chance.randrange(7)] + chance.randbytes(2))
        else:
            files[0].write_bytes(mutate(contents[0], chance))
        try:
            opened = open_artifact(folder)
            assert opened.files
            assert opened.samples() == []
        except ArtifactError as err:
            messages.append(str(err))
        except Exception as err:
            err.add_note(f"case {case}: {files[index].read_bytes()[:2000]!r}")
            raise
        files[index].write_bytes(contents[index])
    assert CASES / 2 < len(messages) < CASES
    assert all(message and "\n" not in message for message in messages)
    assert open_artifact(folder)


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_deeply_nested_manifest_is_refused(tmp_path, publish, depth):
    folder = publish(tmp_path / "model").path
    (folder / "manifest.json").write_bytes(b"[" * depth + b"]" * depth)
    with pytest.raises(ArtifactError, match="is not an Enginebay manifest"):
        open_artifact(folder)
