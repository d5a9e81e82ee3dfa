"""Public names for authors of commands: shared flags, printing, and progress.

A command is a module with ``add_arguments(parser, argv)`` and ``run(args)``, which returns an exit
code. An entry point of the group ``enginebay.commands`` names the module:
``count = "my_package.count"``. The first line of the module's docstring is the command's
description. The command's help ends with the lines in ``EXAMPLES``. An exception of
:mod:`enginebay.errors` ends the command with the exception's message, hint and exit code.
"""

from __future__ import annotations

from enginebay.cli.arguments import (
    MODEL_HELP,
    add_allow_env,
    add_data,
    add_inputs,
    add_run_flags,
    add_work_dir,
    artifact_inputs,
    data_set,
    flag_values,
    read_model,
    run_params,
)
from enginebay.cli.model_arguments import (
    add_backend_parameters,
    add_model,
    add_options,
    model_options,
    named_backends,
    shared_options,
)
from enginebay.cli.output import (
    print_blocks,
    print_fields,
    print_json,
    print_labelled,
    print_message,
    print_next,
    print_table,
    stdout_on_stderr,
    styled,
)
from enginebay.cli.progress import progress
from enginebay.cli.summaries import quiet_verdict, receipt_fields
from enginebay.display import (
    Block,
    Fields,
    Result,
    Table,
    human_error,
    human_number,
    human_seconds,
    human_size,
    join_names,
    short_path,
)
from enginebay.inference import describe_precision
from enginebay.operations import default_work_dir, python_call, repeatable_command, typed

__all__ = [
    "MODEL_HELP",
    "Block",
    "Fields",
    "Result",
    "Table",
    "add_allow_env",
    "add_backend_parameters",
    "add_data",
    "add_inputs",
    "add_model",
    "add_options",
    "add_run_flags",
    "add_work_dir",
    "artifact_inputs",
    "data_set",
    "default_work_dir",
    "describe_precision",
    "flag_values",
    "human_error",
    "human_number",
    "human_seconds",
    "human_size",
    "join_names",
    "model_options",
    "named_backends",
    "print_blocks",
    "print_fields",
    "print_json",
    "print_labelled",
    "print_message",
    "print_next",
    "print_table",
    "progress",
    "python_call",
    "quiet_verdict",
    "read_model",
    "receipt_fields",
    "repeatable_command",
    "run_params",
    "shared_options",
    "short_path",
    "stdout_on_stderr",
    "styled",
    "typed",
]
