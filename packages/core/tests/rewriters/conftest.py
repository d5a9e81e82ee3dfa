from packages.core.tests.rewriting.conftest import export, exporter  # noqa: F401  # fixtures
