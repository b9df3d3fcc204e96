package org.apache.spark.sql.paimonbridge

import scala.util.{Failure, Try}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier}
import org.apache.spark.sql.execution.command.SetNamespaceCommand

/**
 * An unresolved name with the engine's message, which includes suggestions. The message template of Spark 4.3 has a
 * search path, too.
 */
class TableNotFound(explained: String, name: Seq[String], origin: Origin) extends AnalysisException(
      message = s"[TABLE_OR_VIEW_NOT_FOUND] $explained",
      line = origin.line,
      startPosition = origin.startPosition,
      errorClass = Some("TABLE_OR_VIEW_NOT_FOUND"),
      messageParameters = Map(
        "relationName" -> name.map(quoteIfNeeded).mkString("."),
        "searchPath" -> name.init.map(quoteIfNeeded).mkString(".")),
      context = origin.getQueryContext)

/** Reports the engine's message for tables in Paimon catalogs that are unresolved at the end of the analysis. */
case class ExplainUnresolvedTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case insert: InsertIntoStatement => failIfMissing(insert.table)
      case write: V2WriteCommand => failIfMissing(write.table)
      case drop: DropTable if !drop.ifExists =>
        drop.child match {
          case r: ResolvedIdentifier =>
            failIfMissing(r.catalog, r.identifier, r.catalog.name() +: names(r.identifier), r.origin, "")
          case _ =>
        }
      case describe: DescribeColumn => failIfMissing(describe.relation, OtherStatements.history(describe).getOrElse(""))
      case other => failIfMissing(other)
    }
    plan
  }

  private def failIfMissing(plan: LogicalPlan, hint: String = ""): Unit = plan match {
    case r: UnresolvedRelation if !r.isStreaming => failIfMissing(r.multipartIdentifier, r.origin, hint)
    case t: UnresolvedTable => failIfMissing(t.multipartIdentifier, t.origin, hint)
    case t: UnresolvedTableOrView => failIfMissing(t.multipartIdentifier, t.origin, hint)
    case _ =>
  }

  private def failIfMissing(name: Seq[String], origin: Origin, hint: String): Unit = {
    val manager = CreateLike.manager(session)
    // In a view, the current catalog and database are those of its creation.
    val (current, namespace) = AnalysisContext.get.catalogAndNamespace match {
      case Seq() => (manager.currentCatalog, manager.currentNamespace)
      case catalog +: names => (manager.catalog(catalog), names.toArray)
    }
    val (catalog, ident) = name match {
      case Seq(table) => (current, Identifier.of(namespace, table))
      case first +: rest if manager.isCatalogRegistered(first) =>
        (manager.catalog(first), Identifier.of(rest.init.toArray, rest.last))
      case _ => (current, Identifier.of(name.init.toArray, name.last))
    }
    failIfMissing(catalog, ident, name, origin, hint)
  }

  private def failIfMissing(
      catalog: CatalogPlugin,
      ident: Identifier,
      name: Seq[String],
      origin: Origin,
      hint: String): Unit = catalog match {
    case ours: PaimonCatalog => Try(ours.loadTable(ident)) match {
        case Failure(missing: MissingTable) =>
          val reader =
            origin.objectName.filter(_ => origin.objectType.contains("VIEW")).fold("")(v => s" The view $v reads it.")
          throw new TableNotFound(missing.explained + reader + hint, name, origin)
        case _ =>
      }
    case _ =>
  }

  private def names(ident: Identifier): Seq[String] = ident.namespace().toSeq :+ ident.name()
}

/** Reports the engine's message for unknown databases in Paimon catalogs. */
case class ExplainUnresolvedDatabases(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case _: CreateNamespace =>
      case d: DropNamespace if d.ifExists =>
      case s: SetNamespaceCommand => failIfMissing(CreateLike.manager(session).currentCatalog, s.namespace)
      case _: Command => plan.children.foreach {
          case n: ResolvedNamespace => failIfMissing(n.catalog, n.namespace)
          case _ =>
        }
      case _ =>
    }
    plan
  }

  private def failIfMissing(catalog: CatalogPlugin, namespace: Seq[String]): Unit = catalog match {
    case ours: PaimonCatalog if namespace.nonEmpty && !ours.namespaceExists(namespace.toArray) =>
      ours.loadNamespaceMetadata(namespace.toArray)
    case _ =>
  }
}
