package org.apache.spark.sql.hive.thriftserver.paimonbridge

import java.util.regex.Pattern

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.paimonbridge.PaimonCatalog
import org.apache.spark.sql.types.StructType

/** A table or view in a listing; `schema` and `keys` are loaded on demand. */
private class Listed(
    val catalog: String,
    val schema: String,
    val name: String,
    val kind: String,
    val comment: String,
    load: => (StructType, Seq[String])) {
  lazy val (columns, primaryKeys) = load
}

/**
 * The contents of a session's catalogs for JDBC's DatabaseMetaData. Patterns have `%` and `_`; null or an
 * empty one matches all names. No catalog, or an empty one, is the current catalog.
 */
private class Listing(spark: SparkSession) extends Logging {
  private val state = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState
  private val manager = state.catalogManager
  private val session = CatalogManager.SESSION_CATALOG_NAME

  /** The names of all configured catalogs. */
  def catalogs: Seq[String] = {
    val configured = state.conf.getAllConfs.keys.collect { case Listing.Configured(name) => name }
    (configured ++ manager.listCatalogs(None) ++ Seq(session)).toSeq.distinct.sorted
  }

  private def chosen(catalog: String): Option[String] =
    if (catalog == null || catalog.isEmpty) Some(manager.currentCatalog.name()) else catalogs.find(_ == catalog)

  /** The catalog and name of each namespace. */
  def schemas(catalog: String, pattern: String): Seq[(String, String)] =
    chosen(catalog).toSeq.flatMap { c =>
      val views = Seq(state.catalog.globalTempDatabase).filter(_ => c == manager.currentCatalog.name())
      (namespaces(c).map(Listing.plain) ++ views).distinct.filter(Listing.matcher(pattern)).sorted.map(c -> _)
    }

  private def namespaces(catalog: String): Seq[Array[String]] = manager.catalog(catalog) match {
    case c: SupportsNamespaces => c.listNamespaces().toSeq
    case _ => Nil
  }

  /** Tables and views of the matching namespaces, ordered by namespace and name. */
  def tables(catalog: String, schema: String, table: String, kinds: Set[String]): Seq[Listed] = {
    val matches = Listing.matcher(table)
    val found = for {
      c <- chosen(catalog).toSeq
      namespace <- namespaces(c) if Listing.matcher(schema)(Listing.plain(namespace))
      entry <- in(c, namespace, matches)
    } yield entry
    (found ++ temporary(catalog, schema, matches)).filter(t => kinds.isEmpty || kinds(t.kind))
      .sortBy(t => (t.schema, t.name))
  }

  private def in(catalog: String, namespace: Array[String], matches: String => Boolean): Seq[Listed] = {
    val own = if (catalog == session && namespace.length == 1) sessionTables(namespace(0)) else Nil
    val known = own.map(_.name).toSet
    val listed = manager.catalog(catalog) match {
      case c: TableCatalog =>
        skipping(s"the tables of ${namespace.quoted}", Seq.empty[Identifier])(c.listTables(namespace).toSeq)
      case _ => Nil
    }
    val (views, tables) = listed.filter(i => !known(i.name()) && matches(i.name())).partition {
      val all = viewsOf(catalog, namespace)
      i => all(i.name())
    }
    def one(kind: String)(i: Identifier) =
      new Listed(catalog, Listing.plain(namespace), i.name(), kind, "", load(catalog, i))
    own.filter(t => matches(t.name)) ++ views.map(one(Listing.View)) ++ (manager.catalog(catalog) match {
      case ours: PaimonCatalog => tables.grouped(Listing.AtOnce).flatMap(together(ours, namespace, _))
      case _ => tables.map(one(Listing.Table))
    })
  }

  /** Tables whose columns are loaded in one request. */
  private def together(ours: PaimonCatalog, namespace: Array[String], tables: Seq[Identifier]): Seq[Listed] = {
    lazy val loaded =
      skipping(s"the columns of ${namespace.quoted}", Map.empty[String, Either[String, Listing.Columns]])(
        ours.columnsOf(namespace, tables.map(_.name())))
    tables.map { i =>
      def columns = loaded.get(i.name()).fold(load(ours.name(), i))(
        _.fold(leftOut(s"the table ${i.quoted}", Listing.NoColumns), identity))
      new Listed(ours.name(), Listing.plain(namespace), i.name(), Listing.Table, "", columns)
    }
  }

  private def viewsOf(catalog: String, namespace: Array[String]): Set[String] = manager.catalog(catalog) match {
    case ours: PaimonCatalog => skipping(s"the views of ${namespace.quoted}", Seq.empty[Identifier])(
        ours.listViews(namespace).toSeq).map(_.name()).toSet
    case _ => Set.empty
  }

  private def load(catalog: String, ident: Identifier): (StructType, Seq[String]) =
    skipping(s"the table ${ident.quoted}", Listing.NoColumns) {
      val table = manager.catalog(catalog).asTableCatalog.loadTable(ident)
      val keys =
        Option(table.properties().get("primary-key")).toSeq.flatMap(_.split(",")).map(_.trim).filter(_.nonEmpty)
      (CatalogV2Util.v2ColumnsToStructType(table.columns()), keys)
    }

  private def sessionTables(database: String): Seq[Listed] =
    skipping(s"the tables of $database", Seq.empty[CatalogTable]) {
      state.catalog.getTablesByName(state.catalog.listTables(database, "*", includeLocalTempViews = false)
        .filter(_.database.contains(database)))
    }.map(t => view(session, database, t))

  private def temporary(catalog: String, schema: String, matches: String => Boolean): Seq[Listed] = {
    val here = chosen(catalog).filter(_ == manager.currentCatalog.name()).toSeq
    for {
      c <- here
      found <- state.catalog.listTables(state.catalog.globalTempDatabase, "*", includeLocalTempViews = true)
      space = found.database.getOrElse("") if Listing.matcher(schema)(space) && matches(found.table)
    } yield view(
      c,
      space,
      state.catalog.getTempViewOrPermanentTableMetadata(TableIdentifier(found.table, found.database)))
  }

  private def view(catalog: String, schema: String, t: CatalogTable): Listed =
    new Listed(
      catalog,
      schema,
      t.identifier.table,
      if (t.tableType == CatalogTableType.VIEW) Listing.View else Listing.Table,
      t.comment.getOrElse(""),
      (t.schema, Nil))

  /** A table that cannot be read, or that is dropped meanwhile, does not hide the others. */
  private def skipping[T](what: String, otherwise: T)(found: => T): T =
    try found
    catch { case NonFatal(e) => leftOut(what, otherwise)(e.getMessage) }

  private def leftOut[T](what: String, otherwise: T)(reason: String): T = {
    logWarning(s"JDBC metadata leaves out $what: $reason")
    otherwise
  }
}

private object Listing {
  val Table = "TABLE"
  val View = "VIEW"

  /** The columns of a table and its primary key. */
  type Columns = (StructType, Seq[String])
  val NoColumns: Columns = (new StructType(), Nil)
  private val AtOnce = 1000
  private val Configured = "spark\\.sql\\.catalog\\.([^.]+)".r

  /** The name of a namespace: as it is, without quotes, unless it has several parts. */
  def plain(namespace: Array[String]): String = if (namespace.length == 1) namespace.head else namespace.quoted

  /** Whether a name matches a pattern of JDBC, in which a backslash escapes; `*` of Hive's clients matches all
    * names. */
  def matcher(pattern: String): String => Boolean =
    if (pattern == null || pattern.isEmpty || pattern == "%" || pattern == "*") _ => true
    else {
      val regex = new StringBuilder
      val rest = pattern.iterator
      rest.foreach {
        case '\\' if rest.hasNext => regex.append(Pattern.quote(rest.next().toString))
        case '%' | '*' => regex.append(".*")
        case '_' => regex.append('.')
        case other => regex.append(Pattern.quote(other.toString))
      }
      val compiled = Pattern.compile(regex.toString, Pattern.CASE_INSENSITIVE | Pattern.UNICODE_CASE | Pattern.DOTALL)
      name => compiled.matcher(name).matches()
    }
}
