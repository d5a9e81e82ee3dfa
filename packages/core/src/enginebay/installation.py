"""The command that installs a package of Enginebay from where Enginebay itself came.

Its packages are installed from a clone, an archive or an index, and a command that names an index
is wrong for the others: it fails there, or installs what somebody else registered by that name.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def install_command(requirement: str, options: str = "") -> str:
    """Return the command that installs a requirement.

    A package of Enginebay is installed from where pip installed ``enginebay`` (PEP 610's
    ``direct_url.json``): a folder of a clone, editable or not; the repository at the same commit;
    the wheel beside the wheel. Without such a record it comes from an index, as other packages do.

    Args:
        requirement: A requirement of pip, with extras and versions, such as ``onnx>=1.21``.
        options: More options of ``pip install``.

    Example:
        >>> install_command("onnx>=1.21", "--upgrade")
        "pip install --upgrade 'onnx>=1.21'"
    """
    import re
    from shlex import quote

    name, extras = re.match(r"([\w.-]*)(\[.*?\])?", requirement).groups("")  # type: ignore[union-attr]  # it matches any text
    origin = _read_origin() if name in read_known()["folders"] else {}
    parts = ["pip install", options, *_arguments(name, extras or "", origin)]
    if not origin:
        parts.append(quote(requirement))
    return " ".join(filter(None, parts))


def _arguments(name: str, extras: str, origin: dict[str, Any]) -> list[str]:
    """Return the arguments for a package that comes from the same place as ``enginebay``."""
    from pathlib import Path
    from shlex import quote
    from urllib.parse import unquote, urlsplit

    if not origin:
        return []
    folder, url = read_known()["folders"][name], str(origin["url"])
    need = read_known()["needs"].get(name)
    before = _arguments(need, "", origin) if need else []
    local = unquote(urlsplit(url).path) if url.startswith("file:") else ""
    if "dir_info" in origin:  # packages/core of a clone
        editable = ["-e"] if origin["dir_info"].get("editable") else []
        return [*before, *editable, quote(f"{Path(local).with_name(folder)}{extras}")]
    if local:  # wheels in one folder
        return ["--find-links", quote(str(Path(local).parent)), quote(name + extras)]
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    if "subdirectory" in origin:
        url += f"#subdirectory={origin['subdirectory'].rpartition('/')[0]}/{folder}"
    else:  # a wheel: the one with the same version
        url = url.replace("/enginebay-", f"/{name.replace('-', '_')}-")
    return [*before, quote(f"{name}{extras} @ {url}")]


@cache
def _read_origin() -> dict[str, Any]:
    """Return where pip installed Enginebay from; empty for an index, and if nothing says it."""
    import json  # here, since the help needs neither

    from importlib_metadata import PackageNotFoundError, distribution

    try:
        record = json.loads(distribution("enginebay").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return record if isinstance(record, dict) and "url" in record else {}


@cache
def read_known() -> dict[str, Any]:
    """Return ``known.toml``: what Enginebay's own packages are, and what they provide."""
    import tomllib
    from pathlib import Path

    return tomllib.loads(Path(__file__).with_name("known.toml").read_text(encoding="utf-8"))
