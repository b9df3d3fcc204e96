package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.types.BooleanType

/** Checks that Spark makes of queries, and not of statements that change rows. */
object RowLevelChecks {

  def apply(statement: LogicalPlan): Unit = {
    conditions(statement).foreach(checkBoolean)
    statement.expressions.flatMap(aggregates).headOption.foreach(refuse)
  }

  /** The aggregates outside of windows. */
  private def aggregates(e: Expression): Seq[AggregateExpression] = e match {
    case a: AggregateExpression => Seq(a)
    case _: WindowExpression => Nil
    case other => other.children.flatMap(aggregates)
  }

  private def conditions(statement: LogicalPlan): Seq[Expression] = statement match {
    case d: DeleteFromTable => Seq(d.condition)
    case u: UpdateTable => u.condition.toSeq
    case m: MergeIntoTable => m.mergeCondition +: (m.matchedActions ++ m.notMatchedActions ++
        m.notMatchedBySourceActions).flatMap(_.condition)
    case o: OverwriteByExpression => Seq(o.deleteExpr)
    case _ => Nil
  }

  private def checkBoolean(condition: Expression): Unit = if (condition.dataType != BooleanType) {
    val text = s"\"${toPrettySQL(condition)}\""
    throw new AnalysisException(
      "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
      Map("sqlExpr" -> text, "filter" -> text, "type" -> s"\"${condition.dataType.sql}\""),
      condition.origin)
  }

  private def refuse(aggregate: AggregateExpression): Unit = throw new PaimonException(
    s"[INVALID_ARGUMENT] The aggregate function ${toPrettySQL(aggregate)} has no rows to aggregate here: a statement " +
      "changes each row by itself. Use a subquery, as in (SELECT max(v) FROM t), or aggregate in the source of MERGE.",
    "INVALID_ARGUMENT")
}
