#!/bin/sh
# thriftserver | sql | spark-sql | submit | env: the commands of paimon-spark, on the warehouse of the container.
set -eu

warehouse="${PAIMON_WAREHOUSE:-/warehouse}"
command="${1:-thriftserver}"
[ "$#" -gt 0 ] && shift

case "$command" in
  thriftserver)
    exec paimon-spark thriftserver --host 0.0.0.0 --port 10000 --warehouse "$warehouse" "$@"
    ;;
  sql | spark-sql | submit | env)
    exec paimon-spark "$command" --warehouse "$warehouse" "$@"
    ;;
  *)
    exec "$command" "$@"
    ;;
esac
