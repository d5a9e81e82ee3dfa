"""The house grows no further: the figures of ``tests/house.py`` against ``tests/house.toml``.

A figure that falls lowers its ceiling: ``python -m tests.house`` writes it. A figure that rises
fails here.
"""

from __future__ import annotations

import pytest

from tests.house import CEILINGS, closure, read_ceilings, resolve_import, rooms

_ADVICE = """
What deploy, export, convert, load and verify can do without belongs into a plugin; what two places
say belongs into one; what nobody needs goes. If core must grow, raise the ceiling in {file} by
hand, and say in the commit what needs it. What fell is written by: python -m tests.house
"""


@pytest.mark.process
def test_no_figure_is_above_its_ceiling(figures: dict[str, int]) -> None:
    ceilings = read_ceilings()
    above = [
        f"{name}: {figure}, and its ceiling is {ceilings.get(name, 0)}"
        for name, figure in figures.items()
        if figure > ceilings.get(name, 0)
    ]
    assert not above, "\n".join([*above, _ADVICE.format(file=CEILINGS.name)])


@pytest.mark.process
def test_each_ceiling_belongs_to_a_figure(figures: dict[str, int]) -> None:
    gone = sorted(read_ceilings().keys() - figures.keys())
    assert not gone, f"remove from {CEILINGS.name}: {', '.join(gone)}"


def test_each_room_is_measured() -> None:
    assert {"operations", "verification", "hooks", "files"} <= rooms().keys()


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    from tests.house import measure

    return measure()


@pytest.mark.parametrize(
    ("module", "name", "file"),
    [
        ("enginebay", "deploy", "operations/deploy_model.py"),
        ("enginebay.operations", "load", "operations/load_artifact.py"),
        ("enginebay.verification", "compare_outputs", "verification/comparison.py"),
        ("enginebay.tensors", "to_numpy", "tensors/arrays.py"),
        ("enginebay.errors", "UsageError", "errors/__init__.py"),
        ("enginebay.artifact.manifest", "Manifest", "artifact/manifest.py"),
    ],
)
def test_an_import_is_followed_to_the_file_that_defines_the_name(
    module: str, name: str, file: str
) -> None:
    from tests.house import CORE

    assert resolve_import(module, name) == CORE / file


def test_comparing_needs_no_recording_and_no_model() -> None:
    from tests.house import CORE

    reached = {
        file.relative_to(CORE).parts[0] for file in closure(CORE / "verification/comparison.py")
    }
    assert not reached & {"reference", "models", "state", "sources", "rewriting", "plugins"}
