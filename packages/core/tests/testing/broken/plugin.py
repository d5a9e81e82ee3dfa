"""The source of a plugin with one intentional fault."""

from __future__ import annotations

import inspect
from typing import NamedTuple

#: The loopback backend; ``{change}`` replaces a part.
SOURCE = """\
import enginebay as eb
from enginebay_testing import loopback

NAME, INFO, PARAMS = "broken", {{"irs": ("onnx",)}}, loopback.LoopbackParams
RUNTIME = ("onnx>=1.21",)
to_backend, check_env = loopback.to_backend, loopback.check_env

class Wrapper(loopback.LoopbackWrapper):
    pass

@eb.hookimpl
def build_wrapper(request):
    return Wrapper(request)

{change}

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name=NAME, params=PARAMS, runtime_distributions=RUNTIME, **INFO)
"""


class Broken(NamedTuple):
    """A fault of a plugin.

    Attributes:
        law: The law that is broken.
        message: The law's message about it.
        change: The source that breaks it; a body of ``Wrapper`` where it begins with ``def``.
        case: The law's parameters.
    """

    law: str
    message: str
    change: str
    case: dict[str, object] = {}


def source(change: str) -> str:
    text = inspect.cleandoc(change)
    if text.startswith(("def ", "receipt ", "concurrent ")):
        body = text.replace("\n", "\n    ")
        text = f"class Wrapper(loopback.LoopbackWrapper):\n    {body}"
    return SOURCE.format(change=text)
