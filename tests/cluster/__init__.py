"""A real scheduler and its workers on this machine: ``nox -s cluster``."""
