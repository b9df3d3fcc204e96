package org.apache.spark.sql.paimonbridge

import java.util.{Map => JMap, Set => JSet}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.analysis.{
  NoSuchFunctionException,
  NoSuchTableException,
  TableAlreadyExistsException
}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure
import org.apache.spark.sql.connector.expressions.{BucketTransform, IdentityTransform, Transform}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A Paimon warehouse as a Spark catalog. Each method is one request to the engine. */
class PaimonCatalog extends TableCatalog with PaimonStaging with PaimonViews with SupportsNamespaces
    with ProcedureCatalog with FunctionCatalog {
  private[paimonbridge] var ref: CatalogRef = CatalogRef.none

  /** Whether names may be those of views; the views of a generic catalog are the session catalog's. */
  private[paimonbridge] def hasViews: Boolean = true
  private val lastDatabase = new LastDatabase

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    ref = CatalogRef(name, options.asCaseSensitiveMap().asScala.toMap)
    Extensions.check()
    prepare()
  }

  protected def prepare(): Unit = Engine.json("open_catalog", Map.empty, ref)

  override def name(): String = ref.name
  override def defaultNamespace(): Array[String] = Array(ref.options.getOrElse("defaultDatabase", "default"))
  override def capabilities(): JSet[TableCatalogCapability] =
    Set(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE).asJava

  private def database(namespace: Array[String]): String = namespace match {
    case Array(one) => one
    case _ => throw new MissingDatabase(
        ref.name +: namespace.toSeq,
        s"Database '${namespace.mkString(".")}' does not exist in the catalog ${ref.name}, where databases have " +
          "names of one part. The Paimon catalogs of this session are " +
          s"${Extensions.catalogs(SparkSession.active).keys.mkString(", ")}.")
  }

  private def table(method: String, ident: Identifier, args: Map[String, Any], idempotent: Boolean = true) =
    if (ident.namespace().length != 1) throw new NoSuchTableException(ident)
    else Engine.json(
      method,
      args ++ Map("database" -> ident.namespace()(0), "name" -> ident.name()),
      ref,
      idempotent = idempotent,
      namespace = ident.namespace().toSeq,
      name = full(ident))

  private def full(ident: Identifier): Seq[String] = ref.name +: ident.namespace().toSeq :+ ident.name()

  private def space(method: String, namespace: Array[String], args: Map[String, Any], idempotent: Boolean = true) =
    Engine.json(
      method,
      args + ("database" -> database(namespace)),
      ref,
      idempotent = idempotent,
      namespace = ref.name +: namespace.toSeq)

  override def listNamespaces(): Array[Array[String]] =
    Json.strings(Engine.json("list_databases", Map.empty, ref).get("databases")).map(Array(_)).toArray

  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces()
    else { loadNamespaceMetadata(namespace); Array.empty }

  override def loadNamespaceMetadata(namespace: Array[String]): JMap[String, String] =
    lastDatabase.of(namespace.toSeq)(
      Json.stringMap(space("load_database", namespace, Map.empty).get("properties")).asJava)

  override def createNamespace(namespace: Array[String], metadata: JMap[String, String]): Unit =
    space("create_database", namespace, Map("properties" -> metadata.asScala.toMap), idempotent = false)

  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    space("alter_database", namespace, Map.empty)

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean =
    try space("drop_database", namespace, Map("cascade" -> cascade), idempotent = false).get("dropped").asBoolean()
    finally lastDatabase.forget()

  /** Tables and views, as of Spark's session catalog. */
  override def listTables(namespace: Array[String]): Array[Identifier] =
    Json.strings(space("list_tables", namespace, Map("views" -> hasViews)).get("tables"))
      .map(Identifier.of(namespace, _)).toArray

  private def load(
      ident: Identifier,
      travel: Map[String, Any],
      writes: Boolean = false,
      options: Map[String, String] = Map.empty): Table = {
    val described =
      table("load_table", ident, Map("travel" -> travel, "writes" -> writes, "options" -> options, "views" -> hasViews))
    if (described.get("kind").asText() == "view") PaimonView.of(ViewName(ref.name, ident), described)
    else PaimonTable.of(ref, described)
  }

  override def loadTable(ident: Identifier): Table = load(ident, Map.empty)
  override def loadTable(ident: Identifier, privileges: JSet[TableWritePrivilege]): Table =
    load(ident, Map.empty, writes = true)
  override def loadTable(ident: Identifier, version: String): Table = {
    val (travel, options) = ReferenceOptions.decoded(version)
    load(ident, travel, options = options.getOrElse(Map.empty))
  }
  override def loadTable(ident: Identifier, timestamp: Long): Table = load(ident, Map("timestamp" -> timestamp))

  override def tableExists(ident: Identifier): Boolean =
    ident.namespace().length == 1 && table("table_exists", ident, Map("views" -> hasViews)).get("exists").asBoolean()

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): Table =
    create(ident, CatalogV2Util.v2ColumnsToStructType(columns), partitions, properties)

  override def createTable(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): Table = create(ident, schema, partitions, properties)

  /** Returns no table, as the interface allows: Spark loads the new one where it needs it. */
  private def create(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): Table = {
    table("create_table", ident, tableArgs(ident, schema, partitions, properties), idempotent = false)
    null
  }

  /** The request to create a table. */
  private[paimonbridge] def tableArgs(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): Map[String, Any] = {
    val layout = Layout.of(partitions, properties.asScala.toMap)
    Map(
      "database" -> database(ident.namespace()),
      "name" -> ident.name(),
      "schema" -> Json.parse(schema.json),
      "partition_keys" -> layout.keys,
      "properties" -> layout.properties)
  }

  /** Returns no table, as the interface allows: Spark discards it. */
  override def alterTable(ident: Identifier, changes: TableChange*): Table = {
    table("alter_table", ident, Map("changes" -> changes.map(Changes.encode)), idempotent = false)
    null
  }

  override def dropTable(ident: Identifier): Boolean =
    table("drop_table", ident, Map.empty, idempotent = false).get("dropped").asBoolean()

  override def purgeTable(ident: Identifier): Boolean = dropTable(ident)

  override def renameTable(from: Identifier, to: Identifier): Unit = {
    val target = renamed(from, to)
    try Engine.json(
        "rename_table",
        Map(
          "database" -> from.namespace()(0),
          "name" -> from.name(),
          "to_database" -> database(target.namespace()),
          "to_name" -> target.name()),
        ref,
        idempotent = false,
        namespace = from.namespace().toSeq,
        name = full(from))
    catch { case _: TableAlreadyExistsException => throw new TableAlreadyExistsException(full(target)) }
  }

  /** The new name of a table, which may be given with its catalog, or without its database. */
  protected def renamed(from: Identifier, to: Identifier): Identifier = {
    val space = if (to.namespace().length == 2 && to.namespace()(0) == ref.name) to.namespace().tail else to.namespace()
    Identifier.of(if (space.isEmpty) from.namespace() else space, to.name())
  }

  override def listFunctions(namespace: Array[String]): Array[Identifier] = Functions.list(namespace)
  override def loadFunction(ident: Identifier): UnboundFunction =
    Functions.load(ident).getOrElse(throw new NoSuchFunctionException(ident))

  override def loadProcedure(ident: Identifier): UnboundProcedure = Procedures.load(ref, ident)

  /** Procedures are listed in each namespace, because a CALL resolves them from any current database. */
  def listProcedures(namespace: Array[String]): Array[Identifier] = Procedures.list(ref)
}

/** The properties of the database that Spark asked for last, for 0.1 s: its analyzer asks up to seven times for that of
  * a new table, and each time is a request to the engine. */
private class LastDatabase {
  private val kept = TimeUnit.MILLISECONDS.toNanos(100)
  private case class Found(namespace: Seq[String], properties: JMap[String, String], nanos: Long)
  @volatile private var last: Option[Found] = None

  def of(namespace: Seq[String])(load: => JMap[String, String]): JMap[String, String] =
    last.filter(f => f.namespace == namespace && System.nanoTime() - f.nanos < kept).getOrElse {
      val found = Found(namespace, load, System.nanoTime())
      last = Some(found)
      found
    }.properties

  def forget(): Unit = last = None
}

/** The partition columns and the properties of a new table. */
private[paimonbridge] case class Layout(keys: Seq[String], properties: Map[String, String])

private[paimonbridge] object Layout {

  /** Translates Spark's transforms: columns are partition columns, CLUSTERED BY or bucket(n, c) sets the bucket
    * options. */
  def of(transforms: Array[Transform], properties: Map[String, String]): Layout =
    transforms.foldLeft(Layout(Nil, properties)) {
      case (layout, IdentityTransform(r)) if r.fieldNames().length == 1 =>
        layout.copy(keys = layout.keys :+ r.fieldNames()(0))
      case (layout, BucketTransform(count, columns, Seq())) if columns.forall(_.fieldNames().length == 1) =>
        val key = columns.map(_.fieldNames()(0)).mkString(",")
        layout.copy(properties =
          Seq("bucket" -> count.toString, "bucket-key" -> key).foldLeft(layout.properties)(added))
      case (_, other) => throw unsupported(other)
    }

  private def added(properties: Map[String, String], option: (String, String)): Map[String, String] = {
    val (name, value) = option
    properties.get(name).filter(_ != value).foreach(given =>
      throw new PaimonException(
        s"[INVALID_ARGUMENT] The table's buckets give '$name' = '$value', and its properties '$name' = '$given'. " +
          "Leave one of them out.",
        "INVALID_ARGUMENT"))
    properties + option
  }

  private def unsupported(transform: Transform): PaimonException = {
    val hint = transform.name() match {
      case "cluster_by" =>
        "To cluster rows, run CALL sys.compact(table => …, order_strategy => 'zorder', order_by => …)."
      case "sorted_bucket" => "Leave SORTED BY out: the rows of a bucket are sorted by the primary key."
      case _ => "Partition by plain columns."
    }
    new PaimonException(
      s"[UNSUPPORTED_FEATURE] The partition transform ${transform.describe()} is not supported. $hint",
      "UNSUPPORTED_FEATURE")
  }
}

/** Encodes ALTER TABLE changes as JSON. */
object Changes {
  def encode(change: TableChange): Map[String, Any] = change match {
    case c: SetProperty if c.property() == TableCatalog.PROP_LOCATION =>
      throw new PaimonException(
        "[UNSUPPORTED_FEATURE] The location of a table in a Paimon catalog cannot be changed. Create a table of " +
          "that name in another warehouse, and copy the rows.",
        "UNSUPPORTED_FEATURE")
    case c: SetProperty => Map("op" -> "set", "key" -> c.property(), "value" -> c.value())
    case c: RemoveProperty => Map("op" -> "remove", "key" -> c.property())
    case c: AddColumn => Map(
        "op" -> "add",
        "column" -> c.fieldNames().toSeq,
        "type" -> json(c.dataType()),
        "nullable" -> c.isNullable,
        "comment" -> c.comment(),
        "position" -> position(c.position()),
        "default" -> Option(c.defaultValue()).map(_.getSql))
    case c: RenameColumn => Map("op" -> "rename", "column" -> c.fieldNames().toSeq, "to" -> c.newName())
    case c: DeleteColumn => Map("op" -> "drop", "column" -> c.fieldNames().toSeq, "if_exists" -> c.ifExists())
    case c: UpdateColumnType => Map("op" -> "type", "column" -> c.fieldNames().toSeq, "type" -> json(c.newDataType()))
    case c: UpdateColumnNullability =>
      Map("op" -> "nullability", "column" -> c.fieldNames().toSeq, "nullable" -> c.nullable())
    case c: UpdateColumnComment => Map("op" -> "comment", "column" -> c.fieldNames().toSeq, "comment" -> c.newComment())
    case c: UpdateColumnPosition =>
      Map("op" -> "position", "column" -> c.fieldNames().toSeq, "position" -> position(c.position()))
    case c: UpdateColumnDefaultValue =>
      Map("op" -> "default", "column" -> c.fieldNames().toSeq, "default" -> c.newDefaultValue())
    case other => throw new PaimonException(
        s"[UNSUPPORTED_FEATURE] The table change ${other.getClass.getSimpleName} is not supported.",
        "UNSUPPORTED_FEATURE")
  }

  private def json(dataType: DataType) =
    if (!dataType.sql.replace(" COLLATE UTF8_BINARY", "").contains(" COLLATE ")) Json.parse(dataType.json)
    else throw new PaimonException(
      "[UNSUPPORTED_FEATURE] A Paimon table cannot store a collation. " +
        "Leave COLLATE out of the type; compare with COLLATE in the queries.",
      "UNSUPPORTED_FEATURE")

  private def position(p: ColumnPosition): Any = p match {
    case null => null
    case a: After => Map("after" -> a.column())
    case _ => Map("first" -> true)
  }
}
