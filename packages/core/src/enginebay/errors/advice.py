"""Hints in Python's words: they are written once, with flags of the command line."""

from __future__ import annotations

import re

#: Commands to type, which are the same for everybody.
_COMMAND = re.compile(r"\b(?:enginebay|pip|wsl|docker|pytest) [^,;]*")

_FLAG = re.compile(r"""--(?P<name>[a-z][a-z0-9-]*)(?:[ ](?P<value>"[^"]*"|[^\s;()"]+))?""")

#: Arguments of Python's functions; all other flags are parameters of backends.
_ARGUMENTS = frozenset(
    (
        *("against", "atol", "backend", "batch", "config", "data", "device", "draw", "dynamic"),
        *("image", "int8_keep", "max_drop", "metric", "model", "output", "overwrite"),
        *("precision", "resume", "rtol", "seconds", "seed", "strict", "take", "threads", "timeout"),
        *("work_dir",),
    )
)
#: Those that are in an object of options.
_OBJECTS = {
    **dict.fromkeys(("cuts", "exporter", "input_names", "ir", "keep_ir"), "eb.ExportOptions"),
    **dict.fromkeys(("opset", "output_names", "rewriters", "task"), "eb.ExportOptions"),
    **dict.fromkeys(("allow_mismatch", "allow_unverified", "compare"), "eb.VerifyOptions"),
    **dict.fromkeys(("domain", "probes", "probes_extreme"), "eb.VerifyOptions"),
}
_SWITCHES = frozenset(
    (
        *("allow_mismatch", "allow_unverified", "keep_ir", "overwrite", "probes_extreme"),
        *("resume", "strict"),
    )
)
#: Arguments that hold something by name: ``--compare boxes=set`` is ``compare={"boxes": "set"}``.
_BY_NAME = frozenset(("compare", "domain"))
#: Words behind a flag that are its value; any other lowercase word goes on with the sentence.
_VALUES = frozenset(("accuracy", "cpu", "cuda", "pytorch"))


def in_python(hint: str) -> str:
    r"""Return a hint with arguments of Python in the place of flags.

    Example:
        >>> in_python("--max-drop 0.01")
        'max_drop=0.01'
        >>> in_python("pass --overwrite, or choose another --work-dir")
        'pass overwrite=True, or choose another work_dir'
        >>> in_python("--fp16-format nhwc4, or leave --custom-layers out")
        'params={"fp16_format": "nhwc4"}, or leave custom_layers out'
        >>> in_python("--exporter dynamo2")
        'eb.ExportOptions(exporter="dynamo2")'
        >>> in_python("enginebay check-env ncnn --device cpu")
        'enginebay check-env ncnn --device cpu'
    """
    found, end = [], 0
    for command in _COMMAND.finditer(hint):
        found += [_FLAG.sub(_argument, hint[end : command.start()]), command[0]]
        end = command.end()
    text = "".join((*found, _FLAG.sub(_argument, hint[end:])))
    return re.sub(r"(\w+=\{[^{}]*)\}\)? (?:eb\.\w+\()?\w+=\{", r"\1, ", text)  # two of one dict


def _argument(flag: re.Match[str]) -> str:
    name, value = flag["name"].replace("-", "_"), flag["value"] or ""
    text = value.rstrip(",.:") if not value.endswith('"') else value
    rest = value[len(text) :]
    if name == "allow_env":
        name, is_value = "environment=os.environ", False
    elif name in _SWITCHES:
        name, is_value = _in_object(name, f"{name}=True"), False
    else:
        is_value = bool(text) and (text in _VALUES or not re.fullmatch(r"[a-z]+", text))
    if not is_value:
        return f"{name} {value}" if value else name
    return _assignment(name, text) + rest


def _assignment(name: str, text: str) -> str:
    if name == "input":  # an array; how it is written there is the command line's
        return f'args={{"{text.partition("=")[0]}": …}}'
    key, equals, value = text.partition("=")
    if name in _BY_NAME and equals:
        return _in_object(name, f'{name}={{"{key}": {_literal(value)}}}')
    if name in _ARGUMENTS or name in _OBJECTS:
        return _in_object(name, f"{name}={_literal(text)}")
    return f'params={{"{name}": {_literal(text)}}}'


def _in_object(name: str, assignment: str) -> str:
    """Put an assignment into the object of options that it is for, where there is one."""
    return f"{_OBJECTS[name]}({assignment})" if name in _OBJECTS else assignment


def _literal(text: str) -> str:
    """A number, a quoted text or a placeholder in capitals as it is; any other text quoted."""
    bare = re.fullmatch(r'-?[\d.]+(?:e-?\d+)?|"[^"]*"|[A-Z_]+|…', text)
    return text if bare else f'"{text}"'
