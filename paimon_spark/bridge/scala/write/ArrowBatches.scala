package org.apache.spark.sql.paimonbridge

import java.io.ByteArrayOutputStream
import java.nio.channels.{Channels, WritableByteChannel}

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ipc.ArrowStreamWriter

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/** The rows of `columns` as Arrow batches, each an Arrow stream in the binary column `rows`. With `task`, an
  * attribute with the values of `TaskOf`, each batch has rows of one task only, and the task is output too. */
case class ArrowBatches(
    columns: Seq[Attribute],
    task: Option[Attribute],
    tasks: Int,
    output: Seq[Attribute],
    child: LogicalPlan) extends UnaryNode {
  @transient override lazy val references: AttributeSet = AttributeSet(columns ++ task)
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

object ArrowBatches {
  def apply(plan: LogicalPlan, columns: Seq[Attribute], task: Option[Attribute], tasks: Int): ArrowBatches = {
    val number = task.map(_ => AttributeReference("task", IntegerType, nullable = false)())
    val rows = AttributeReference("rows", BinaryType, nullable = false)()
    ArrowBatches(columns, task, tasks, number.toSeq :+ rows, plan)
  }
}

/** Runs `ArrowBatches`. */
case class ArrowBatchesExec(
    columns: Seq[Attribute],
    task: Option[Attribute],
    tasks: Int,
    output: Seq[Attribute],
    child: SparkPlan) extends UnaryExecNode {
  @transient override lazy val references: AttributeSet = AttributeSet(columns ++ task)
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override def nodeName: String = "PaimonPackRows"

  override protected def doExecute(): RDD[InternalRow] = {
    val (wanted, given) = (columns ++ task, child.output)
    val schema = StructType(columns.map(a => StructField(a.name, a.dataType, a.nullable, a.metadata)))
    val limits = BatchLimits.of(conf, if (task.isEmpty) 1 else tasks)
    val (zone, large, number) = (conf.sessionLocalTimeZone, conf.arrowUseLargeVarTypes, if (task.isEmpty) 0 else tasks)
    val inOrder = wanted.map(_.exprId) == given.map(_.exprId)
    new ConfiguredRDD(child.execute()).mapPartitionsInternal { rows =>
      val project = UnsafeProjection.create(wanted, given)
      val unsafe = rows.map {
        case row: UnsafeRow if inOrder => row
        case row => project(row)
      }
      new BatchBuilder(unsafe, schema, number, limits, () => RowPacker(schema, zone, large))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** Maximum size of a batch: rows, and bytes in Spark's row format. A single row may be larger. */
case class BatchLimits(rows: Int, bytes: Long)

object BatchLimits {
  private val Batch = 8L << 20

  /** Maximum total size of the batches that a task fills concurrently. */
  private val Together = 64L << 20
  private val Worthwhile = 64L << 10

  /** Overhead of a column in a batch, and minimum size of its values to justify it. */
  private val Column = 2L << 10

  def of(conf: SQLConf, batches: Int): BatchLimits = {
    val rows = if (conf.arrowMaxRecordsPerBatch > 0) conf.arrowMaxRecordsPerBatch else Int.MaxValue
    BatchLimits(rows, math.min(math.min(Batch, Together / batches), conf.arrowMaxBytesPerBatch.toLong))
  }

  /** Whether this many concurrently filled batches of this many columns are large enough to be efficient. */
  def allow(batches: Int, columns: Int): Boolean = Together / batches >= math.max(Worthwhile, Column * columns)
}

/** Packs rows into one batch per task; `tasks` is 0 if rows are not divided by task. */
final class BatchBuilder(
    rows: Iterator[UnsafeRow],
    schema: StructType,
    tasks: Int,
    limits: BatchLimits,
    open: () => RowPacker) extends Iterator[InternalRow] {
  private val ordinal = schema.length
  private val batches = new Array[OpenBatch](math.max(tasks, 1))
  private var unfinished: Iterator[OpenBatch] = Iterator.empty
  private var ready: InternalRow = _
  private val result =
    if (tasks > 0) UnsafeProjection.create(Array[DataType](IntegerType, BinaryType))
    else UnsafeProjection.create(Array[DataType](BinaryType))

  TaskContext.get().addTaskCompletionListener[Unit](_ => batches.foreach(b => if (b != null) b.close()))

  override def hasNext: Boolean = ready != null || fill()

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val row = ready
    ready = null
    row
  }

  private def fill(): Boolean = {
    while (ready == null && rows.hasNext) {
      val row = rows.next()
      val batch = batchOf(row)
      val size = row.getSizeInBytes
      if (!batch.takes(size)) ready = packed(batch)
      batch.add(row, size)
      if (!rows.hasNext) unfinished = batches.iterator.filter(b => b != null && b.holdsRows)
    }
    if (ready == null && unfinished.hasNext) ready = packed(unfinished.next())
    ready != null
  }

  private def batchOf(row: UnsafeRow): OpenBatch = {
    val task = if (tasks > 0) row.getInt(ordinal) else 0
    val i = if (tasks > 0) Math.floorMod(Murmur3_x86_32.hashInt(task, 42), tasks) else 0
    if (batches(i) == null) batches(i) = new OpenBatch(task, open(), limits)
    batches(i)
  }

  private def packed(batch: OpenBatch): InternalRow = {
    val bytes = batch.packed()
    result(if (tasks > 0) InternalRow(batch.task, bytes) else InternalRow(bytes))
  }
}

/** An open batch with rows of one task. */
final class OpenBatch(val task: Int, writer: RowPacker, limits: BatchLimits) {
  private var rows = 0
  private var bytes = 0L

  def holdsRows: Boolean = rows > 0

  def takes(size: Int): Boolean = rows == 0 || (rows < limits.rows && bytes + size <= limits.bytes)

  def add(row: UnsafeRow, size: Int): Unit = {
    writer.write(row)
    rows += 1
    bytes += size
  }

  /** Returns the batch as an Arrow stream and starts a new one. */
  def packed(): Array[Byte] = {
    val out = new ByteArrayOutputStream(math.min(bytes, limits.bytes).toInt + 4096)
    writeTo(Channels.newChannel(out))
    out.toByteArray
  }

  /** Writes the batch as an Arrow stream and starts a new one. */
  def writeTo(out: WritableByteChannel): Unit = {
    writer.finish()
    val stream = new ArrowStreamWriter(writer.root, null, out)
    stream.start()
    stream.writeBatch()
    stream.end()
    writer.reset()
    if (bytes > limits.bytes) writer.release()
    rows = 0
    bytes = 0
  }

  def close(): Unit = writer.root.close()
}

/** Passes rows to the Python function of `child` one by one: each row is a batch already. */
case class SingleRowBatches(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** Runs `SingleRowBatches`. When Spark's runner of Python functions is created, it reads the maximum number of rows
  * per batch from the settings of its task. */
case class SingleRowBatchesExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override protected def doExecute(): RDD[InternalRow] =
    new ConfiguredRDD(child.execute(), Map(Extensions.ArrowBatch -> "1"))
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** The rows of `source`, which is started with the settings of the query and `changes`. Without changes, it shields
  * the Python functions of the source query from settings that are changed for the rest of the task. */
private class ConfiguredRDD(source: RDD[InternalRow], changes: Map[String, String] = Map.empty)
    extends RDD[InternalRow](source) {
  override protected def getPartitions: Array[Partition] = source.partitions

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val conf = new SQLConf
    context.getLocalProperties.asScala.foreach { case (k, v) =>
      if (k.startsWith("spark.sql.")) conf.setConfString(k, v)
    }
    changes.foreach { case (k, v) => conf.setConfString(k, v) }
    SQLConf.withExistingConf(conf)(source.iterator(split, context))
  }
}
