package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{AnalyzeColumn, AnalyzeTable, ColumnStat, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.execution.command.{CommandUtils, LeafRunnableCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** ANALYZE TABLE on Paimon tables becomes a command; Spark itself analyzes only tables of its session catalog. */
object ResolveAnalyze extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case AnalyzeTable(ResolvedTable(catalog, ident, table: PaimonTable, _), partition, noScan) =>
      refuse(
        partition.nonEmpty,
        "ANALYZE TABLE … PARTITION",
        "Statistics are those of the whole table: leave PARTITION out.")
      refuse(noScan, "ANALYZE TABLE … NOSCAN", "The size of a table is known from its metadata: leave NOSCAN out.")
      PaimonAnalyzeCommand(catalog, ident, table, Nil, allColumns = false)
    case AnalyzeColumn(ResolvedTable(catalog, ident, table: PaimonTable, _), columns, all) =>
      PaimonAnalyzeCommand(catalog, ident, table, columns.getOrElse(Nil), all)
    case other => other
  }

  private def refuse(when: Boolean, what: String, hint: String): Unit =
    if (when) throw new PaimonException(s"[UNSUPPORTED_FEATURE] $what is not supported. $hint", "UNSUPPORTED_FEATURE")
}

/** Computes the statistics with Spark's own aggregates; the engine stores them in a snapshot. */
case class PaimonAnalyzeCommand(
    catalog: TableCatalog,
    ident: Identifier,
    table: PaimonTable,
    columns: Seq[String],
    allColumns: Boolean) extends LeafRunnableCommand {
  override def output: Seq[Attribute] = Nil
  override def simpleString(maxFields: Int): String = s"PaimonAnalyze ${table.name}"

  override def run(given: SparkSession): Seq[Row] = {
    val session = given.asInstanceOf[ClassicSession]
    val wanted = Map("table" -> table.token, "columns" -> columns, "all_columns" -> allColumns)
    val plan = Engine.json("plan_analyze_table", wanted, table.catalog)
    Json.optional(plan, "snapshot").foreach { snapshot =>
      val analyzed = PaimonTable.of(table.catalog, plan.get("table"))
      val relation = DataSourceV2Relation.create(analyzed, Some(catalog), Some(ident))
      val attributes = Json.strings(plan.get("columns")).map(c => relation.output.find(_.name == c).get)
      val (rows, found) = CommandUtils.computeColumnStats(session, relation, attributes)
      val stats = found.map { case (a, s) => a.name -> encoded(a, s) }
      Engine.json(
        "analyze_table",
        Map("table" -> analyzed.token, "snapshot" -> snapshot, "rows" -> rows, "columns" -> stats),
        table.catalog,
        idempotent = false)
      val cached = DataSourceV2Relation.create(table, Some(catalog), Some(ident))
      session.sharedState.cacheManager.recacheByPlan(session, cached)
    }
    Nil
  }

  private def encoded(column: Attribute, stat: ColumnStat): Map[String, Any] = {
    val plain = CharVarcharUtils.replaceCharVarcharWithString(column.dataType)
    def text(value: Option[Any]) = value.flatMap(Values.encode(_, plain))
    Map(
      "distinct_count" -> stat.distinctCount.map(_.toLong),
      "min" -> text(stat.min),
      "max" -> text(stat.max),
      "null_count" -> stat.nullCount.map(_.toLong),
      "avg_len" -> stat.avgLen,
      "max_len" -> stat.maxLen)
  }
}
