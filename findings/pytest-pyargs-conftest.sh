#!/usr/bin/env bash
# The conftest of a package that --pyargs names adds no option; the conftest of its folder does.
#
# Guess: `pytest --pyargs PACKAGE --engine x` is `pytest FOLDER_OF_PACKAGE --engine x`, since pytest
#   reads the conftest files of its arguments before it parses their options.
# Seen with pytest 9.2.0 on Python 3.11: with the folder, the option of the package's conftest.py is
#   known. With --pyargs it is an unrecognized argument (exit code 4): names of packages are resolved
#   only after the options have been parsed. Without the option, --pyargs finds the conftest, and its
#   fixtures work. A suite that others run by its package's name must give its options by a plugin,
#   `-p PACKAGE`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pytest==9.2.0
mkdir -p "$folder/src/suite" "$folder/elsewhere"
touch "$folder/src/suite/__init__.py"
cat > "$folder/src/suite/conftest.py" <<'PYTHON'
import pytest


def pytest_addoption(parser):
    parser.addoption("--engine", default="none")


@pytest.fixture
def engine(pytestconfig):
    return pytestconfig.getoption("--engine")
PYTHON
cat > "$folder/src/suite/test_engine.py" <<'PYTHON'
def test_engine(engine):
    assert engine in ("none", "x")
PYTHON
cp "$folder/src/suite/conftest.py" "$folder/src/suite/plugin.py"
export PYTHONPATH="$folder/src" PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
cd "$folder/elsewhere"
run() {
    code=0
    "$folder/env/bin/python" -m pytest -q -p no:cacheprovider "$@" > "$folder/log" 2>&1 || code=$?
    echo "exit code $code, $(grep -oE "unrecognized arguments|[0-9]+ passed" "$folder/log" | head -1)"
}
{
    echo "by folder: $(run "$folder/src/suite" --engine x)"
    echo "by name: $(run --pyargs suite --engine x)"
    echo "by name, without the option: $(run --pyargs suite)"
} | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
by folder: exit code 0, 1 passed
by name: exit code 4, unrecognized arguments
by name, without the option: exit code 0, 1 passed
EXPECTED
