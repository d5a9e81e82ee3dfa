"""Each law can fail: an intentionally broken backend fails the law that it breaks."""

from __future__ import annotations

import inspect
import re
from contextlib import nullcontext
from typing import Any

import pytest
from tests.fork_server import no_forks

import enginebay as eb
from enginebay_testing import Conformance, temporary_backend
from enginebay_testing.conformance.kit import Kit
from enginebay_testing.conformance.suite import laws

from .broken import BROKEN, Broken, source

#: Of the laws the one that no plugin breaks by itself: two distributions do, below.
NOT_THE_PLUGINS = {"test_it_is_installed_once"}


def test_every_law_can_fail() -> None:
    broken = {each.law for each in BROKEN.values()}
    assert broken | NOT_THE_PLUGINS == {law.name for law in laws()}
    assert not broken & NOT_THE_PLUGINS


def _one_for_each_law() -> list[Any]:
    """Return the broken backends; the second and later ones for the same law are slow tests."""
    laws: set[str] = set()
    cases = []
    for name, broken in BROKEN.items():
        marks = [pytest.mark.slow] if broken.law in laws else []
        laws.add(broken.law)
        cases.append(pytest.param(name, marks=marks))
    return cases


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", _one_for_each_law())
def test_a_broken_backend_is_caught(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, soon: int
) -> None:
    import torch

    folder = request.getfixturevalue("tmp_path_factory").mktemp("here")
    monkeypatch.chdir(folder)  # one of them writes into the current folder
    monkeypatch.setattr(torch.nn.functional, "gelu", torch.nn.functional.gelu)  # put back
    # What outlives its converter here does so for ten minutes.
    monkeypatch.setattr("enginebay_testing.conformance.child_process.PATIENCE", soon)
    broken = BROKEN[name]
    with temporary_backend("broken", source(broken.change)):
        assert outcome(broken, "broken", request) is not None, f"{broken.law} held"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["its converter outlives it", "it checks no input"])
def test_the_same_law_holds_for_loopback(
    name: str, request: pytest.FixtureRequest, loopback: str
) -> None:
    assert outcome(BROKEN[name], loopback, request) is None


def test_a_backend_may_print_while_it_loads(request: pytest.FixtureRequest) -> None:
    change = """
        @eb.hookimpl
        def build_wrapper(request):
            print("engine 1.0")
            return Wrapper(request)
    """
    law = Broken("test_files_that_are_no_model_are_an_error", "", change)
    with temporary_backend("broken", source(change)):
        assert outcome(law, "broken", request) is None


def test_a_name_that_two_distributions_claim_is_caught(
    request: pytest.FixtureRequest, loopback: str
) -> None:
    twice = Broken(
        "test_it_is_installed_once", "duplicate: it is provided by .*; fix: name one: ", ""
    )
    with temporary_backend(loopback, "json", distribution="another"):
        assert outcome(twice, loopback, request) is not None
    assert outcome(twice, loopback, request) is None


def outcome(broken: Broken, backend: str, request: pytest.FixtureRequest) -> str | None:
    """Return the law's message about the backend; None if the law passes."""
    folder = request.getfixturevalue("tmp_path_factory").mktemp("kit")
    kit = Kit(backend, folder)
    if "env" not in broken.law and "green" not in broken.law:
        kit.environment = eb.EnvReport()  # which takes four processes to find out
    law = getattr(Conformance(), broken.law)
    wanted = [name for name in inspect.signature(law).parameters if name != "kit"]
    given = {name: request.getfixturevalue(name) for name in wanted if name not in broken.case}
    about_processes = "import" in broken.law or law.__module__.endswith(".processes")
    spawned = no_forks() if about_processes else nullcontext()
    try:
        with spawned:
            law(kit, **given, **broken.case)
    except pytest.skip.Exception as skip:
        raise AssertionError(f"{broken.law} was skipped: {skip}") from skip
    except Exception as err:
        said = f"{type(err).__name__}: {err}"
        assert re.search(broken.message, said), said
        return said
    finally:
        kit.close()
    return None
