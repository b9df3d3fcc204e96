package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{RelationTimeTravel, UnresolvedRelation, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan}
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.{StringType, StructType}

/** INSERT of the changes of tables: starts a job. A column with the kinds of the rows may come in addition to those of the
  * table. `names`: the columns that the statement lists; `byName`: whether those of the query are matched by name. */
case class ChangesInsertCommand(table: Seq[String], query: LogicalPlan, names: Seq[String], byName: Boolean)
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] =
    DataTypesBridge.attributes(new StructType().add("job id", StringType, nullable = false))
  override def simpleString(maxFields: Int): String = s"PaimonChangesInsert ${table.mkString(".")}"

  override def run(session: SparkSession): Seq[Row] = {
    val target = session.table(table.map(quoteIdentifier).mkString(".")).queryExecution.analyzed.collectFirst {
      case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] => r
    }.getOrElse(throw new PaimonException(
      s"[INVALID_ARGUMENT] '${table.mkString(".")}' is not a Paimon table.", "INVALID_ARGUMENT"))
    val given = Dataset.ofRows(session.asInstanceOf[ClassicSession], query)
    val rows = if (byName) given else positioned(given, target, session.sessionState.conf.resolver)
    StartJobCommand(target, rows.queryExecution.analyzed).run(session)
  }

  /** The rows with the names of the columns that they are inserted into. */
  private def positioned(given: DataFrame, target: DataSourceV2Relation, same: (String, String) => Boolean): DataFrame = {
    val known = target.output.map(_.name)
    val kind = given.columns.indexWhere(c => PaimonStreamExec.Kinds.contains(c) && !known.exists(same(_, c)))
    val listed = if (names.nonEmpty) names.filterNot(n => kind >= 0 && same(n, given.columns(kind))) else known
    val values = given.columns.indices.filter(_ != kind)
    if (values.length != listed.length) throw new PaimonException(
      s"[INVALID_ARGUMENT] The query has ${values.length} columns, but '${target.name}' takes ${listed.length}: " +
        s"${listed.mkString(", ")}.", "INVALID_ARGUMENT")
    val numbered = given.toDF(given.columns.indices.map(i => s"_$i"): _*)
    val renamed = values.zip(listed).map { case (i, name) => col(s"_$i").as(name) }
    numbered.select(renamed ++ Option.when(kind >= 0)(col(s"_$kind").as(given.columns(kind))): _*)
  }
}

object ChangesInsert {
  /** Returns the command for an INSERT whose query reads the changes of a table as a stream. */
  def claim(session: SparkSession, parsed: Object): Object = parsed match {
    case i: InsertIntoStatement if readsChanges(i.query) => i.table match {
      case u: UnresolvedRelation if Extensions.ours(session, u.multipartIdentifier) =>
        if (i.overwrite || i.partitionSpec.nonEmpty) FailedStatement(new PaimonException(
          "[UNSUPPORTED_FEATURE] An unbounded query cannot overwrite a table or write to one PARTITION. " +
            "Write INSERT INTO without it.", "UNSUPPORTED_FEATURE"))
        else ChangesInsertCommand(u.multipartIdentifier, i.query, i.userSpecifiedCols, i.byName)
      case _ => parsed
    }
    case i: InsertIntoStatement if ClientKeys.isStreaming(session) => i.table match {
      case u: UnresolvedRelation if Extensions.ours(session, u.multipartIdentifier) =>
        readOnce(session, i.query).fold(parsed)(name => FailedStatement(new PaimonException(
          s"[UNSUPPORTED_FEATURE] The session runs in streaming mode, but the INSERT would read $name once. Write " +
            s"paimon_changes('$name') for a job that follows the table, or SET '${ClientKeys.Mode}' = 'batch' first.",
          "UNSUPPORTED_FEATURE")))
      case _ => parsed
    }
    case _ => parsed
  }

  /** The table of ours that a bounded query reads at its newest snapshot, whose later rows would be left out. */
  private def readOnce(session: SparkSession, query: LogicalPlan): Option[String] = {
    val analyzed = session.asInstanceOf[ClassicSession].sessionState.executePlan(query).analyzed
    if (analyzed.isStreaming || travels(query)) None
    else StreamSelect.tables(analyzed).map(_.name).find(!_.contains("$"))
  }

  private def travels(query: LogicalPlan): Boolean = query.exists {
    case _: RelationTimeTravel => true
    case u: UnresolvedRelation if !u.options.isEmpty => true
    case f: UnresolvedTableValuedFunction => TableFunctions.known(f.name)
    case other => other.subqueries.exists(travels)
  }

  private def readsChanges(query: LogicalPlan): Boolean = query.exists {
    case f: UnresolvedTableValuedFunction => TableFunctions.isStream(f.name)
    case other => other.subqueries.exists(readsChanges)
  }
}
