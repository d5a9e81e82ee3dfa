"""Config files in an empty folder, as core's own tests have them."""

from packages.core.tests.config.conftest import folder, write  # noqa: F401  # fixtures
