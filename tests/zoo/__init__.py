"""Small architectures from transformers on every backend, by every exporter: ``nox -s zoo``."""
