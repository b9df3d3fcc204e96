"""Procedures of Apache Paimon that cannot be called here: why, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from paimon_spark.errors import UnsupportedError


class Refusal(NamedTuple):
    """Why a procedure is refused, and what to do instead."""

    why: str
    instead: str


_FUNCTIONS = Refusal(
    "functions are stored by a REST catalog, and this catalog is a file system",
    "Declare functions of a session with CREATE TEMPORARY FUNCTION.",
)
_GLOBAL_INDEX = Refusal(
    "of the global indexes, only the types 'btree' and 'bitmap' are supported",
    "Search with Paimon. Filters on columns are faster with sys.create_global_index of these two types.",
)
REFUSED: Mapping[str, Refusal] = {
    "alter_function": _FUNCTIONS,
    "alter_view_dialect": Refusal(
        "views are stored with Spark's query alone, and no other engine reads them",
        "Change the query with CREATE OR REPLACE VIEW.",
    ),
    "create_function": _FUNCTIONS,
    "drop_function": _FUNCTIONS,
    "full_text_search": _GLOBAL_INDEX,
    "migrate_iceberg_table": Refusal(
        "Paimon 2.0 has no such procedure, and Iceberg tables are not read here",
        "Read the table with Iceberg's catalog and write it with CREATE TABLE … AS SELECT.",
    ),
    "query_service": Refusal(
        "the service that answers lookups is a permanent Flink job",
        "Lookups by key are fast in SQL and in the Python API; see the page about performance.",
    ),
    "refresh_object_table": Refusal(
        "object tables are not supported, and Paimon 2.0 has no such procedure",
        "Read the files with Spark's format `binaryFile`.",
    ),
    "repair": Refusal(
        "it enters tables of the file system into a metastore, and this catalog has none",
        "Every table below the warehouse directory is in the catalog. For missing files, call "
        "sys.remove_unexisting_files.",
    ),
    "vector_search": _GLOBAL_INDEX,
}
"""The refused procedures by name, in lower case."""


def refused(name: str, namespace: str) -> UnsupportedError | None:
    """Return the error for a refused procedure; None for any other."""
    found = REFUSED.get(name.lower())
    if found is None:
        return None
    return UnsupportedError(
        f"The procedure '{namespace}.{name.lower()}' of Apache Paimon is not supported: {found.why}.",
        hint=found.instead,
    )
