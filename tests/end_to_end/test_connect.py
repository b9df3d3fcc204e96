"""Spark Connect: a client without a JVM, the catalog on the server."""

from __future__ import annotations

import sys
import textwrap

from paimon_spark.bridge.jars import spark_home
from tests.end_to_end.programs import Place, free_port, plain_conf, server

CLIENT = """
    import sys
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    spark.sql("CREATE DATABASE paimon.remote")
    spark.sql("CREATE TABLE paimon.remote.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO paimon.remote.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO paimon.remote.t VALUES (2, 'c')")
    print("ANSWER", [tuple(r) for r in spark.table("paimon.remote.t").orderBy("id").collect()])
    print("STATUS", spark.sql("CALL paimon.sys.compact(table => 'remote.t')").collect()[0]["result"])
    spark.stop()
"""


def test_a_remote_session_writes_reads_and_calls(place: Place) -> None:
    port = free_port()
    command = [
        *(spark_home() / "bin" / "spark-submit", *plain_conf(place.warehouse)),
        *(
            "--conf",
            f"spark.connect.grpc.binding.port={port}",
            "--conf",
            "spark.connect.grpc.binding.address=127.0.0.1",
        ),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    client = place.directory / "client.py"
    client.write_text(textwrap.dedent(CLIENT))
    with server(place, command, port):
        done = place.run([sys.executable, client, f"sc://127.0.0.1:{port}"])
    assert "ANSWER [(1, 'a'), (2, 'c')]" in done.stdout
    assert "STATUS True" in done.stdout
