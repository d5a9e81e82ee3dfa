"""All conformance tests in one class."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NamedTuple

import pytest

from enginebay_testing.conformance.artifacts import ArtifactLaws
from enginebay_testing.conformance.discovery import DiscoveryLaws
from enginebay_testing.conformance.environment import EnvironmentLaws
from enginebay_testing.conformance.inference import InferenceLaws
from enginebay_testing.conformance.kit import Kit
from enginebay_testing.conformance.numbers import NumberLaws
from enginebay_testing.conformance.opt_out import apply_opt_outs
from enginebay_testing.conformance.params import ParamsLaws
from enginebay_testing.conformance.processes import ProcessLaws
from enginebay_testing.conformance.rewriting import RewriterLaws

if TYPE_CHECKING:
    from collections.abc import Iterator


class UnderTest:
    """Fixtures for a backend under test; a subclass returns the name of the backend."""

    @pytest.fixture
    def backend(self) -> str:
        """The name of the backend, which a subclass returns."""
        raise TypeError(
            f"{type(self).__name__} requires a fixture 'backend' that returns the backend's name"
        )

    @pytest.fixture(scope="class")
    @classmethod
    def _kits(cls) -> Iterator[dict[str, Kit]]:
        kits: dict[str, Kit] = {}
        yield kits
        for kit in kits.values():
            kit.close()

    @pytest.fixture
    def kit(
        self, backend: str, _kits: dict[str, Kit], tmp_path_factory: pytest.TempPathFactory
    ) -> Kit:
        """The kit of the backend, which all tests of a class share."""
        if backend not in _kits:
            # Deployments are slow: the tests of a class share their artifacts.
            _kits[backend] = Kit(backend, tmp_path_factory.mktemp("conformance"))
        return _kits[backend]


# In reverse order: pytest runs the inherited tests of the last base first.
class Conformance(
    RewriterLaws,
    ProcessLaws,
    ArtifactLaws,
    InferenceLaws,
    NumberLaws,
    ParamsLaws,
    EnvironmentLaws,
    DiscoveryLaws,
    UnderTest,
):
    """The conformance tests of a backend, whose name the fixture ``backend`` returns."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        apply_opt_outs(cls, {law.name: getattr(Conformance, law.name) for law in laws()})


#: The laws of ``--quick``, of each family those that most new plugins break.
QUICK = frozenset(
    (
        "test_it_says_what_it_is",
        "test_loading_imports_no_engine",
        "test_every_flag_is_a_documented_field",
        "test_every_parameter_is_read",
        "test_green_means_that_it_runs",
        "test_names_and_order_are_the_models",
        "test_any_strides_will_do",
        "test_what_was_returned_never_changes",
        "test_calls_may_overlap",
        "test_a_moved_artifact_runs_in_another_process",
    )
)


class Law(NamedTuple):
    """Name and requirement of a conformance test, for tables and the documentation.

    Attributes:
        family: The group of the test: ``inference``, ``artifacts`` …
        name: The test's name.
        sentence: The first sentence of the test's docstring, which states the requirement.
    """

    family: str
    name: str
    sentence: str


def laws() -> list[Law]:
    """Return all conformance tests, in the order in which they run."""
    result = []
    for family in reversed(Conformance.__bases__):
        for name, law in vars(family).items():
            if name.startswith("test_"):
                first = (inspect.getdoc(law) or "").partition("\n\n")[0]
                subject = family.__module__.rpartition(".")[2]
                result.append(Law(subject, name, " ".join(first.split())))
    return result
