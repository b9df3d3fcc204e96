"""`python -m tests.procedure_table`: write docs/procedures/tested.md, how each procedure is tested."""

from __future__ import annotations

import sys
from pathlib import Path

from paimon_spark.calls.procedure import Procedure
from paimon_spark.calls.run import is_paimon_statement
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.sqlparse.script import split_script
from tests.end_to_end.procedure_calls import CALLS as KILLED
from tests.end_to_end.procedure_calls import UNKILLED
from tests.property.procedure_histories import ALONE, ELSEWHERE
from tests.property.procedure_histories import CALLS as DISTURBED
from tests.unit.procedures.calling import REGISTRY

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "procedures" / "tested.md"
_YES, _NO = "yes", "no"
_HEAD = """# How procedures are tested

Each procedure runs in several ways. `python -m tests.procedure_table` writes this page from the lists that the tests use.

- **by position**, **by name**: a script in `sql/procedures/` calls it so; its answers are compared with the stored ones.
- **EXPLAIN**, **dry run**: on a table that the procedure has something to do on, all files are the same afterwards
  (`tests/end_to_end/test_procedure_kills.py`).
- **faults**: in random histories any operation of the store fails, or the process dies, during the CALL. Every snapshot, tag
  and branch that remains then reads as before, and no file that one needs is missing
  (`tests/property/test_procedure_histories.py`).
- **concurrent writer**: in the same histories another program writes, compacts, expires or tags during the CALL. *alone*: stop
  writers first; what they commit during the CALL may be removed with the rest.
- **killed and run again**: `kill -9` before a random change of the store, then the same CALL: the tables are as after a CALL
  that was not killed (`tests/end_to_end/test_procedure_kills.py`, 25 changes of each in `make test-all`).

| procedure | by position | by name | EXPLAIN | dry run | faults | concurrent writer | killed and run again |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def _script(procedure: Procedure) -> tuple[bool, bool]:
    """Return whether the script of a procedure calls it by position, and by name."""
    text = (ROOT / "sql" / "procedures" / f"{procedure.name}.sql").read_text(encoding="utf-8")
    statements = (s.text for s in split_script(text))
    calls = [parse_call(s) for s in statements if is_paimon_statement(s, REGISTRY)]
    own = [c for c in calls if c.procedure.lower() == procedure.name]
    return any(c.positional for c in own), any(c.named for c in own)


def _row(procedure: Procedure) -> str:
    name = procedure.name
    position, by_name = (_YES if used else _NO for used in _script(procedure))
    planned = _YES if name in KILLED else _NO
    disturbed = _YES if name in DISTURBED else ELSEWHERE[name].partition(":")[0]
    beside = "alone" if name in ALONE else _YES if name in DISTURBED else _NO
    killed = _YES if name in KILLED else UNKILLED[name].partition(":")[0]
    cells = (f"[`{name}`]({name}.md)", position, by_name, planned, planned, disturbed, beside, killed)
    return f"| {' | '.join(cells)} |"


def render() -> str:
    """Return the page."""
    return _HEAD + "\n".join(map(_row, REGISTRY)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"written: {PAGE}\n")
