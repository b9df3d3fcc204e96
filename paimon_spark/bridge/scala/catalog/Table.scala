package org.apache.spark.sql.paimonbridge

import java.util.{EnumSet, Map => JMap, Set => JSet}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.NoSuchPartitionsException
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.StreamingWrite
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend
import org.apache.spark.sql.sources.InsertableRelation
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** What `Table` has from Spark 4.1 on. */
trait Identified {
  def id(): String
}

/** A table as described by the engine; `described` is the full description, and `asked` the schema that a reader was
  * given for it. */
class PaimonTable(
    val catalog: CatalogRef,
    val described: JsonNode,
    val byPath: Boolean = false,
    asked: Option[StructType] = None)
    extends Table with Identified with SupportsRead with SupportsWrite with SupportsDeleteV2
    with SupportsMetadataColumns {
  val token: JsonNode = described.get("token")

  /** The token without the purpose of the load: cached data of a table is invalidated when it is written. */
  private lazy val identity: JsonNode = token.deepCopy[JsonNode]() match {
    case o: ObjectNode => o.without[ObjectNode]("writes")
    case other => other
  }

  /** Distinguishes a state of a table, and what options of the session select of it, from the table: from Spark 4.1 on,
    * a query takes the cached rows of the table of the same name and id. */
  override def id(): String =
    if (Seq("snapshot", "moment", "session").exists(token.hasNonNull)) identity.toString else null

  val partitionKeys: Seq[String] = Json.strings(described.get("partition_keys"))
  val primaryKeys: Seq[String] = Json.strings(described.get("primary_keys"))

  /** The columns that determine the bucket of a row in a table without a primary key. */
  val routingKeys: Seq[String] = Json.strings(described.get("routing_keys"))

  /** Whether the bucket of a row is a fixed function of its key. */
  val isBucketed: Boolean = Option(described.get("bucketed")).exists(_.asBoolean())

  /** Whether a DELETE of whole partitions must delete row by row, to produce a changelog. */
  val deletesRowByRow: Boolean = Option(described.get("row_by_row")).exists(_.asBoolean())

  /** Whether a DELETE writes deletion vectors, although the table has a primary key. */
  val marksDeletes: Boolean = Option(described.get("marks_deletes")).exists(_.asBoolean())

  /** The kinds of statements that rewrite files, although the table has a primary key. */
  val rewrites: Set[String] = Option(described.get("rewrites")).fold(Set.empty[String])(Json.strings(_).toSet)

  /** The checks of row-level changes, in a table with the partial-update engine. */
  lazy val partialUpdates: Option[PartialUpdates] = PartialUpdates.of(name, described)

  /** How often an UPDATE is tried, and the wait in between, in a table whose changed columns get files of their own. */
  val evolution: Option[(Int, Long)] = Option(described.get("evolves")).filterNot(_.isNull)
    .map(e => (e.get("attempts").asInt(), e.get("wait").asLong()))

  /** Whether the table tracks rows. */
  private val tracked: Boolean = Option(described.get("tracked")).exists(_.asBoolean())
  val isData: Boolean = described.get("kind").asText() == "data"

  override val name: String = described.get("name").asText()
  override lazy val schema: StructType = JvmFrames.schema(described.get("schema"))
  override def partitioning(): Array[Transform] =
    partitionKeys.map(k => Expressions.identity(quoteIdentifier(k))).toArray
  override lazy val properties: JMap[String, String] = Json.stringMap(described.get("properties")).asJava

  override def capabilities(): JSet[TableCapability] = {
    val all = EnumSet.of(
      TableCapability.BATCH_READ,
      TableCapability.MICRO_BATCH_READ,
      TableCapability.CONTINUOUS_READ,
      TableCapability.STREAMING_WRITE)
    if (isData) {
      all.addAll(EnumSet.of(
        TableCapability.V1_BATCH_WRITE,
        TableCapability.TRUNCATE,
        TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.OVERWRITE_DYNAMIC))
      if (!byPath) all.add(TableCapability.BATCH_WRITE)
    }
    all
  }

  /** Whether `p` uses only partition columns, of types that compare here as in Spark. */
  def onlyPartitions(p: Predicate): Boolean = p.references().nonEmpty && p.references().forall { r =>
    r.fieldNames().length == 1 && partitionKeys.contains(r.fieldNames()(0)) && (schema(
      r.fieldNames()(0)).dataType match {
      case _: CharType => false
      case _ => true
    })
  }

  /** Columns with the location of a row; they are selected only by name. */
  override lazy val metadataColumns: Array[MetadataColumn] =
    if (!isData) Array.empty
    else Array(
      MetadataColumns.column(MetadataColumns.File, StringType),
      MetadataColumns.column(MetadataColumns.Row, LongType),
      MetadataColumns.column(
        MetadataColumns.Partition,
        CharVarcharUtils.replaceCharVarcharWithStringInSchema(
          StructType(partitionKeys.map(k => StructField(k, schema(k).dataType))))),
      MetadataColumns.column(MetadataColumns.Bucket, IntegerType),
      MetadataColumns.column(MetadataColumns.Vector, LongType))
      .++(if (tracked) MetadataColumns.Tracking.map(MetadataColumns.column(_, LongType)) else Nil)
      .filterNot(c => schema.fieldNames.contains(c.name()))

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    checkAsked()
    new PaimonScanBuilder(this, options)
  }

  /** Refuses another schema than that of the table. */
  private[paimonbridge] def checkAsked(): Unit =
    asked.filterNot(other => other == schema || isSame(other)).foreach { other =>
      throw new PaimonException(
        s"[INVALID_ARGUMENT] The table $name has the columns ${schema.toDDL}, not ${other.toDDL}. " +
          "Leave .schema(…) out, and select or cast the columns of the table.",
        "INVALID_ARGUMENT")
    }

  private def isSame(other: StructType): Boolean =
    DataType.equalsIgnoreCaseAndNullability(other, CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema))
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new PaimonWriteBuilder(this, info)

  /** The kind of the writing statement for the snapshot, if it is not an INSERT. */
  protected def operationName: Option[String] = None

  /** The micro-batch that is written, in a streaming query. */
  protected def streamed: Option[Map[String, Any]] = None

  /** Writes the rows of `frame`; the engine commits them. */
  def insert(mode: String, replaced: Option[Map[String, Any]], options: Map[String, String], frame: DataFrame): Unit =
    Engine.json(
      "write",
      Map(
        "table" -> token,
        "mode" -> mode,
        "predicate" -> replaced,
        "options" -> options,
        "operation" -> operationName,
        "stream" -> streamed),
      catalog,
      Seq(frame),
      idempotent = false)

  override def truncateTable(): Boolean = { remove(Array.empty, "TRUNCATE"); true }

  /** Whether the predicates select whole partitions, which are dropped in the metadata. */
  def selectsPartitions(predicates: Array[Predicate]): Boolean =
    predicates.forall(p => Predicates.encode(p).isDefined && (p.references().isEmpty || onlyPartitions(p)))

  /** A system table accepts any filter; the engine then rejects the statement. */
  override def canDeleteWhere(predicates: Array[Predicate]): Boolean = !isData || selectsPartitions(predicates)

  override def deleteWhere(predicates: Array[Predicate]): Unit = remove(predicates, "DELETE")

  private def remove(predicates: Array[Predicate], operation: String): Unit =
    Engine.json(
      "remove",
      Map("table" -> token, "predicate" -> Predicates.all(predicates), "operation" -> operation),
      catalog,
      idempotent = false)

  /** Whether the table is read as a stream: the rule that resolves streams replaces a table by one of its streams. */
  protected def isStream: Boolean = false

  override def equals(other: Any): Boolean = other match {
    case that: PaimonTable =>
      that.isStream == isStream && that.identity == identity && that.catalog == catalog && that.schema == schema
    case _ => false
  }
  override def hashCode(): Int = identity.hashCode()
  override def toString: String = name

  /** The same table, equal to no other one, so that Spark does not replace it by cached rows. */
  def uncached: PaimonTable = new PaimonTable(catalog, described, byPath) {
    override def equals(other: Any): Boolean = other match {
      case that: AnyRef => this eq that
      case _ => false
    }
    override def hashCode(): Int = System.identityHashCode(this)
  }
}

/** The metadata columns of tables. File and row identify a row of a table without a primary key. */
object MetadataColumns {
  val File = "__paimon_file_path"
  val Row = "__paimon_row_index"
  val Partition = "__paimon_partition"
  val Bucket = "__paimon_bucket"
  val Vector = "__paimon_deletion_vector"
  val All: Seq[String] = Seq(File, Row, Vector)
  val Tracking: Seq[String] = Seq("_ROW_ID", "_SEQUENCE_NUMBER")

  def column(called: String, ofType: DataType): MetadataColumn = new MetadataColumn {
    override def name(): String = called
    override def dataType(): DataType = ofType
    override def isNullable: Boolean = true
  }
}

/** A partitioned table, whose partitions can be listed and dropped. */
class PaimonPartitionedTable(catalog: CatalogRef, described: JsonNode)
    extends PaimonTable(catalog, described) with SupportsAtomicPartitionManagement {
  override lazy val partitionSchema: StructType = StructType(partitionKeys.map(k => schema(k)))

  override def listPartitionIdentifiers(names: Array[String], ident: InternalRow): Array[InternalRow] = {
    val fixed = names.zipWithIndex.map { case (n, i) =>
      val dataType = partitionSchema(n).dataType
      n -> Values.encode(ident.get(i, dataType), dataType).orNull
    }.toMap
    val answer = Engine.json("list_partitions", Map("table" -> token, "fixed" -> fixed), catalog)
    Json.items(answer.get("partitions")).map(p => Values.row(Json.items(p), partitionSchema)).toArray
  }

  override def dropPartitions(idents: Array[InternalRow]): Boolean = {
    val rows = idents.map(row =>
      partitionSchema.fields.zipWithIndex.map { case (f, i) =>
        Values.encode(row.get(i, f.dataType), f.dataType).orNull
      })
    Engine.json(
      "drop_partitions",
      Map("table" -> token, "partitions" -> rows.map(_.toSeq).toSeq),
      catalog,
      idempotent = false)
    true
  }

  override def dropPartition(ident: InternalRow): Boolean = dropPartitions(Array(ident))

  /** TRUNCATE TABLE with a full spec, which names one partition; a partial spec selects among the existing ones. */
  override def truncatePartition(ident: InternalRow): Boolean = {
    if (!partitionExists(ident)) throw new NoSuchPartitionsException(name, Seq(ident), partitionSchema)
    dropPartitions(Array(ident))
  }
  override def truncatePartitions(idents: Array[InternalRow]): Boolean = dropPartitions(idents)

  private def refused(what: String) = new PaimonException(
    s"[UNSUPPORTED_FEATURE] $what is not possible: a partition exists when it holds data.",
    "UNSUPPORTED_FEATURE")

  /** Does nothing: a partition exists once it has rows. Properties, such as a location, are rejected. */
  override def createPartition(ident: InternalRow, properties: JMap[String, String]): Unit =
    if (!properties.isEmpty) throw refused(s"ADD PARTITION with a ${properties.keySet.asScala.mkString(", ")}")
  override def createPartitions(idents: Array[InternalRow], properties: Array[JMap[String, String]]): Unit =
    idents.zip(properties).foreach { case (ident, given) => createPartition(ident, given) }
  override def replacePartitionMetadata(ident: InternalRow, properties: JMap[String, String]): Unit =
    throw refused("Changing the metadata of a partition")
  override def renamePartition(from: InternalRow, to: InternalRow): Boolean = throw refused("Renaming a partition")
  override def loadPartitionMetadata(ident: InternalRow): JMap[String, String] = Map.empty[String, String].asJava
}

object PaimonTable {
  def of(catalog: CatalogRef, described: JsonNode): PaimonTable =
    if (described.get("kind").asText() == "data" && !described.get("partition_keys").isEmpty)
      new PaimonPartitionedTable(catalog, described)
    else new PaimonTable(catalog, described)
}

/** Translates Spark's kinds of overwrite into the engine's: none, by filter, or by the partitions of the rows. */
class PaimonWriteBuilder(table: PaimonTable, info: LogicalWriteInfo)
    extends WriteBuilder with SupportsOverwriteV2 with SupportsDynamicOverwrite with SupportsStreamingUpdateAsAppend {
  private var mode: String = "append"
  private var replaced: Array[Predicate] = Array.empty

  override def truncate(): WriteBuilder = { mode = "static"; this }

  override def canOverwrite(predicates: Array[Predicate]): Boolean = table.selectsPartitions(predicates)

  override def overwrite(predicates: Array[Predicate]): WriteBuilder = {
    mode = "static"
    replaced = predicates.filterNot(_.name() == "ALWAYS_TRUE")
    this
  }

  override def overwriteDynamicPartitions(): WriteBuilder = { mode = "dynamic"; this }

  override def build(): Write = new PaimonWrite(table, mode, replaced, info.options())
}

/** One INSERT. The engine receives the rows as a DataFrame and commits them. */
class PaimonWrite(table: PaimonTable, mode: String, replaced: Array[Predicate], options: CaseInsensitiveStringMap)
    extends V1Write {
  def insert(frame: DataFrame): Unit =
    table.insert(mode, Predicates.all(replaced), options.asCaseSensitiveMap().asScala.toMap, frame)

  override def toInsertableRelation: InsertableRelation = (frame: DataFrame, _: Boolean) => insert(frame)

  override def toStreaming: StreamingWrite = new PaimonStreamingWrite(table, options)

  override def description(): String = mode match {
    case "append" => Option(table.properties.get("upsert-key")).fold(s"appends to ${table.name}")(key =>
        s"replaces the rows of ${table.name} with the same $key")
    case "dynamic" => s"overwrites the partitions of its rows in ${table.name}"
    case _ if replaced.isEmpty => s"overwrites ${table.name}"
    case _ => s"overwrites ${table.name} where ${replaced.map(description).mkString(" AND ")}"
  }

  private def description(p: Predicate): String =
    if (Set("=", "<=>").contains(p.name())) p.children().mkString(" = ") else p.toString

  override def toString: String = description()
}
