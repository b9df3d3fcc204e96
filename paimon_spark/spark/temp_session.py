"""A session for one procedure, which discards views, catalogs and the current database at its end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError
from paimon_spark.spark.failures import clear_failure, first_line
from paimon_spark.spark.jvm_frames import forget_session, session_for, target_frame
from paimon_spark.spec.identifier import Identifier, split_name
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.sqlparse.source_sqls import CreateCatalog, SourceStatement, UseName, parse_source_sqls

_ANSI = "spark.sql.ansi.enabled"
_CATALOG = "spark.sql.catalog."
_ResultT = TypeVar("_ResultT")


class TemporarySession:
    """A clone of the user's session: it has the same views and settings, and its changes do not affect the original.

    Jobs with Python workers run in `origin`, the user's session: a clone may start workers of its own, which would
    remain.
    """

    def __init__(self, session: SparkSession, catalog: str, target: Identifier) -> None:
        """Clone `session` and make the target's database current."""
        self.origin = session
        clone = session._jsparkSession.cloneSession()
        self._id = str(clone.sessionUUID())
        self._let_go = weakref.finalize(self, forget_session, self._id)
        self._target = (catalog, target.database)
        self.spark = session_for(self._id, lambda: clone)
        self.spark.sql(f"USE {_dotted(self._target)}")

    def close(self) -> None:
        """Drop the session now, not only when this object is collected."""
        self._let_go()

    def table(self, name: Sequence[str], parameter: str) -> DataFrame:
        """Return the rows of a table or view.

        Raises:
            NotFoundError: there is none.
        """
        try:
            return self.spark.table(_dotted(name))
        except AnalysisException as e:
            raise NotFoundError(
                f"The argument '{parameter}' names '{'.'.join(name)}', which is not a table or view: {first_line(e)}",
                hint="A source in another database or catalog needs its full name, such as db.t.",
                kind=ErrorKind.TABLE_NOT_FOUND,
            ) from e

    def target(self, name: Identifier) -> DataFrame:
        """Return the rows of the table that is changed, as they are stored in its latest snapshot."""
        return target_frame(self.spark, self._target[0], name)

    def name_target(self, target: DataFrame, alias: str) -> None:
        """Register the target as a view called `alias`.

        Raises:
            ArgumentError: something is called so already.
        """
        if len(split_name(alias)) > 1 or self.spark.catalog.tableExists(_dotted((*self._target, alias))):
            raise ArgumentError(
                f"target_alias is '{alias}', which is the name of a table.", hint="Choose a name that no table has."
            )
        try:
            target.createTempView(quoted_name(alias))
        except AnalysisException as e:
            raise ArgumentError(
                f"target_alias '{alias}' cannot be used: {first_line(e)}", hint="Choose another."
            ) from e

    def run_source_sqls(self, text: str) -> None:
        """Run the statements that prepare the source, in order.

        Raises:
            ArgumentError: one of them is not allowed, or fails.
        """
        for statement in parse_source_sqls(text):
            try:
                self._run(statement)
            except (PySparkException, ArgumentError) as e:
                cause = clear_failure(e)
                reason = cause.message if isinstance(cause, ArgumentError) else first_line(cause)
                raise ArgumentError(
                    f"The statement in 'source_sqls' failed: {statement.text}: {reason}", hint="Nothing was merged."
                ) from e

    def _run(self, statement: SourceStatement) -> None:
        if isinstance(statement, CreateCatalog):
            self._create_catalog(statement)
        elif isinstance(statement, UseName):
            self.spark.sql(f"USE {_dotted(split_name(statement.name))}")
        else:
            self.spark.sql(statement.text)

    def _create_catalog(self, statement: CreateCatalog) -> None:
        key = _CATALOG + statement.name
        if self.spark.conf.get(key, None) is not None:
            if statement.if_not_exists:
                return
            raise ArgumentError(f"The catalog '{statement.name}' already exists.")
        self.spark.conf.set(key, "paimon.spark.Catalog")
        for name, value in statement.options.items():
            if name != "type":
                self.spark.conf.set(f"{key}.{name}", value)

    def under_ansi(self, build: Callable[[], _ResultT]) -> _ResultT:
        """Return the result of `build` with the casts of an INSERT, by which a value that does not fit is an error."""
        jvm: Any = self.spark._jvm
        sessions = jvm.org.apache.spark.sql.classic.SparkSession
        active, before = sessions.getActiveSession(), self.spark.conf.get(_ANSI, None)
        self.spark.conf.set(_ANSI, "true")
        sessions.setActiveSession(self.spark._jsparkSession)
        try:
            return build()
        finally:
            if before is None:
                self.spark.conf.unset(_ANSI)
            else:
                self.spark.conf.set(_ANSI, before)
            if active.isDefined():
                sessions.setActiveSession(active.get())


def _dotted(name: Sequence[str]) -> str:
    return ".".join(quoted_name(part) for part in name)
