package org.apache.spark.sql.paimonbridge

import java.util.{Collections, Map => JMap, Set => JSet, UUID}
import java.util.concurrent.ConcurrentHashMap

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.Utils

/** Compactions that follow the snapshots of a table: streaming queries without rows, whose batches the engine runs. */
object CompactionJobs {
  private[paimonbridge] val JobKey = "job"
  private val watched = new ConcurrentHashMap[String, () => Long]()

  /** Starts the job in the result of a CALL. */
  def start(session: SparkSession, answer: JsonNode): Unit = Option(answer.get("job")).foreach { job =>
    val (name, catalog) = (job.get("name").asText(), job.get("catalog").asText())
    if (Jobs.active(session).exists(_.name == name)) throw new PaimonException(
      s"[INVALID_ARGUMENT] The job '$name' is running already. Write STOP JOB '$name' first.",
      "INVALID_ARGUMENT")
    val ref = CatalogRef(catalog, Extensions.catalogs(session)(catalog)).withStore(session.asInstanceOf[ClassicSession])
    start(session, name, ref, job)
  }

  private def start(session: SparkSession, name: String, ref: CatalogRef, job: JsonNode): Unit = {
    val key = UUID.randomUUID().toString
    val step = Map("values" -> Json.stringMap(job.get("values"))) ++ Here
    watched.put(key, () => Engine.json("compaction_position", step, ref).get("position").asLong())
    val place = Utils.createTempDir(namePrefix = "paimon-job").toURI.toString
    val started =
      Jobs.start(session)(session.readStream.format(classOf[CompactionSource].getName).option(JobKey, key).load()
        .writeStream.queryName(name).option("checkpointLocation", place)
        .trigger(Trigger.ProcessingTime(ClientKeys.interval(session)))
        .foreachBatch((batch: DataFrame, _: Long) => compact(batch.sparkSession, ref, step))
        .start())
    Jobs.writes(started, place, None)
    StopRequests.watch(started.id, ref, job.get("table").asText())
  }

  /** The name of a table has a database, and its catalog is that of the request. */
  private val Here = Map("current_catalog" -> "", "current_database" -> None)

  private def compact(session: SparkSession, ref: CatalogRef, step: Map[String, Any]): Unit =
    Stopped.translated(Calls.refresh(session, Engine.json("compaction_step", step, ref, idempotent = false)))

  def newest(key: String): Long = Option(watched.get(key)).fold(0L)(w => Stopped.translated(w()))
  def forget(key: String): Unit = watched.remove(key)
}

/** The positions of a job as a source without rows: there is a batch when there is a new one. */
class CompactionSource extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = CompactionSource.Schema
  override def getTable(schema: StructType, partitioning: Array[Transform], properties: JMap[String, String]): Table =
    new SnapshotsTable
}

private object CompactionSource {
  val Schema: StructType = new StructType().add("snapshot", LongType)
}

private class SnapshotsTable extends Table with SupportsRead {
  override def name(): String = "snapshots"
  override def schema(): StructType = CompactionSource.Schema
  override def capabilities(): JSet[TableCapability] = Collections.singleton(TableCapability.MICRO_BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = CompactionSource.Schema
      override def description(): String = "PaimonSnapshots"
      override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
        new SnapshotStream(options.get(CompactionJobs.JobKey))
    }
}

private class SnapshotStream(key: String) extends MicroBatchStream {
  override def initialOffset(): Offset = PaimonOffset("-1")
  override def latestOffset(): Offset = PaimonOffset(CompactionJobs.newest(key).toString)
  override def deserializeOffset(json: String): Offset = PaimonOffset(json)
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = Array.empty
  override def createReaderFactory(): PartitionReaderFactory = SnapshotReaders
  override def commit(end: Offset): Unit = {}
  override def stop(): Unit = CompactionJobs.forget(key)
}

private object SnapshotReaders extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    throw new UnsupportedOperationException("There are no rows to read.")
}
