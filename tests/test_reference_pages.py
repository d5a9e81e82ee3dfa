"""The pages of the reference repeat the code as it is now."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "build" / "write_reference.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("write_reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", ["hooks", "python", "faults"])
def test_page_has_the_texts_of_the_code(script: Any, part: str) -> None:
    pages = {"hooks": script.HOOKS, "python": script.PYTHON, "faults": script.LAWS}
    text = pages[part].read_text(encoding="utf-8")
    written = getattr(script, f"write_{part}")(text)
    assert text == written, "run: python docs/build/write_reference.py"


def test_outdated_text_of_a_name_is_replaced_and_its_neighbours_stay(script: Any) -> None:
    page = "Before.\n\n### `enginebay.hooks.bound_to`\n\nOld.\n\n## After\n\nStays.\n"
    written = script.write_hooks(page)
    assert "Old." not in written
    assert "`bound_to(request: BindingRequest) -> Mapping[str, str]`" in written
    assert written.startswith("Before.\n\n### ")
    assert written.endswith("\n\n## After\n\nStays.\n")
    rows = "| name | |\n|---|---|\n| `enginebay.mark` | old |\n"
    assert script.write_python(rows) == (
        "| name | |\n|---|---|\n| `enginebay.mark` | `(x, name)` Mark a tensor of a model with a "
        "name, and return the tensor. |\n"
    )


def test_site_shows_the_docstrings_in_place_of_the_texts(script: Any) -> None:
    page = "# Page\n\n### `enginebay.hooks.bound_to`\n\nOld.\n\n## Part\n\n| name | |\n|---|---|\n"
    page += "| `enginebay.Backend` | old |\n| `enginebay.mark` | old |\n\nText.\n"
    assert script.as_directives(page) == (
        "# Page\n\n::: enginebay.hooks.bound_to\n## Part\n\n::: enginebay.Backend\n    options:\n"
        "      inherited_members: true\n::: enginebay.mark\n\nText.\n"
    )
