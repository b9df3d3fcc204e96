package org.apache.spark.sql.paimonbridge

import scala.util.{Failure, Try}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.Identifier

/**
 * A name that Spark has not found, with the engine's words for it: they tell what else it may be meant to be.
 * The template of Spark 4.3 has a search path, too.
 */
class TableNotFound(explained: String, name: Seq[String], origin: Origin) extends AnalysisException(
  message = s"[TABLE_OR_VIEW_NOT_FOUND] $explained", line = origin.line, startPosition = origin.startPosition,
  errorClass = Some("TABLE_OR_VIEW_NOT_FOUND"),
  messageParameters = Map("relationName" -> name.map(quoteIfNeeded).mkString("."),
    "searchPath" -> name.init.map(quoteIfNeeded).mkString(".")), context = origin.getQueryContext)

/** Tells of tables in Paimon catalogs that are still unresolved at the end of the analysis what the engine says of them. */
case class MissingTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case insert: InsertIntoStatement => tell(insert.table)
      case write: V2WriteCommand => tell(write.table)
      case other => tell(other)
    }
    plan
  }

  private def tell(plan: LogicalPlan): Unit = plan match {
    case r: UnresolvedRelation if !r.isStreaming => tell(r.multipartIdentifier, r.origin)
    case t: UnresolvedTable => tell(t.multipartIdentifier, t.origin)
    case t: UnresolvedTableOrView => tell(t.multipartIdentifier, t.origin)
    case _ =>
  }

  private def tell(name: Seq[String], origin: Origin): Unit = {
    val manager = CreateLike.manager(session)
    val (catalog, ident) = name match {
      case Seq(table) => (manager.currentCatalog, Identifier.of(manager.currentNamespace, table))
      case first +: rest if manager.isCatalogRegistered(first) =>
        (manager.catalog(first), Identifier.of(rest.init.toArray, rest.last))
      case _ => (manager.currentCatalog, Identifier.of(name.init.toArray, name.last))
    }
    catalog match {
      case ours: PaimonCatalog => Try(ours.loadTable(ident)) match {
        case Failure(missing: MissingTable) => throw new TableNotFound(missing.explained, name, origin)
        case _ =>
      }
      case _ =>
    }
  }
}
