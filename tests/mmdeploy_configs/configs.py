"""The configs of MMDeploy that name an engine which runs here, and what each deploys."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from enginebay.authors.files import read_config

#: MMDeploy's newest commit. Its wheels have no configs.
COMMIT = "3f8604bd72e8e15d06b2e0552fe2fdb8f8de33c4"
CHECKOUT = f"""\
git clone https://github.com/open-mmlab/mmdeploy
git -C mmdeploy checkout {COMMIT}
nox -s mmdeploy-configs -- mmdeploy"""
ENGINES = ("onnxruntime", "openvino", "ncnn")
LIST = Path(__file__).parent / "configs.toml"


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one config deploys.

    Attributes:
        model: MODEL of the command line; empty if no model is deployed.
        flags: More arguments of the command line, separated by spaces.
        calibration: The shape of the items of noise that calibrate, such as ``1x3x224x224``; empty
            without calibration.
        cause: Why no model is deployed.
    """

    model: str = ""
    flags: str = ""
    calibration: str = ""
    cause: str = ""


#: All configs, by their paths in MMDeploy's folder ``configs``, without ``.py``.
CASES = msgspec.toml.decode(LIST.read_bytes(), type=dict[str, Case])


def codebase_of(config: str) -> str:
    """Return the codebase of a config: the first folder of its path."""
    return config.partition("/")[0]


def check_checkout(folder: Path) -> Path:
    """Return the folder of the configs in a checkout of MMDeploy.

    Raises:
        SystemExit: The folder is no checkout of the commit that the list was made for, or the list
            differs from its configs.
    """
    head = ("git", "-C", str(folder), "rev-parse", "HEAD")
    found = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
    if not (folder / "configs").is_dir() or found != COMMIT:
        raise SystemExit(f"'{folder}' is no checkout of MMDeploy at {COMMIT[:10]}:\n{CHECKOUT}")
    if differing := find_configs(folder / "configs") ^ CASES.keys():
        raise SystemExit(f"{LIST.name} and the checkout differ in {', '.join(sorted(differing))}")
    return folder / "configs"


def find_configs(folder: Path) -> set[str]:
    """Return the configs that name one of the engines, and from which none need inherit."""
    found = set()
    for path in folder.rglob("*.py"):
        if "_base_" not in path.parts:
            config = read_config(path)
            engine = config.get("backend_config", {}).get("type")
            if engine in ENGINES and "codebase_config" in config:
                found.add(path.relative_to(folder).with_suffix("").as_posix())
    return found
