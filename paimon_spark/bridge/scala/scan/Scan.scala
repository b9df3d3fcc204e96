package org.apache.spark.sql.paimonbridge

import java.util.{Map => JMap, Optional, OptionalLong}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference, SortOrder}
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Collects Spark's pushdowns; the engine plans when the scan is built. */
class PaimonScanBuilder(table: PaimonTable, options: CaseInsensitiveStringMap) extends ScanBuilder
    with SupportsPushDownV2Filters with SupportsPushDownRequiredColumns with SupportsPushDownLimit
    with SupportsPushDownTopN with SupportsPushDownAggregates {
  private var pushed: Array[Predicate] = Array.empty
  private var inexact: Boolean = false
  private var required: StructType = table.schema
  private var pruned: Boolean = false
  private var limit: Option[Int] = None
  private var order: Option[Map[String, Any]] = None
  private var answer: Option[MetadataAnswer] = None

  /** Filters over partition columns only are exact; Spark evaluates all others again. */
  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
    pushed = predicates.filter(Predicates.encode(_).isDefined)
    val left = predicates.filterNot(p => Predicates.encode(p).isDefined && table.onlyPartitions(p))
    inexact = left.nonEmpty
    left
  }

  /** Spark prints these, and cannot print a null of BINARY. */
  override def pushedPredicates(): Array[Predicate] = pushed.filterNot(Predicates.hasNullBinary)

  /** Prunes whole columns only: rows have all fields of a struct, and Spark addresses fields by position. */
  override def pruneColumns(requiredSchema: StructType): Unit = {
    val whole = CharVarcharUtils.replaceCharVarcharWithStringInSchema(
      StructType(table.schema ++ table.metadataColumns.map(c => StructField(c.name(), c.dataType(), c.isNullable))))
    required = StructType(requiredSchema.fields.map(f => whole.find(_.name == f.name).getOrElse(f)))
    pruned = true
  }

  override def pushLimit(n: Int): Boolean = { limit = Some(n); true }

  override def isPartiallyPushed: Boolean = true

  /** Keeps the files with the first rows in the order of the first column; Spark sorts their rows. */
  override def pushTopN(orders: Array[SortOrder], n: Int): Boolean = {
    order = orders.headOption.flatMap(Predicates.order(_, only = orders.length == 1))
      .filter(o => table.isData && table.schema.getFieldIndex(o("column").toString).isDefined)
    if (order.isDefined) limit = Some(n)
    order.isDefined
  }

  override def supportCompletePushDown(aggregation: Aggregation): Boolean = answered(aggregation)

  override def pushAggregation(aggregation: Aggregation): Boolean = answered(aggregation)

  /** Asks the engine once; without an answer, its plan of the read is kept for `build`. */
  private def answered(aggregation: Aggregation): Boolean =
    !inexact && MetadataAnswer.query(table, aggregation).exists { query =>
      if (!answer.exists(_.query == query)) {
        required = query.columns
        answer = Some(query.answer(
          request,
          asked =>
            SnapshotOfQuery.ask(table, options)(at =>
              Engine.json(
                "aggregate_rows",
                asked ++ at,
                table.catalog))))
      }
      if (answer.get.rows.isEmpty) required = table.schema
      answer.get.rows.isDefined
    }

  private def request: Map[String, Any] = Map(
    "table" -> table.token,
    "columns" -> required.fieldNames.toSeq,
    "predicate" -> Predicates.all(pushed),
    "limit" -> limit,
    "order" -> order,
    "options" -> options.asCaseSensitiveMap().asScala.toMap)

  override def build(): Scan = answer.flatMap(_.scan(table)).getOrElse {
    val known = answer.filter(_.request == request).flatMap(_.plan)
    val scan = new PaimonScan(table, required, request, options, pushed, known, inQuery = pruned)
    if (pruned && SnapshotOfQuery.isKnown) scan.plan // its snapshot is that of further references
    scan
  }
}

/** The stored statistics of one column; bounds are Spark's internal values. */
class AnalyzedColumn(stats: JsonNode, dataType: DataType) extends ColumnStatistics {
  private def long(name: String): OptionalLong =
    Json.optional(stats, name).map(n => OptionalLong.of(n.asLong())).getOrElse(OptionalLong.empty())
  private def bound(name: String): Optional[Object] =
    Optional.ofNullable(Json.optional(stats, name).fold[Any](null)(Values.decode(_, dataType)).asInstanceOf[Object])
  override def distinctCount(): OptionalLong = long("distinct_count")
  override def min(): Optional[Object] = bound("min")
  override def max(): Optional[Object] = bound("max")
  override def nullCount(): OptionalLong = long("null_count")
  override def avgLen(): OptionalLong = long("avg_len")
  override def maxLen(): OptionalLong = long("max_len")
}

/** One planned read of one snapshot. The engine's DataFrame replaces it when Spark plans the query. `inQuery` is false
  * for a read that is only described, as by DESCRIBE of a column. */
class PaimonScan(
    val table: PaimonTable,
    override val readSchema: StructType,
    request: Map[String, Any],
    options: CaseInsensitiveStringMap,
    pushed: Array[Predicate],
    known: Option[JsonNode] = None,
    inQuery: Boolean = true)
    extends Scan with SupportsReportStatistics with SupportsRuntimeV2Filtering {
  lazy val plan: JsonNode = known.getOrElse(
    SnapshotOfQuery.ask(table, options)(at => Engine.json("plan_scan", request ++ at, table.catalog)))

  private val planned = mutable.Map[(Boolean, Boolean), LogicalPlan]()

  /** The request for exactly the read that was planned. */
  private def pinned: Map[String, Any] = request ++ Map("scan" -> plan.get("scan"), "snapshot" -> plan.get("snapshot"))

  /** The engine's plan of this read, cached because adaptive execution plans a query several times. `prunesLater`:
    * the required partitions become known only while the query runs. `byBucket`: its tasks can be grouped by bucket. */
  def logicalPlan(prunesLater: Boolean, byBucket: Boolean): LogicalPlan = synchronized {
    planned.getOrElseUpdate(
      (prunesLater, byBucket), {
        val args = Map("prunes_later" -> prunesLater, "by_bucket" -> byBucket)
        val frame = Engine.jvmObject("scan_frame", pinned ++ args, table.catalog, Nil).asInstanceOf[Dataset[_]]
        val read = frame.queryExecution.analyzed
        read.foreach(_.expressions.foreach(_.foreach {
          case test: NotSuperseded => test.superseded.askEngine(frame.queryExecution.sparkSession, superseded)
          case _ =>
        }))
        read
      })
  }

  private def superseded(missing: Seq[String]): Array[Byte] =
    Engine.bytes("superseded_rows", pinned + ("missing" -> missing), table.catalog)
      .getOrElse(throw new IllegalStateException("The engine has found no superseded rows"))

  /** Whether the read is so small that the engine reads the rows itself. */
  def isLocal: Boolean = Json.optional(plan, "local").exists(_.asBoolean())

  /** The rows as an Arrow stream; None if they turn out to be too many. */
  def localRows(): Option[Array[Byte]] =
    Engine.bytes("local_rows", pinned, table.catalog)

  def info: String = s"${table.name} ${plan.get("info").asText()}"

  override def description(): String = {
    val filters = if (pushed.isEmpty) "" else s", filters=${pushed.mkString("[", ", ", "]")}"
    s"PaimonScan $info$filters"
  }

  override def estimateStatistics(): Statistics = new Statistics {

    /** For a read that takes a job, a lower bound of the size of its rows in memory, by which Spark decides what to
      * broadcast. */
    override def sizeInBytes(): OptionalLong = {
      val stored = plan.get("bytes").asLong()
      val rows = if (isLocal) None else Json.optional(plan, "rows").map(_.asLong())
      OptionalLong.of(rows.fold(stored)(n => math.max(stored, n * readSchema.defaultSize)))
    }
    override def numRows(): OptionalLong =
      Json.optional(plan, "rows").map(n => OptionalLong.of(n.asLong())).getOrElse(OptionalLong.empty())
    override def columnStats(): JMap[NamedReference, ColumnStatistics] =
      if (!inQuery || SQLConf.get.cboEnabled || SQLConf.get.planStatsEnabled) analyzed else JMap.of()
  }

  /** The statistics that ANALYZE TABLE has stored for the columns of this read; only the cost-based optimizer uses
    * them. */
  private lazy val analyzed: JMap[NamedReference, ColumnStatistics] = {
    val answer = Engine.json("scan_statistics", request + ("snapshot" -> plan.get("snapshot")), table.catalog)
    readSchema.fields.flatMap(f =>
      Json.optional(answer, f.name).map(s =>
        (Expressions.column(quoteIdentifier(f.name)): NamedReference) -> new AnalyzedColumn(s, f.dataType)))
      .toMap[NamedReference, ColumnStatistics].asJava
  }

  override def filterAttributes(): Array[NamedReference] = {
    val read = readSchema.fieldNames.toSet
    table.partitionKeys.filter(read).map(k => Expressions.column(quoteIdentifier(k))).toArray
  }

  /** Dynamic partition filters are applied by the native scan itself. */
  override def filter(predicates: Array[Predicate]): Unit = {}

  override def toBatch: Batch = throw new PaimonException(
    "[ENVIRONMENT] Reading needs the session extension. Set spark.sql.extensions=paimon.spark.SessionExtension.",
    "ENVIRONMENT")

  private lazy val identity: String = Json.text(request) + plan.get("snapshot") + readSchema.json
  override def equals(other: Any): Boolean = other match {
    case that: PaimonScan => (this eq that) || (that.table == table && that.identity == identity)
    case _ => false
  }
  override def hashCode(): Int = table.hashCode()
}
