package org.apache.spark.sql.paimonbridge

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.{HexFormat, UUID}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{
  AppendData,
  LogicalPlan,
  OverwriteByExpression,
  Project,
  V2WriteCommand
}
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, V2CommandExec}
import org.apache.spark.sql.types.{StringType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The sink of a streaming query. `PaimonStrategy` plans its micro-batches; Spark itself writes nothing through it. */
class PaimonStreamingWrite(val table: PaimonTable, given: CaseInsensitiveStringMap) extends StreamingWrite {

  /** The options of the table, without those of the query. */
  val options: Map[String, String] = StreamOptions.ofTable(given.asCaseSensitiveMap().asScala.toMap)
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory =
    throw new PaimonException(
      "[UNSUPPORTED_FEATURE] A continuous trigger cannot write to " +
        s"${table.name}: rows become visible with the commit of a micro-batch. Use Trigger.ProcessingTime or " +
        "Trigger.AvailableNow.",
      "UNSUPPORTED_FEATURE")
  override def commit(epoch: Long, messages: Array[WriterCommitMessage]): Unit = {}
  override def abort(epoch: Long, messages: Array[WriterCommitMessage]): Unit = {}
}

object StreamOptions {
  private val OfQuery = Set("checkpointlocation", "queryname", "path")

  /** The options of a reader or writer without those of Spark itself. */
  def ofTable(options: Map[String, String]): Map[String, String] =
    options.filterNot { case (k, _) => OfQuery(k.toLowerCase) }
}

/** One micro-batch of a streaming query: its query, its number, a digest of its offsets in the checkpoint, the output
  * mode, the watermark that Spark has logged for it, and the newest snapshot of the table when the batch was begun. */
case class StreamBatch(
    query: String,
    batch: Long,
    offsets: String,
    mode: String,
    watermark: Option[Long],
    base: Option[Long] = None) {
  def describe: Map[String, Any] = Map("query" -> query, "batch" -> batch, "offsets" -> offsets) ++
    watermark.map("watermark" -> _) ++ base.map("base" -> _)
}

object StreamBatch {
  private[paimonbridge] val QueryKey = "sql.streaming.queryId"
  private val BatchKey = "streaming.sql.batchId"

  /** The micro-batch that this thread runs. */
  def current(session: SparkSession): StreamBatch = {
    val context = session.sparkContext
    val (query, batch) = (context.getLocalProperty(QueryKey), context.getLocalProperty(BatchKey).toLong)
    val running = session.sharedState.activeStreamingQueries.get(UUID.fromString(query))
    val logged = new Path(new Path(running.resolvedCheckpointRoot, "offsets"), batch.toString)
    val in = logged.getFileSystem(session.sessionState.newHadoopConf()).open(logged)
    val bytes =
      try in.readAllBytes()
      finally in.close()
    val digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes))
    StreamBatch(query, batch, digest, running.outputMode.toString.toLowerCase, watermarkIn(bytes))
  }

  /** The watermark in the offsets of a batch: in their second line, and 0 without `withWatermark`. */
  private def watermarkIn(offsets: Array[Byte]): Option[Long] = {
    val metadata = new String(offsets, UTF_8).linesIterator.slice(1, 2).find(_.startsWith("{"))
    metadata.map(Json.parse(_).path("batchWatermarkMs").asLong()).filter(_ > 0)
  }
}

/** The table that a micro-batch is written to; a stream of changes has a column with their kinds in addition. */
class StreamTarget(source: PaimonTable, described: JsonNode, batch: StreamBatch, kind: Option[String])
    extends PaimonTable(source.catalog, described, source.byPath) {
  override lazy val schema: StructType = kind.foldLeft(JvmFrames.schema(described.get("schema"))) {
    (columns, name) => columns.add(StructField(name, StringType))
  }
  override protected def streamed: Option[Map[String, Any]] = Some(batch.describe)
}

/** Writes one micro-batch: an INSERT of its rows by name, or an INSERT OVERWRITE for the output mode `complete`. */
case class PaimonStreamExec(
    owner: SparkSession,
    write: PaimonStreamingWrite,
    relation: Option[DataSourceV2Relation],
    emptied: Seq[String],
    child: SparkPlan) extends V2CommandExec with UnaryExecNode {
  override def output: Seq[Attribute] = Nil
  override def nodeName: String = "PaimonStreamWrite"
  override def simpleString(maxFields: Int): String = s"PaimonStreamWrite ${write.table.name}"

  override protected def run(): Seq[InternalRow] = Stopped.translated({
    val batch = StreamBatch.current(owner)
    StopRequests.watch(UUID.fromString(batch.query), write.table.catalog, write.table.token)
    checkNulls()
    if (MergedSchemas.wanted(owner, write.options, write.table.properties.asScala.toMap)) MergedSchemas.merge(
      write.table,
      write.options,
      StructType(child.schema.filterNot(f => PaimonStreamExec.Kinds.contains(f.name))))
    val begun = Engine.json(
      "stream_begin",
      Map("table" -> write.table.token, "options" -> write.options, "stream" -> batch.describe, "mode" -> batch.mode),
      write.table.catalog,
      idempotent = false)
    Json.optional(begun, "table").foreach(
      insert(_, batch.copy(base = Some(begun.get("base").asLong())), rows(batch, begun.get("few"))))
    Nil
  })

  /** Rejects aggregates that are NULL for a group without rows, in columns that take no NULL. */
  private def checkNulls(): Unit = {
    val refused = write.table.schema.filterNot(_.nullable).map(_.name).filter(n => emptied.exists(conf.resolver(_, n)))
    if (refused.nonEmpty) {
      val (name, columns) = (write.table.name, refused.map(c => s"'$c'").mkString(", "))
      throw new PaimonException(
        s"[UNSUPPORTED_FEATURE] The stream writes changelog_sum, _avg, _min or _max to NOT NULL " +
          s"columns of table $name: $columns. They are NULL for a group that has lost its last row, a row of the " +
          "kind -D. " +
          s"Write coalesce(…, 0) around them, or ALTER TABLE $name ALTER COLUMN ${refused.head} DROP NOT NULL.",
        "UNSUPPORTED_FEATURE")
    }
  }

  /** The rows of the batch: themselves, if they are within the limits of `few`, or what computes them. */
  private def rows(batch: StreamBatch, few: JsonNode): LogicalPlan = {
    val most = FewRows.Limits(few.get("rows").asInt(), few.get("bytes").asInt())
    FewRows.of(batch.query, child, most).getOrElse(
      owner.internalCreateDataFrame(child.execute(), child.schema).queryExecution.analyzed)
  }

  /** Spark analyzes an INSERT of the rows, and the engine writes what it is to insert. To execute the statement, Spark
    * would plan it first, only to describe it in the UI: that takes as long as to write a small batch. */
  private def insert(described: JsonNode, batch: StreamBatch, rows: LogicalPlan): Unit = {
    val columns = JvmFrames.schema(described.get("schema")).fieldNames
    val kind = PaimonStreamExec.Kinds.find(k => !columns.contains(k) && child.schema.fieldNames.contains(k))
      .filter(_ => !described.get("primary_keys").isEmpty)
    val (target, options) =
      (new StreamTarget(write.table, described, batch, kind), new CaseInsensitiveStringMap(write.options.asJava))
    val into = DataSourceV2Relation.create(target, relation.flatMap(_.catalog), relation.flatMap(_.identifier), options)
    checkNames(columns ++ kind, columns)
    val frame = filled(rows, into.output)
    val replaces = batch.mode == "complete"
    val statement: V2WriteCommand =
      if (replaces) OverwriteByExpression.byName(into, frame, Literal.TrueLiteral, write.options)
      else AppendData.byName(into, frame, write.options)
    statement.setTagValue(MergedSchemas.Done, true)
    new PaimonWrite(target, if (replaces) "static" else "append", Array.empty, options).insert(analyzed(statement))
    CachedRows.refresh(owner, into)
  }

  private def analyzed(statement: V2WriteCommand): DataFrame =
    owner.sessionState.executePlan(statement).analyzed match {
      case resolved: V2WriteCommand => Dataset.ofRows(owner, resolved.query)
    }

  /** Refuses columns that the table lacks. */
  private def checkNames(taken: Seq[String], columns: Seq[String]): Unit = {
    val unknown = child.schema.fieldNames.filterNot(n => taken.exists(conf.resolver(_, n)))
    if (unknown.nonEmpty) throw new PaimonException(
      s"[COLUMN_NOT_FOUND] The rows of the stream have columns that table " +
        s"${write.table.name} lacks: ${unknown.map(n => s"'$n'").mkString(", ")}. The table has " +
        s"${columns.mkString(", ")}. " +
        "Rename or drop these columns, or set write.merge-schema.",
      "COLUMN_NOT_FOUND")
  }

  /** The rows with the defaults of columns that they lack; without one, a column that is not nullable is an error. */
  private def filled(frame: LogicalPlan, columns: Seq[AttributeReference]): LogicalPlan = {
    val left = columns.filterNot(c => frame.output.exists(a => conf.resolver(a.name, c.name)))
    val values = left.flatMap(c => ResolveDefaultColumns.getDefaultValueExprOrNullLit(c, true).map(Alias(_, c.name)()))
    if (values.isEmpty) frame else Project(frame.output ++ values, frame)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): PaimonStreamExec = copy(child = newChild)
}

/** A request that was cancelled because its query was stopped: Spark recognizes only an interruption as a stop. */
object Stopped {
  def translated[T](request: => T): T =
    try request
    catch {
      case e: Throwable if Errors.chain(e).exists { case p: PaimonException => p.code == Cancelled; case _ => false } =>
        throw new InterruptedException(e.getMessage)
    }

  private val Cancelled = "STATEMENT_CANCELLED"
}

object PaimonStreamExec {

  /** Columns with the kind of each row of a stream of changes. */
  val Kinds: Seq[String] = Seq("rowkind", "_row_kind")
}
