package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{ResolvedIdentifier, UnresolvedRelation, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.{StringType, StructType}

/** INSERT of the changes of tables: starts a job. A column with the kinds of the rows may come in addition to those
  * of the table. `names`: the columns that the statement lists; `byName`: whether those of the query are matched by
  * name. */
case class ChangesInsertCommand(table: Seq[String], query: LogicalPlan, names: Seq[String], byName: Boolean)
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] =
    DataTypesBridge.attributes(new StructType().add("job id", StringType, nullable = false))
  override def simpleString(maxFields: Int): String = s"PaimonChangesInsert ${table.mkString(".")}"

  override def run(session: SparkSession): Seq[Row] = {
    val target = session.table(table.map(quoteIdentifier).mkString(".")).queryExecution.analyzed.collectFirst {
      case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] => r
    }.getOrElse(throw new PaimonException(
      s"[INVALID_ARGUMENT] '${table.mkString(".")}' is not a Paimon table.",
      "INVALID_ARGUMENT"))
    val given = Dataset.ofRows(session.asInstanceOf[ClassicSession], query)
    val rows = if (byName) given else positioned(given, target, session.sessionState.conf.resolver)
    StartJobCommand(target, rows.queryExecution.analyzed).run(session)
  }

  /** The rows with the names of the columns that they are inserted into. */
  private def positioned(
      given: DataFrame,
      target: DataSourceV2Relation,
      same: (String, String) => Boolean): DataFrame = {
    val known = target.output.map(_.name)
    val kind = given.columns.indexWhere(c => PaimonStreamExec.Kinds.contains(c) && !known.exists(same(_, c)))
    val listed = if (names.nonEmpty) names.filterNot(n => kind >= 0 && same(n, given.columns(kind))) else known
    val values = given.columns.indices.filter(_ != kind)
    if (values.length != listed.length) throw new PaimonException(
      s"[INVALID_ARGUMENT] The query has ${values.length} columns, but '${target.name}' takes ${listed.length}: " +
        s"${listed.mkString(", ")}.",
      "INVALID_ARGUMENT")
    val numbered = given.toDF(given.columns.indices.map(i => s"_$i"): _*)
    val renamed = values.zip(listed).map { case (i, name) => col(s"_$i").as(name) }
    numbered.select(renamed ++ Option.when(kind >= 0)(col(s"_$kind").as(given.columns(kind))): _*)
  }
}

object ChangesInsert {

  /** Returns the command for an INSERT whose query reads the changes of a table as a stream. */
  def claim(session: SparkSession, parsed: Object): Object = parsed match {
    case i: InsertIntoStatement if readsChanges(i.query) =>
      i.table match {
        case u: UnresolvedRelation if Extensions.ours(session, u.multipartIdentifier) =>
          if (i.overwrite || i.partitionSpec.nonEmpty) FailedStatement(new PaimonException(
            "[UNSUPPORTED_FEATURE] An unbounded query cannot overwrite a table or write to one PARTITION. " +
              "Write INSERT INTO without it.",
            "UNSUPPORTED_FEATURE"))
          else ChangesInsertCommand(u.multipartIdentifier, i.query, i.userSpecifiedCols, i.byName)
        case _ => parsed
      }
    case _ => parsed
  }

  def readsChanges(query: LogicalPlan): Boolean = query.exists {
    case f: UnresolvedTableValuedFunction => TableFunctions.isStream(f.name)
    case other => other.subqueries.exists(readsChanges)
  }
}

/** Refuses SQL that in streaming mode writes the rows that a table has at the moment: its later rows would be
  * missing. */
case class RefuseReadsAtOnce(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (ClientKeys.isStreaming(session) && plan.exists(isWrite))
      RefuseReadsAtOnce.tables(plan).headOption.foreach(t => throw refused(t.name))
    plan
  }

  private def isWrite(plan: LogicalPlan): Boolean = plan match {
    case w: V2WriteCommand if !w.isInstanceOf[RowLevelWrite] =>
      isSql(w) && (w.table match {
        case r: DataSourceV2Relation => r.table.isInstanceOf[PaimonTable]
        case _ => false
      })
    case c: V2CreateTableAsSelectPlan => (isSql(c) || isSql(c.name)) && (c.name match {
        case id: ResolvedIdentifier => id.catalog.isInstanceOf[PaimonCatalog]
        case _ => false
      })
    case _ => false
  }

  /** A plan of a DataFrame has no position in a text; it is a batch in any mode. */
  private def isSql(plan: LogicalPlan): Boolean = plan.origin.line.nonEmpty

  private def refused(table: String) = new PaimonException(
    s"[UNSUPPORTED_FEATURE] The session runs in streaming mode, but the statement would read $table once. Write " +
      s"paimon_changes('$table') for a job that follows the table, or SET '${ClientKeys.Mode}' = 'batch' first.",
    "UNSUPPORTED_FEATURE")
}

object RefuseReadsAtOnce {

  /** The tables that are read at their newest snapshot. */
  private def tables(plan: LogicalPlan): Seq[PaimonTable] = reads(plan).filter(_.options.isEmpty).map(_.table).collect {
    case t: PaimonTable if t.isData && !t.token.hasNonNull("snapshot") => t
  }

  private def reads(plan: LogicalPlan): Seq[DataSourceV2Relation] = plan.collectWithSubqueries {
    case r: DataSourceV2Relation => Seq(r)
    case c: V2CreateTableAsSelectPlan => reads(c.query)
  }.flatten
}
