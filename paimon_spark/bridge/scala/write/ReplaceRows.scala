package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._

/** INSERT INTO … REPLACE WHERE: the rows of a condition are deleted and those of a query are inserted, in one commit.
  *
  * In a table with a primary key, both are joined by the key: a row of the query replaces the row that would be
  * deleted, and is inserted as by any INSERT if there is none. Where merging would keep something of the replaced row,
  * its file is rewritten. */
class ReplaceRows(
    target: Target,
    source: LogicalPlan,
    assignments: Seq[Assignment],
    condition: Expression,
    forced: Boolean = false)
    extends MergeIntoRows(
      target,
      source,
      ReplaceRows.sameKey(target, assignments),
      if (target.table.primaryKeys.isEmpty) Nil else Seq(UpdateAction(None, assignments)),
      Seq(InsertAction(None, assignments)),
      Seq(DeleteAction(None)),
      forced) {
  override protected def changeKinds: Seq[String] = super.changeKinds :+ "REPLACE"
  override protected def replaces: Boolean = true
  override protected def rewriting: RowStatement =
    new ReplaceRows(target, source, assignments, condition, forced = true)
  override protected def description: String = s"INSERT INTO ${table.name}${where(Some(condition), "REPLACE WHERE")}"
  override protected def statement: String = s"INSERT INTO ${table.name} REPLACE WHERE"
  override protected def remedy: String = "Make the query unique in the primary key, for example with GROUP BY."
  override protected def candidates: LogicalPlan = Filter(condition, rows)

  override protected def changed: LogicalPlan =
    if (keyed) super.changed
    else Union(changes(Seq(Seq(removed)), None, candidates), changes(Seq(inserted(assignments)), None, source))
}

object ReplaceRows {

  /** `query` has the columns of the table, in order; the query may read the table itself. */
  def apply(target: Target, condition: Expression, query: LogicalPlan): ReplaceRows = {
    val source = Project(query.output.map(a => Alias(a, a.name)()), query)
    val assignments = target.columns.zip(source.output).map { case (column, value) => Assignment(column, value) }
    new ReplaceRows(target, source, assignments, condition)
  }

  private def sameKey(target: Target, assignments: Seq[Assignment]): Expression = assignments.collect {
    case Assignment(key: Attribute, value) if target.table.primaryKeys.contains(key.name) =>
      EqualTo(key, value)
  }.reduceOption(And).getOrElse(Literal.FalseLiteral)
}
