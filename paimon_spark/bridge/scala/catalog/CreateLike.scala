package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{TableAlreadyExistsException, UnresolvedIdentifier, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, TableCatalog}
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}

/** CREATE TABLE target LIKE source, as parsed. */
case class Like(
    target: Seq[String],
    source: Seq[String],
    provider: Option[String],
    properties: Map[String, String],
    ifNotExists: Boolean)

/** CREATE TABLE a LIKE b if `a` is in a Paimon catalog; Spark's own command drops partitioning and options. */
case class PaimonCreateLike(wanted: Like) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val manager = CreateLike.manager(session)
    val (catalog, target) = CreateLike.locate(manager, wanted.target)
    if (catalog.tableExists(target)) {
      if (!wanted.ifNotExists) throw new TableAlreadyExistsException(target)
    } else {
      val (from, source) = CreateLike.locate(manager, wanted.source)
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

  /** Properties that are not copied to another table. */
  val Never = Set("path", "provider", "location", "owner", "external", "is_managed_location")

  def manager(session: SparkSession): CatalogManager =
    session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.catalogManager

  /** Returns the Paimon command for a parsed one, if its target is in a Paimon catalog. */
  def claim(session: SparkSession, parsed: Object): Object =
    wanted(parsed).filter(isOurs(session, _)).fold(parsed)(PaimonCreateLike(_))

  /** The pattern of a name of several parts. */
  val Name = {
    val part = "(?:`(?:[^`]|``)+`|\\w+)"
    s"$part(?:\\s*\\.\\s*$part)*"
  }
  private val Statement =
    s"(?is)(${Calls.Before}create\\s+table\\s+(?:if\\s+not\\s+exists\\s+)?)($Name)(\\s+like\\s+)($Name)(.*)".r

  /** Returns the plan of a statement that Spark's parser rejects because before 4.3 the names may not have a
    * catalog. */
  def rejected(session: SparkSession, parser: ParserInterface, text: String): Option[Object] = text match {
    case Statement(create, target, like, source, rest) =>
      Try(parser.parsePlan(s"${create}a${like}b$rest")).toOption.flatMap(wanted).map(_.copy(
        target = parser.parseMultipartIdentifier(target),
        source = parser.parseMultipartIdentifier(source)))
        .filter(isOurs(session, _)).map(PaimonCreateLike(_))
    case _ => None
  }

  /** Spark 4.3 parses to a plan class that earlier releases lack, so it is matched by class name. */
  private def wanted(parsed: Object): Option[Like] = parsed match {
    case c: CreateTableLikeCommand =>
      Some(Like(c.targetTable.nameParts, c.sourceTable.nameParts, c.provider, c.properties, c.ifNotExists))
    case p: LogicalPlan if p.productPrefix == "CreateTableLike" =>
      def field[T](name: String): T = p.getClass.getMethod(name).invoke(p).asInstanceOf[T]
      (field[LogicalPlan]("name"), field[LogicalPlan]("source")) match {
        case (target: UnresolvedIdentifier, source: UnresolvedTableOrView) =>
          Some(Like(
            target.nameParts,
            source.multipartIdentifier,
            field("provider"),
            field("properties"),
            field[Boolean]("ifNotExists")))
        case _ => None
      }
    case _ => None
  }

  /** In the generic catalog, which has tables of both kinds, the provider decides. */
  private def isOurs(session: SparkSession, like: Like): Boolean = {
    val current = manager(session)
    val catalog = if (like.target.size > 2) like.target.head else current.currentCatalog.name()
    Extensions.catalogs(session).contains(catalog) &&
    (catalog != PaimonGeneric.Name || like.provider.exists(_.equalsIgnoreCase("paimon")))
  }

  def locate(manager: CatalogManager, name: Seq[String]): (TableCatalog, Identifier) = {
    val (catalog, namespace) = name.init match {
      case Seq() => (manager.currentCatalog, manager.currentNamespace)
      case Seq(database) => (manager.currentCatalog, Array(database))
      case named => (manager.catalog(named.head), named.tail.toArray)
    }
    catalog match {
      case tables: TableCatalog => (tables, Identifier.of(namespace, name.last))
      case other => throw new PaimonException(
          s"[UNSUPPORTED_FEATURE] The catalog ${other.name()} has no tables.",
          "UNSUPPORTED_FEATURE")
    }
  }
}
