"""What core knows of the lab and vision: their names for messages, but no flag in its hints."""

from __future__ import annotations

import inspect
import re
from argparse import ArgumentParser
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import enginebay as eb
from enginebay.plugins import known_packages
from enginebay_vision import plugin

CORE = Path(eb.__file__).parent


def flags_of(module: str) -> set[str]:
    parser = ArgumentParser(add_help=False)
    import_module(module).add_arguments(parser, [])
    return {flag for flag in parser._option_string_actions if flag.startswith("--")}


def flags_of_core() -> set[str]:
    texts = (path.read_text() for path in CORE.glob("cli/*.py"))
    written = {flag for text in texts for flag in re.findall(r'"(--[a-z0-9-]+)"', text)}
    declared = (eb.ExportOptions, eb.VerifyOptions, eb.BackendParams)
    names = {name for options in declared for name in options.__struct_fields__}
    names |= {*inspect.signature(eb.deploy).parameters}
    return written | {f"--{name.replace('_', '-')}" for name in names}


def test_core_knows_every_command_of_the_lab_and_every_kind_of_task_of_vision() -> None:
    """It names the package if this package is not installed."""
    installed = entry_points(group="enginebay.commands")
    lab = {entry.name for entry in installed if entry.dist and entry.dist.name == "enginebay-lab"}
    assert lab == set(known_packages("commands"))
    assert set(plugin.tasks()) == set(known_packages("tasks"))


def test_core_names_no_flag_of_the_lab_in_its_hints() -> None:
    commands = (f"enginebay_lab.commands.{name}" for name in known_packages("commands"))
    lab = set().union(*map(flags_of, commands)) - flags_of_core()
    assert {"--against", "--max-drop"} <= lab
    tables = (CORE / "errors" / "hints.py").read_text().partition("class Option")[0]
    named = set(re.findall(r'"([a-z0-9_]+)"', tables))
    assert {flag[2:].replace("-", "_") for flag in lab} & named == set()
