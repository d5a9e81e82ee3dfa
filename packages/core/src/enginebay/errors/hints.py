"""Hints for two readers: each is written once, with flags for the command line.

Options that are data (:func:`argument` in a :class:`Hint`) know both forms. In plain text, a flag
of core's own functions becomes an argument here, and every other flag a parameter of a backend.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

# Shell commands are the same for both readers, so that they are left as they are.
_COMMAND = re.compile(r"\b(?:enginebay|pip|python -m|paddle2onnx|wsl|docker|pytest) [^,;]*")

# A part of a sentence that begins with a command; the command ends with this part.
_NEXT = re.compile(
    r"""(?:^|[:;?,] (?:or |and |then )*)((?:enginebay|pip) (?:"[^"]*"|'[^']*'|[^,;(#&'])+)(&?)"""
)

_PLACEHOLDER = re.compile(r"(?:.*=)?[A-Z]{2,}(?:\.\w+)?|.*(?:…|/\*).*")

_FLAG = re.compile(r"""--(?P<name>[a-z][a-z0-9-]*)(?:[ ](?P<value>"[^"]*"|[^\s;()"]+))?""")

#: Keyword arguments of core's functions and options; every other flag is a backend's parameter.
_ARGUMENTS = frozenset(
    (
        *("atol", "backend", "config", "data", "device", "dynamic", "int8_keep", "model"),
        *("overwrite", "precision", "rtol", "seed", "strict", "take", "timeout", "work_dir"),
    )
)
#: Keyword arguments that belong to an options class, with that class.
_OPTION_CLASSES = {
    **dict.fromkeys(("cuts", "exporter", "input_names", "ir", "keep_ir"), "eb.ExportOptions"),
    **dict.fromkeys(("opset", "output_names", "rewriters", "task"), "eb.ExportOptions"),
    **dict.fromkeys(("allow_mismatch", "allow_unverified", "compare"), "eb.VerifyOptions"),
    **dict.fromkeys(("domain", "probes", "probes_extreme", "reference"), "eb.VerifyOptions"),
}
#: Flags without a value, which are True in Python.
_SWITCHES = frozenset(
    ["allow_mismatch", "allow_unverified", "keep_ir", "overwrite", "probes_extreme", "strict"]
)
#: Arguments of several values, whose flag is repeated.
_SINGULAR = {"metrics": "metric"}
#: Arguments that are dictionaries: ``--compare boxes=set`` is ``compare={"boxes": "set"}``.
_DICTIONARIES = frozenset(("compare", "domain"))
# In "leave --device out" the word after the flag belongs to the sentence. A lowercase word is
# therefore a value only if it is in this list.
_WORD_VALUES = frozenset(("cpu", "cuda"))


class Option(NamedTuple):
    """An option in a hint.

    Attributes:
        flag: Its form on the command line: ``--duration 2``.
        python: Its form in Python: ``duration=2``.
    """

    flag: str
    python: str


def argument(name: str, value: object = None) -> Option:
    """Return an argument of a Python function, which is a flag on the command line.

    Args:
        name: The argument's name in Python.
        value: Its value; True for a flag without a value, a text in capitals for a placeholder;
            None to name the option alone.

    Example:
        >>> argument("max_drop", 0.01)
        Option(flag='--max-drop 0.01', python='max_drop=0.01')
        >>> argument("metrics", "accuracy")
        Option(flag='--metric accuracy', python='metrics="accuracy"')
    """
    flag = f"--{_SINGULAR.get(name, name).replace('_', '-')}"
    if value is None:
        return Option(flag, name)
    if value is True:
        return Option(flag, f"{name}=True")
    return Option(f"{flag} {value}", f"{name}={_quote_text(str(value))}")


class Hint:
    """A hint with options, which has a form for each reader.

    Args:
        text: The hint, with ``{}`` for each option.
        options: The options, in order.

    Attributes:
        text: The hint for the command line, with flags.
        python: The hint for a caller in Python, with arguments.

    Example:
        >>> hint = Hint("add {}, or name a different folder", argument("resume", True))
        >>> hint.text
        'add --resume, or name a different folder'
        >>> hint.python
        'add resume=True, or name a different folder'
    """

    __slots__ = ("python", "text")

    def __init__(self, text: str, *options: Option) -> None:
        parts = text.split("{}")
        options = (*options, Option("", ""))  # after the last part
        pairs = list(zip(parts, options, strict=True))
        self.text = "".join(part + option.flag for part, option in pairs)
        self.python = "".join(translate_hint(part) + option.python for part, option in pairs)


def next_command(hint: str | None) -> list[str]:
    """Return the first command of a hint that can be typed as it is, as a list of arguments.

    The list is empty without such a command. A command with a placeholder (``MODEL``) or a pattern
    of files cannot be typed, nor one joined to another by ``&&``; a name in quotes is none.

    Example:
        >>> next_command("export with opset 17, or pip install 'onnx>=1.21'")
        ['pip', 'install', 'onnx>=1.21']
        >>> next_command("name the model: enginebay verify out --model MODEL")
        []
    """
    for found in _NEXT.finditer(hint or ""):
        try:
            words = shlex.split(found[1])
        except ValueError:  # an apostrophe of the sentence
            continue
        if not found[2] and not any(map(_PLACEHOLDER.fullmatch, words)):
            return words
    return []


def translate_hint(hint: str) -> str:
    r"""Return a hint in plain text with Python arguments instead of command-line flags.

    Example:
        >>> translate_hint("--rtol 0.01")
        'rtol=0.01'
        >>> translate_hint("pass --overwrite, or choose another --work-dir")
        'pass overwrite=True, or choose another work_dir'
        >>> translate_hint("--fp16-format nhwc4, or leave --custom-layers out")
        'params={"fp16_format": "nhwc4"}, or leave custom_layers out'
        >>> translate_hint("--exporter dynamo2")
        'eb.ExportOptions(exporter="dynamo2")'
        >>> translate_hint("enginebay check-env ncnn --device cpu")
        'enginebay check-env ncnn --device cpu'
    """
    parts, end = [], 0
    for command in _COMMAND.finditer(hint):
        parts += [_FLAG.sub(_translate_flag, hint[end : command.start()]), command[0]]
        end = command.end()
    text = "".join((*parts, _FLAG.sub(_translate_flag, hint[end:])))
    # Two flags of one dictionary, params={"a": 1} params={"b": 2}, become one argument.
    return re.sub(r"(\w+=\{[^{}]*)\}\)? (?:eb\.\w+\()?\w+=\{", r"\1, ", text)


def _translate_flag(flag: re.Match[str]) -> str:
    name, value = flag["name"].replace("-", "_"), flag["value"] or ""
    text = value.rstrip(",.:") if not value.endswith('"') else value
    punctuation = value[len(text) :]
    if name == "allow_env":
        name, is_value = "environment=os.environ", False
    elif name in _SWITCHES:
        name, is_value = _wrap_in_options(name, f"{name}=True"), False
    else:
        is_value = bool(text) and (text in _WORD_VALUES or not re.fullmatch(r"[a-z]+", text))
    if not is_value:
        return f"{name} {value}" if value else name
    return _format_argument(name, text) + punctuation


def _format_argument(name: str, text: str) -> str:
    if name == "input":  # Python takes an array, which a flag's text cannot show
        return f'args={{"{text.partition("=")[0]}": …}}'
    key, equals, value = text.partition("=")
    if name in _DICTIONARIES and equals:
        return _wrap_in_options(name, f'{name}={{"{key}": {_quote_text(value)}}}')
    if name in _ARGUMENTS or name in _OPTION_CLASSES:
        return _wrap_in_options(name, f"{name}={_quote_text(text)}")
    return f'params={{"{name}": {_quote_text(text)}}}'


def _wrap_in_options(name: str, assignment: str) -> str:
    return f"{_OPTION_CLASSES[name]}({assignment})" if name in _OPTION_CLASSES else assignment


def _quote_text(text: str) -> str:
    """Return a text in quotes; a number, a quoted text or a placeholder in capitals as it is."""
    is_literal = re.fullmatch(r'-?[\d.]+(?:e-?\d+)?|"[^"]*"|[A-Z_]+|…', text)
    return text if is_literal else f'"{text}"'
