package org.apache.spark.sql.paimonbridge

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeReference, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * INSERT INTO t (a, b) and INSERT INTO t BY NAME on Spark 4.0, which requires all columns of a table outside its
 * session catalog. Omitted columns get their default value, as in later releases.
 */
object FillDefaultColumns extends Rule[LogicalPlan] {
  private val needed = SPARK_VERSION.startsWith("4.0.")

  override def apply(plan: LogicalPlan): LogicalPlan = if (!needed) plan
  else plan.resolveOperatorsDown {
    case insert: InsertIntoStatement if insert.userSpecifiedCols.nonEmpty =>
      insert.table match {
        case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] => filled(insert, r.output)
        case _ => insert
      }
    case insert: InsertIntoStatement if insert.byName && insert.query.resolved =>
      insert.table match {
        case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] =>
          insert.copy(query = completed(insert.query, r.output, insert.partitionSpec.keys.toSeq))
        case _ => insert
      }
  }

  /** The rows with the columns that they lack, of those of a table and not `given` otherwise. */
  def completed(query: LogicalPlan, output: Seq[AttributeReference], given: Seq[String]): LogicalPlan = {
    val values = if (needed) defaults(output, query.output.map(_.name) ++ given) else Nil
    if (values.isEmpty) query
    else Project(query.output ++ values.map { case (name, value) => Alias(value, name)() }, query)
  }

  /** The default values of the columns that are not given, by name. */
  private def defaults(output: Seq[AttributeReference], given: Seq[String]): Seq[(String, Expression)] =
    output.filterNot(a => given.exists(conf.resolver(_, a.name)))
      .flatMap(a => ResolveDefaultColumns.getDefaultValueExprOrNullLit(a, true).map(a.name -> _))

  private def filled(insert: InsertIntoStatement, output: Seq[AttributeReference]): InsertIntoStatement = {
    val values = defaults(output, insert.userSpecifiedCols ++ insert.partitionSpec.keys)
    if (values.isEmpty) insert
    else {
      val columns = UnresolvedStar(None) +: values.map { case (name, value) => Alias(value, name)() }
      insert.copy(
        userSpecifiedCols = insert.userSpecifiedCols ++ values.map(_._1),
        query = Project(columns, insert.query))
    }
  }
}
