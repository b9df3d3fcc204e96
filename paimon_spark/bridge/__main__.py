"""The engine process: ``python -m paimon_spark.bridge``, started by the JVM."""

from __future__ import annotations

import os
import signal
import sys

from paimon_spark.errors import PaimonError

_FOOTER_BYTES = 64 << 20
"""Memory for footers of the data files that the engine itself reads, for further small reads of the same files."""


def main() -> int:
    """Serve requests until the JVM ends; return 1 if the engine cannot start."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from paimon_spark.bridge.jars import RUNNING, check_running

        check_running(os.environ.pop(RUNNING, None))
        from paimon_spark.bridge.handlers.registry import HANDLERS, import_the_rest
        from paimon_spark.bridge.launcher import serve
        from paimon_spark.format.parquet_footer import FOOTERS

        FOOTERS.keep(_FOOTER_BYTES)
        serve(HANDLERS, import_the_rest)
    except (PaimonError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
