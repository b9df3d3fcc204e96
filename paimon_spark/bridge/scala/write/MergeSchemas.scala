package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{NamedRelation, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Writes by name with `write.merge-schema`: the table gets the columns of the rows before Spark compares the two. */
case class MergeSchemas(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case w: V2WriteCommand if w.isByName && merges(w, w.table, optionsOf(w)) =>
      command(w, w.table, w.query, optionsOf(w))
    case i: InsertIntoStatement if i.byName =>
      i.table match {
        case u: UnresolvedRelation if merges(i, u, ReferenceOptions.given(u)) =>
          command(i, u, i.query, ReferenceOptions.given(u))
        case _ => plan
      }
    case _ => plan
  }

  private def merges(write: LogicalPlan, table: NamedRelation, options: Map[String, String]): Boolean =
    write.getTagValue(MergedSchemas.Done).isEmpty && MergedSchemas.name(table).exists(n =>
      Extensions.ours(session, n) && !CreateLike.manager(session).v1SessionCatalog.isTempView(n) &&
        MergedSchemas.wanted(session, options, stored(table, n)))

  /** The properties of the table that is written to. */
  private def stored(table: NamedRelation, name: Seq[String]): Map[String, String] = {
    val found = table match {
      case r: DataSourceV2Relation => Some(r.table)
      case _ =>
        val manager = CreateLike.manager(session)
        val named = name.length > 1 && manager.isCatalogRegistered(name.head)
        val (catalog, rest) = if (named) (manager.catalog(name.head), name.tail) else (manager.currentCatalog, name)
        val namespace = if (rest.length > 1 || named) rest.init.toArray else manager.currentNamespace
        Some(catalog).collect { case c: TableCatalog => c }
          .flatMap(c => Try(c.loadTable(Identifier.of(namespace, rest.last))).toOption)
    }
    found.collect { case t: PaimonTable => t.properties.asScala.toMap }.getOrElse(Map.empty)
  }

  private def command(write: LogicalPlan, table: NamedRelation, query: LogicalPlan, options: Map[String, String]) =
    MergedWriteCommand(write, MergedSchemas.name(table).get, query, options)

  private def optionsOf(write: V2WriteCommand): Map[String, String] = write match {
    case a: AppendData => a.writeOptions
    case o: OverwriteByExpression => o.writeOptions
    case o: OverwritePartitionsDynamic => o.writeOptions
    case _ => Map.empty
  }
}

case class MergedWriteCommand(write: LogicalPlan, table: Seq[String], query: LogicalPlan, options: Map[String, String])
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = Nil
  override def simpleString(maxFields: Int): String = s"PaimonMergeSchema ${table.mkString(".")}"

  override def run(session: SparkSession): Seq[Row] = {
    val classic = session.asInstanceOf[ClassicSession]
    val rows = Dataset.ofRows(classic, query)
    relation(session).map(_.table).collect { case t: PaimonTable => t }
      .foreach(MergedSchemas.merge(_, options, rows.schema))
    val anew = UnresolvedRelation(table, CaseInsensitiveStringMap.empty())
    val statement = write match {
      case w: V2WriteCommand =>
        w.withNewTable(anew).withNewQuery(completed(rows.queryExecution.analyzed, relation(session)))
      case other => other.clone()
    }
    statement.setTagValue(MergedSchemas.Done, true)
    Dataset.ofRows(classic, statement)
    Nil
  }

  private def relation(session: SparkSession): Option[DataSourceV2Relation] =
    session.table(table.map(quoteIdentifier).mkString(".")).queryExecution.analyzed.collectFirst {
      case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] => r
    }

  private def completed(rows: LogicalPlan, target: Option[DataSourceV2Relation]): LogicalPlan =
    target.fold(rows)(r => FillDefaultColumns.completed(rows, r.output, Nil))
}

object MergedSchemas {
  private[paimonbridge] val Done: TreeNodeTag[Boolean] = TreeNodeTag[Boolean]("paimon_schema_merged")
  private val Key = "write.merge-schema"
  private val OfSession = "spark.paimon."

  /** Whether a statement, its session or the table may enable new columns; the engine applies their precedence. */
  def wanted(session: SparkSession, options: Map[String, String], stored: => Map[String, String]): Boolean =
    options.collectFirst { case (k, v) if k.equalsIgnoreCase(Key) => v } match {
      case Some(given) => isTrue(given)
      case None => session.conf.getAll.exists { case (k, v) =>
          k.startsWith(OfSession) && k.endsWith(s".$Key") && isTrue(v)
        } ||
        stored.get(Key).exists(isTrue)
    }

  private def isTrue(value: String): Boolean = value.trim.equalsIgnoreCase("true")

  def name(table: NamedRelation): Option[Seq[String]] = table match {
    case u: UnresolvedRelation => Some(u.multipartIdentifier)
    case r: DataSourceV2Relation if r.table.isInstanceOf[PaimonTable] =>
      for (c <- r.catalog; i <- r.identifier) yield (c.name() +: i.namespace().toSeq) :+ i.name()
    case _ => None
  }

  /** Adds the new columns of the rows to a table, by the options. */
  def merge(table: PaimonTable, options: Map[String, String], rows: StructType): Unit =
    Engine.json(
      "merge_schema",
      Map("table" -> table.token, "options" -> options, "schema" -> Json.parse(rows.asNullable.json)),
      table.catalog,
      idempotent = false)
}
