"""Models of pictures and the command line, as core's own tests have them."""

from packages.core.tests.images.conftest import cli, made  # noqa: F401  # fixtures
