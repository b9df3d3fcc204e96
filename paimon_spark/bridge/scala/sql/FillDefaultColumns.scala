package org.apache.spark.sql.paimonbridge

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * INSERT INTO t (a, b) on Spark 4.0, which requires all columns of a table outside its session catalog to be named.
 * Omitted columns get their default value, as in later releases.
 */
object FillDefaultColumns extends Rule[LogicalPlan] {
  private val needed = SPARK_VERSION.startsWith("4.0.")

  override def apply(plan: LogicalPlan): LogicalPlan = if (!needed) plan else plan.resolveOperatorsDown {
    case insert: InsertIntoStatement if insert.userSpecifiedCols.nonEmpty => insert.table match {
      case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] => filled(insert, r.output)
      case _ => insert
    }
  }

  private def filled(insert: InsertIntoStatement, output: Seq[AttributeReference]): InsertIntoStatement = {
    val given = insert.userSpecifiedCols ++ insert.partitionSpec.keys
    val left = output.filterNot(a => given.exists(conf.resolver(_, a.name)))
    val values = left.flatMap(a => ResolveDefaultColumns.getDefaultValueExprOrNullLit(a, true).map(a.name -> _))
    if (values.isEmpty) insert
    else {
      val columns = UnresolvedStar(None) +: values.map { case (name, value) => Alias(value, name)() }
      insert.copy(userSpecifiedCols = insert.userSpecifiedCols ++ values.map(_._1), query = Project(columns, insert.query))
    }
  }
}
