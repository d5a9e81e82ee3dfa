"""Enginebay turns a PyTorch model into a verified artifact on any inference engine.

``import enginebay`` is fast: a public name is imported from its module when it is first used.

Public modules are this one, :mod:`enginebay.hooks` (the contract with plugins),
:mod:`enginebay.errors`, :mod:`enginebay.environment`, :mod:`enginebay.authors` (for authors of
plugins) and :mod:`enginebay.commands` (for authors of commands). All other modules may change in
any release. The package :mod:`enginebay_testing` is for the tests of plugins.
"""

from __future__ import annotations

import sys

from enginebay.lazy import lazy_names
from enginebay.version import __version__ as __version__

# Not from typing, whose import takes half of the time of `enginebay --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from enginebay.artifact import (
        Artifact as Artifact,
        open_artifact as open_artifact,
    )
    from enginebay.config import (
        ExportOptions as ExportOptions,
        VerifyOptions as VerifyOptions,
    )
    from enginebay.data import DataSet as DataSet
    from enginebay.environment import (
        Check as Check,
        EnvReport as EnvReport,
    )
    from enginebay.errors import (
        EnginebayError as EnginebayError,
        NotVerifiedError as NotVerifiedError,
    )
    from enginebay.hooks import (
        API_VERSION as API_VERSION,
        BackendInfo as BackendInfo,
        hookimpl as hookimpl,
    )
    from enginebay.inference import (
        Receipt as Receipt,
        Wrapper as Wrapper,
    )
    from enginebay.ir import IRModel as IRModel
    from enginebay.models import (
        RecordedCalls as RecordedCalls,
        record as record,
    )
    from enginebay.operations import (
        Backend as Backend,
        Deployment as Deployment,
        convert as convert,
        deploy as deploy,
        export as export,
        get_backend as get_backend,
        load as load,
        rewrite as rewrite,
        verify as verify,
    )
    from enginebay.params import (
        BackendParams as BackendParams,
        ConfigKey as ConfigKey,
        FileName as FileName,
    )
    from enginebay.partition import mark as mark, marks as marks
    from enginebay.plugins import (
        BackendStatus as BackendStatus,
        list_backends as list_backends,
    )
    from enginebay.rewriting import RewriterSet as RewriterSet
    from enginebay.tensors import TensorSpec as TensorSpec
    from enginebay.verdict import (
        VerdictWarning as VerdictWarning,
        Verification as Verification,
    )


_fetch, __dir__, __all__ = lazy_names(
    __name__,
    {
        "artifact": "Artifact open_artifact",
        "config": "ExportOptions VerifyOptions",
        "data": "DataSet",
        "environment": "Check EnvReport",
        "errors": "EnginebayError NotVerifiedError",
        "hooks": "API_VERSION BackendInfo hookimpl",
        "inference": "Receipt Wrapper",
        "ir": "IRModel",
        "models": "RecordedCalls record",
        "operations": "Backend Deployment convert deploy export get_backend load rewrite verify",
        "params": "BackendParams ConfigKey FileName",
        "plugins": "BackendStatus list_backends",
        "partition": "mark marks",
        "rewriting": "RewriterSet",
        "tensors": "TensorSpec",
        "verdict": "VerdictWarning Verification",
    },
)
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
    """Import and return a public name from the package that defines the name."""
    if sys.platform == "win32" and name in __all__:
        from enginebay.errors import windows_error

        raise windows_error()
    if not name.startswith("_") and name not in __all__:
        from enginebay.installation import install_command, read_known

        # The functions of the lab, which have the names of its commands.
        if package := read_known()["commands"].get(name.lower()):
            raise AttributeError(
                f"module 'enginebay' has no attribute '{name}': look in "
                f"{package.replace('-', '_')}, which comes with {install_command(package)}"
            )
    return _fetch(name)
