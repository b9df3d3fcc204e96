package org.apache.spark.sql.paimonbridge

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.Path

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, Attribute, AttributeSet, Expression, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Strategy,
  MicroBatchScanExec,
  StreamingDataSourceV2ScanRelation
}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table that a streaming query reads, as the engine describes it for the options of the query. */
class PaimonStreamTable(catalog: CatalogRef, described: JsonNode, byPath: Boolean)
    extends PaimonTable(catalog, described, byPath) {
  override protected def isStream: Boolean = true
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    () => new PaimonStreamScan(this, options)
}

/** Resolves the table of a streaming read with the options of the query, which may add the kinds of the rows. */
object ResolveStreams extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case s: StreamingRelationV2 => s.table match {
        case _: PaimonStreamTable => s
        case given: PaimonTable =>
          given.checkAsked()
          if (given.token.path("travels").asBoolean()) ReferenceOptions.refuseStream(given.name)
          val options = StreamOptions.ofTable(s.extraOptions.asCaseSensitiveMap().asScala.toMap)
          val described =
            Engine.json("stream_relation", Map("table" -> given.token, "options" -> options), given.catalog)
          val table = new PaimonStreamTable(given.catalog, described, given.byPath)
          val output = DataTypesBridge.attributes(CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.schema))
          // an SQL query may refer to the columns already
          s.copy(
            table = table,
            output = output.map(a =>
              s.output.find(o => o.name == a.name && o.dataType == a.dataType)
                .fold(a)(known => a.withExprId(known.exprId))))
        case _ => s
      }
  }
}

class PaimonStreamScan(val table: PaimonStreamTable, options: CaseInsensitiveStringMap) extends Scan {
  val given: Map[String, String] = StreamOptions.ofTable(options.asCaseSensitiveMap().asScala.toMap)
  override def readSchema(): StructType = table.schema
  override def description(): String = s"PaimonStream ${table.name}"
  override def toMicroBatchStream(checkpoint: String): MicroBatchStream = new PaimonStream(this, new Path(checkpoint))
  override def toContinuousStream(checkpoint: String): ContinuousStream = throw new PaimonException(
    s"[UNSUPPORTED_FEATURE] A continuous trigger cannot read ${table.name}: its rows come with the snapshots of the " +
      "table. Use Trigger.ProcessingTime or Trigger.AvailableNow.",
    "UNSUPPORTED_FEATURE")
}

/** A position in a stream, as the engine writes it. */
case class PaimonOffset(override val json: String) extends Offset

/** The stream of a table. The engine interprets the positions; the first one is kept in the checkpoint, because a
  * query that is restarted in its first batch must begin where it began. */
class PaimonStream(scan: PaimonStreamScan, checkpoint: Path) extends MicroBatchStream with SupportsAdmissionControl
    with SupportsTriggerAvailableNow {

  /** The last snapshot of a query that reads only what exists at its start. */
  private var last: Option[Long] = None
  private var lastBatch: Long = System.nanoTime()

  /** When the engine had no new snapshot, in nanoseconds; none if its last answer had one. */
  private var quietSince: Option[Long] = None

  private lazy val initial: PaimonOffset = PaimonOffset(StreamStart.kept(checkpoint)(
    ask("stream_initial").get("offset").asText()))

  private def ask(method: String, args: (String, Any)*): JsonNode =
    Stopped.translated(Engine.json(method, request ++ args, scan.table.catalog))

  private def request: Map[String, Any] = Map("table" -> scan.table.token, "options" -> scan.given)

  override def initialOffset(): Offset = initial
  override def deserializeOffset(json: String): Offset = PaimonOffset(json)

  override def prepareForTriggerAvailableNow(): Unit = last = Some(ask("stream_newest").get("snapshot").asLong())

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val now = System.nanoTime()
    val limited = !limit.isInstanceOf[ReadAllAvailable]
    val runsOn = last.isEmpty && limited
    val pause = quietSince.fold(0L)(since => PaimonStream.pause(since - lastBatch) - (now - since))
    if (runsOn && pause > 0) {
      if (!PaimonStream.isIdle) return null
      TimeUnit.NANOSECONDS.sleep(pause)
    }
    val found = ask(
      "stream_next",
      "start" -> start.json(),
      "limited" -> limited,
      "newest" -> last,
      "waited" -> (if (runsOn) Some((now - lastBatch) / 1000000) else None))
    val next = Json.optional(found, "offset").map(o => PaimonOffset(o.asText()))
    val answered = System.nanoTime()
    quietSince = if (next.isDefined) None else Some(answered)
    if (next.isDefined) lastBatch = answered
    next.orNull
  }

  override def latestOffset(): Offset = latestOffset(initial, ReadLimit.allAvailable())

  /** Any limit but `allAvailable`, which the trigger `Once` requires: the engine applies the options. */
  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(Long.MaxValue)

  override def commit(end: Offset): Unit = ask("stream_commit", "end" -> end.json())
  override def stop(): Unit = {}

  /** The rows of a micro-batch; some that do not match the filters may be left out. */
  def rows(columns: Seq[String], filters: Seq[Predicate], start: Offset, end: Offset): Dataset[_] =
    Stopped.translated(Engine.jvmObject(
      "stream_frame",
      request ++ Map(
        "columns" -> columns,
        "start" -> start.json(),
        "end" -> end.json(),
        "predicate" -> Predicates.all(filters)),
      scan.table.catalog,
      Nil))
      .asInstanceOf[Dataset[_]]

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = throw unplanned
  override def createReaderFactory(): PartitionReaderFactory = throw unplanned
  private def unplanned = SparkException.internalError("A Paimon stream is read without its planner strategy.")
}

object PaimonStream {

  /** Whether the query of this thread had no rows in its last poll, and polls again at once: then it can sleep. */
  private def isIdle: Boolean = {
    val session = SparkSession.active.asInstanceOf[ClassicSession]
    val id = Option(session.sparkContext.getLocalProperty(StreamBatch.QueryKey))
    id.flatMap(i => Option(session.sharedState.activeStreamingQueries.get(UUID.fromString(i))))
      .exists(q => !q.status.isDataAvailable && q.trigger == Trigger.ProcessingTime(0L))
  }

  /** The pause before a table is asked again that has had nothing new for this long, in nanoseconds: an eighth of it,
    * from 20 ms to 1 s. Spark itself polls every 10 ms if the trigger has no interval. */
  private def pause(quiet: Long): Long = math.min(math.max(quiet / 8, 20L * 1000000), 1000L * 1000000)
}

/** The first position of a stream in its checkpoint. */
private object StreamStart {
  def kept(checkpoint: Path)(first: => String): String = {
    val path = new Path(checkpoint, "start")
    val fs = path.getFileSystem(SparkSession.active.sessionState.newHadoopConf())
    if (!fs.exists(path)) {
      val fresh = new Path(checkpoint, s".start.${java.util.UUID.randomUUID()}")
      val out = fs.create(fresh, true)
      try out.write(first.getBytes(UTF_8))
      finally out.close()
      fs.rename(fresh, path)
    }
    val in = fs.open(path)
    try new String(in.readAllBytes(), UTF_8)
    finally in.close()
  }
}

/** One micro-batch: the engine's frame. It is a micro-batch scan of Spark's, so that the progress of the query has its
  * number of rows. */
class PaimonStreamScanExec(
    output: Seq[Attribute],
    scan: Scan,
    stream: MicroBatchStream,
    start: Offset,
    end: Offset,
    grouping: Option[Seq[Expression]] = None,
    ordering: Option[Seq[SortOrder]] = None,
    private val filters: Seq[Predicate] = Nil)
    extends MicroBatchScanExec(output, scan, stream, start, end, grouping, ordering) {
  override lazy val inputRDD: RDD[InternalRow] = {
    val rows = stream.asInstanceOf[PaimonStream].rows(output.map(_.name), filters, start, end)
    PushDown.withWholeCalendar(conf)(rows.queryExecution.toRdd)
  }
  override protected def otherCopyArgs: Seq[AnyRef] = filters :: Nil
  override def equals(other: Any): Boolean = other match {
    case that: PaimonStreamScanExec => super.equals(that) && filters == that.filters
    case _ => false
  }
  override def hashCode(): Int = super.hashCode()
  override def supportsColumnar: Boolean = false
  override def nodeName: String = "PaimonStreamScan"
  override def simpleString(maxFields: Int): String = s"${scan.description()} from ${start.json()} to ${end.json()}" +
    (if (filters.isEmpty) "" else filters.mkString(", filters=[", ", ", "]"))
}

object PaimonStreamScanExec {

  /** Reads the columns that are needed, and leaves out files by the filters, which Spark applies again. */
  def plan(
      read: StreamingDataSourceV2ScanRelation,
      stream: PaimonStream,
      project: Seq[NamedExpression],
      filters: Seq[Expression]): SparkPlan = {
    val needed = AttributeSet((project ++ filters).flatMap(_.references))
    val columns = read.output.filter(needed.contains) match { case Seq() => read.output.take(1); case some => some }
    val pushed = filters.filter(_.deterministic).flatMap(DataSourceV2Strategy.translateFilterV2)
    val scanned: SparkPlan =
      new PaimonStreamScanExec(columns, read.scan, stream, read.startOffset.get, read.endOffset.get, filters = pushed)
    ProjectExec(project, filters.reduceOption(And).fold(scanned)(FilterExec(_, scanned)))
  }
}
