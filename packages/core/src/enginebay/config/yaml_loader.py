"""PyYAML's safe loader with additional checks; the import of this module requires PyYAML."""

from __future__ import annotations

import yaml


def parse_yaml(text: str) -> object:
    """Return the value of a YAML text; for an empty text, an empty dict.

    Raises:
        ValueError: The text is not YAML, or contains something other than plain values. The message
            has the line and the column.
    """
    try:
        content = yaml.load(text, _YamlLoader)  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        at = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        message = getattr(err, "problem", None) or " ".join(str(err).split())
        raise ValueError(f"{message}{at}") from err
    return {} if content is None else content


class _YamlLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse duplicate keys, and merges (``<<``), whose expansion can take unlimited time."""
        keys = set[tuple[str, str]]()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise _error_at(key, "a config cannot use a merge key '<<', only _base_")
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    raise _error_at(key, f"duplicate key {key.value!r:.80}")
                keys.add((key.tag, key.value))

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Return a node's value; raise if its text does not fit its type, as in ``!!int ''``."""
        try:
            return super().construct_object(node, deep=deep)
        # PyYAML raises these for texts that do not fit: IndexError for !!int '', AttributeError for
        # !!timestamp x.
        except (ValueError, LookupError, TypeError, AttributeError) as err:
            text = f"{node.value!r:.80}" if isinstance(node, yaml.ScalarNode) else f"a {node.id}"
            raise _error_at(node, f"{text} is not of type {node.tag.rpartition(':')[2]}") from err


def _error_at(node: yaml.Node, message: str) -> Exception:
    error: Exception = yaml.constructor.ConstructorError(None, None, message, node.start_mark)
    return error
