"""`python -m paimon_spark`: the command `paimon-spark`, where the scripts of the environment are not on the path."""

import sys

from paimon_spark.cli.main import main

sys.exit(main())
