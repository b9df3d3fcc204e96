"""The methods of the engine, and what its start imports."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

from paimon_spark.bridge import handlers


def test_the_start_imports_no_parser_of_sql() -> None:
    lines = "import sys", "import paimon_spark.bridge.handlers", "print([m for m in sys.modules if 'sqlglot' in m])"
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_methods_imported_later_are_those_of_their_modules() -> None:
    for module, names in handlers._PARSING.items():
        assert set(import_module(f"paimon_spark.bridge.{module}").HANDLERS) == set(names)
        assert set(names) <= set(handlers.HANDLERS)
