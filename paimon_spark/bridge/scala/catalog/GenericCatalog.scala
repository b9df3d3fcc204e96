package org.apache.spark.sql.paimonbridge

import java.util.{Map => JMap, Set => JSet}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Replaces `spark_catalog`: Paimon tables take precedence over those of the session catalog. */
class PaimonGenericCatalog extends PaimonCatalog with CatalogExtension {
  private var delegate: CatalogPlugin = _
  override private[paimonbridge] def hasViews: Boolean = false
  private def tables: TableCatalog = delegate.asInstanceOf[TableCatalog]
  private def spaces: SupportsNamespaces = delegate.asInstanceOf[SupportsNamespaces]
  private def functions: FunctionCatalog = delegate.asInstanceOf[FunctionCatalog]

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    val all = PaimonGeneric.options(SparkSession.active, options.asCaseSensitiveMap().asScala.toMap)
    super.initialize(name, new CaseInsensitiveStringMap(all.asJava))
  }

  override protected def prepare(): Unit = {}

  override def setDelegateCatalog(catalog: CatalogPlugin): Unit = delegate = catalog

  /** Whether a Paimon table has this name. */
  private[paimonbridge] def ours(ident: Identifier): Boolean = ident.namespace().length == 1 && super.tableExists(ident)

  override def defaultNamespace(): Array[String] = delegate.defaultNamespace()
  override def listNamespaces(): Array[Array[String]] = spaces.listNamespaces()
  override def listNamespaces(namespace: Array[String]): Array[Array[String]] = spaces.listNamespaces(namespace)
  override def namespaceExists(namespace: Array[String]): Boolean = spaces.namespaceExists(namespace)
  override def loadNamespaceMetadata(namespace: Array[String]): JMap[String, String] =
    spaces.loadNamespaceMetadata(namespace)
  override def createNamespace(namespace: Array[String], metadata: JMap[String, String]): Unit =
    spaces.createNamespace(namespace, metadata)
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    spaces.alterNamespace(namespace, changes: _*)

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = {
    val own = paimonTables(namespace)
    if (own.nonEmpty && !cascade)
      throw new NonEmptyNamespaceException(namespace)
    own.foreach(super.dropTable)
    val dropped = spaces.dropNamespace(namespace, cascade)
    try super.dropNamespace(namespace, cascade)
    catch { case _: NoSuchNamespaceException => }
    dropped
  }

  private def paimonTables(namespace: Array[String]): Array[Identifier] =
    try super.listTables(namespace)
    catch { case _: NoSuchNamespaceException => Array.empty }

  override def listTables(namespace: Array[String]): Array[Identifier] =
    (paimonTables(namespace) ++ tables.listTables(namespace)).distinct

  override def tableExists(ident: Identifier): Boolean = ours(ident) || tables.tableExists(ident)

  private def either(mine: => Table, other: => Table): Table =
    try mine
    catch { case _: NoSuchTableException => other }

  override def loadTable(ident: Identifier): Table = either(super.loadTable(ident), tables.loadTable(ident))
  override def loadTable(ident: Identifier, privileges: JSet[TableWritePrivilege]): Table =
    either(super.loadTable(ident, privileges), tables.loadTable(ident, privileges))
  override def loadTable(ident: Identifier, version: String): Table =
    either(
      super.loadTable(ident, version),
      if (ReferenceOptions.isEncoded(version)) PaimonGeneric.elsewhere(tables, ident, version)
      else tables.loadTable(ident, version))
  override def loadTable(ident: Identifier, timestamp: Long): Table =
    either(super.loadTable(ident, timestamp), tables.loadTable(ident, timestamp))
  override def invalidateTable(ident: Identifier): Unit = tables.invalidateTable(ident)

  private def isPaimon(properties: JMap[String, String]): Boolean =
    PaimonGeneric.isPaimon(Option(properties.get(TableCatalog.PROP_PROVIDER)))

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): Table =
    if (isPaimon(properties)) { ensureDatabase(ident); super.createTable(ident, columns, partitions, properties) }
    else tables.createTable(ident, columns, partitions, properties)

  /** Creates the warehouse directory of a session catalog database with its first Paimon table. */
  private def ensureDatabase(ident: Identifier): Unit = {
    if (!namespaceExists(ident.namespace())) throw new NoSuchNamespaceException(ident.namespace())
    Engine.json(
      "create_database",
      Map("database" -> ident.namespace()(0), "properties" -> Map.empty, "ignore_if_exists" -> true),
      ref)
  }

  override protected def requireOurs(ident: Identifier, properties: JMap[String, String]): Unit =
    if (!isPaimon(properties) || !ours(ident)) throw notOurs(ident.toString)

  override def alterTable(ident: Identifier, changes: TableChange*): Table =
    if (ours(ident)) super.alterTable(ident, changes: _*) else tables.alterTable(ident, changes: _*)
  override def dropTable(ident: Identifier): Boolean =
    if (ours(ident)) super.dropTable(ident) else tables.dropTable(ident)
  override def purgeTable(ident: Identifier): Boolean =
    if (ours(ident)) super.dropTable(ident) else tables.purgeTable(ident)
  override def renameTable(from: Identifier, to: Identifier): Unit = {
    val target = renamed(from, to)
    if (!ours(from)) tables.renameTable(from, to)
    else if (tables.tableExists(target)) throw new TableAlreadyExistsException(target)
    else super.renameTable(from, to)
  }

  override def listFunctions(namespace: Array[String]): Array[Identifier] = functions.listFunctions(namespace)
  override def loadFunction(ident: Identifier): org.apache.spark.sql.connector.catalog.functions.UnboundFunction =
    functions.loadFunction(ident)
  override def functionExists(ident: Identifier): Boolean = functions.functionExists(ident)
}

object PaimonGeneric {
  val Name = "spark_catalog"
  private val Warehouse = "warehouse"

  /** The catalog options; the default warehouse is Spark's own. */
  def options(session: SparkSession, given: Map[String, String]): Map[String, String] =
    if (given.contains(Warehouse)) given
    else {
      val key = "spark.sql.warehouse.dir"
      given + (Warehouse -> session.sharedState.conf.get(key, session.conf.get(key)))
    }

  /** A session catalog table with options of the statement, which Spark passes to its reader. */
  def elsewhere(tables: TableCatalog, ident: Identifier, version: String): Table =
    ReferenceOptions.decoded(version)._1.get("version") match {
      case Some(at) => tables.loadTable(ident, at.toString)
      case None => tables.loadTable(ident)
    }

  def isPaimon(provider: Option[String]): Boolean = provider.forall(_.equalsIgnoreCase("paimon"))

  /** Whether a name is that of a Paimon table in the generic catalog. */
  def holds(session: SparkSession, name: Seq[String]): Boolean =
    CreateLike.locate(CreateLike.manager(session), name) match {
      case (catalog: PaimonGenericCatalog, ident) => catalog.ours(ident)
      case _ => false
    }

  def installed: Boolean =
    SQLConf.get.getConfString(s"spark.sql.catalog.$Name", "builtin") == "paimon.spark.GenericCatalog"
}

/** In the generic catalog, a new table without a provider is a Paimon table; Spark would use its default file
  * source. Spark's own session catalog cannot hold a Paimon table without a path. */
case class PaimonByDefault(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case c: CreateTable => named(c, c.name, c.tableSpec).fold(plan)(s => c.copy(tableSpec = s))
    case c: CreateTableAsSelect => named(c, c.name, c.tableSpec).fold(plan)(s => c.copy(tableSpec = s))
    case c: ReplaceTable => named(c, c.name, c.tableSpec).fold(plan)(s => c.copy(tableSpec = s))
    case c: ReplaceTableAsSelect => named(c, c.name, c.tableSpec).fold(plan)(s => c.copy(tableSpec = s))
    case other => other
  }

  private def named(plan: LogicalPlan, name: LogicalPlan, spec: TableSpecBase): Option[TableSpecBase] =
    (name, spec) match {
      case (id: UnresolvedIdentifier, s: UnresolvedTableSpec)
          if byWriter(plan, s) && Extensions.ours(session, id.nameParts) && !inSessionCatalog(id.nameParts) =>
        Some(s.copy(provider = Some("paimon")))
      case (id: UnresolvedIdentifier, s: UnresolvedTableSpec)
          if s.provider.isEmpty && s.serde.isEmpty && PaimonGeneric.installed && inSessionCatalog(id.nameParts) =>
        Some(s.copy(provider = Some("paimon")))
      case (id: UnresolvedIdentifier, s: UnresolvedTableSpec) if isTaken(plan, id.nameParts) =>
        Some(s.copy(provider = Some("paimon"))) // the table exists: Spark looks for it only among its own ones
      case (id: UnresolvedIdentifier, s: UnresolvedTableSpec)
          if s.provider.exists(_.equalsIgnoreCase("paimon")) && !PaimonGeneric.installed && !hasPath(s) &&
            inSessionCatalog(id.nameParts) => refuse(id.nameParts)
      case _ => None
    }

  /** Whether a new table has the name of a Paimon table in the generic catalog. */
  private def isTaken(plan: LogicalPlan, name: Seq[String]): Boolean =
    PaimonGeneric.installed && inSessionCatalog(name) &&
      (plan.isInstanceOf[CreateTable] || plan.isInstanceOf[CreateTableAsSelect]) && PaimonGeneric.holds(session, name)

  /** Whether the provider is Spark's default, which saveAsTable and toTable pass if no format is given.
    * A plan parsed from SQL has a position in its text. */
  private def byWriter(plan: LogicalPlan, spec: UnresolvedTableSpec): Boolean =
    plan.origin.line.isEmpty &&
      spec.provider.exists(_.equalsIgnoreCase(session.sessionState.conf.defaultDataSourceName))

  private def hasPath(spec: UnresolvedTableSpec): Boolean =
    spec.location.isDefined || spec.optionExpression.options.exists(_._1.equalsIgnoreCase("path"))

  private def refuse(name: Seq[String]): Nothing = {
    val known = Extensions.catalogs(session).keys.toSeq.sorted
    val hint = known.headOption match {
      case None => "Configure one: spark.sql.catalog.paimon=paimon.spark.Catalog, and its warehouse."
      case Some(first) =>
        val all = if (known.size > 1) s" (the Paimon catalogs are ${known.mkString(", ")})" else ""
        s"Run USE $first first, or name the catalog, as in $first.default.${name.last}$all."
    }
    throw new PaimonException(
      s"[INVALID_ARGUMENT] ${name.mkString(".")} would be a table of Spark's session catalog: " +
        s"a Paimon table is created in a Paimon catalog. $hint",
      "INVALID_ARGUMENT")
  }

  private def inSessionCatalog(name: Seq[String]): Boolean = {
    val manager = CreateLike.manager(session)
    val catalog =
      if (name.length > 1 && manager.isCatalogRegistered(name.head)) name.head else manager.currentCatalog.name()
    catalog.equalsIgnoreCase(PaimonGeneric.Name)
  }
}

/** In the generic catalog, Spark's own tables and views do not take the name of a Paimon table, which would hide
  * them. */
case class KeepNamesOfTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (PaimonGeneric.installed) wanted(plan).filter(PaimonGeneric.holds(session, _)).foreach { name =>
      throw new TableAlreadyExistsException(name)
    }
    plan
  }

  /** The name that a view or a renamed table gets. */
  private def wanted(plan: LogicalPlan): Option[Seq[String]] = plan match {
    case c: CreateView => c.child match {
        case i: UnresolvedIdentifier => Some(i.nameParts)
        case _ => None
      }
    case r: RenameTable if r.newName.length > 1 => Some(r.newName)
    case r: RenameTable => r.child match {
        case t: UnresolvedTableOrView => Some(t.multipartIdentifier.init ++ r.newName)
        case t: UnresolvedTable => Some(t.multipartIdentifier.init ++ r.newName)
        case v: UnresolvedView => Some(v.multipartIdentifier.init ++ r.newName)
        case _ => None
      }
    case _ => None
  }
}
