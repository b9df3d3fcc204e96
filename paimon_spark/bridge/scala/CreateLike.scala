package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, TableCatalog}
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}

/** CREATE TABLE a LIKE b where `a` belongs to a Paimon catalog; Spark's own command knows only its session catalog. */
case class PaimonCreateLike(wanted: CreateTableLikeCommand) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val manager = CreateLike.manager(session)
    val (catalog, target) = CreateLike.locate(manager, wanted.targetTable)
    if (catalog.tableExists(target)) {
      if (!wanted.ifNotExists) throw new TableAlreadyExistsException(target)
    } else {
      val (from, source) = CreateLike.locate(manager, wanted.sourceTable)
      val template = from.loadTable(source)
      val all = template.properties().asScala.toMap
      val kept = if (all.get("provider").contains("paimon")) all -- CreateLike.Never else all.filter(_._1 == "comment")
      val properties = kept ++ wanted.properties ++ wanted.provider.map("provider" -> _)
      catalog.createTable(target, template.columns(), template.partitioning(), properties.asJava)
    }
    Nil
  }
}

object CreateLike {
  /** What belongs to one table alone. */
  val Never = Set("path", "provider", "location", "owner", "external", "is_managed_location")

  def manager(session: SparkSession): CatalogManager =
    session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.catalogManager

  /** The command of ours for a parsed one, if its target is in a Paimon catalog. */
  def claim(session: SparkSession, parsed: Object): Object = parsed match {
    case c: CreateTableLikeCommand if isOurs(session, c) => PaimonCreateLike(c)
    case other => other
  }

  /** In the generic catalog, where tables of both kinds are, the provider decides. */
  private def isOurs(session: SparkSession, command: CreateTableLikeCommand): Boolean = {
    val catalog = command.targetTable.catalog.getOrElse(manager(session).currentCatalog.name())
    Extensions.catalogs(session).contains(catalog) &&
      (catalog != Generic.Name || command.provider.exists(_.equalsIgnoreCase("paimon")))
  }

  def locate(manager: CatalogManager, name: TableIdentifier): (TableCatalog, Identifier) = {
    val catalog = name.catalog.map(manager.catalog).getOrElse(manager.currentCatalog)
    val namespace = name.database.map(Array(_)).getOrElse(manager.currentNamespace)
    catalog match {
      case tables: TableCatalog => (tables, Identifier.of(namespace, name.table))
      case other => throw new PaimonException(s"[UNSUPPORTED_FEATURE] The catalog ${other.name()} has no tables.",
        "UNSUPPORTED_FEATURE")
    }
  }
}
