"""The command line, as core's own tests have it."""

from packages.core.tests.cli.conftest import cli, here  # noqa: F401  # fixtures
