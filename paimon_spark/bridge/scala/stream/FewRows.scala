package org.apache.spark.sql.paimonbridge

import java.io.ByteArrayOutputStream
import java.lang.{Long => JLong}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform

/** Micro-batches of so few rows that the driver collects them: the engine then writes them itself, without a shuffle
  * and without Python workers. Spark does not know the size of a batch before it has run it. A task with too many
  * rows ends at once, and the batch runs again as a large one; after that, the next ones of the query are not tried. */
object FewRows {
  private val MostPaused = 64

  /** The most that all tasks send to the driver, as a multiple of the limit. */
  private val MostTogether = 16

  /** The most rows, and their size in Spark's row format. */
  case class Limits(rows: Int, bytes: Int)

  private case class Pause(length: Int, left: Int)
  private val paused = new ConcurrentHashMap[String, Pause]()

  /** The rows of a batch of a query, if they are within the limits. */
  def of(query: String, child: SparkPlan, most: Limits): Option[LocalRelation] =
    if (most.rows < 1 || observed(child) || pauses(query)) None
    else {
      val found = collected(child, most)
      if (found.isDefined) paused.remove(query)
      else {
        forgetCounts(child)
        val length = Option(paused.get(query)).fold(1)(p => math.min(2 * p.length, MostPaused))
        paused.put(query, Pause(length, length))
      }
      found.map(LocalRelation(toAttributes(child.schema), _))
    }

  private def pauses(query: String): Boolean =
    Option(paused.computeIfPresent(query, (_, p) => p.copy(left = p.left - 1))).exists(_.left >= 0)

  /** Whether the rows are counted by `Dataset.observe`, which counts those of both jobs. */
  private def observed(plan: SparkPlan): Boolean = plan match {
    case _: CollectMetricsExec => true
    case a: AdaptiveSparkPlanExec => observed(a.executedPlan)
    case s: QueryStageExec => observed(s.plan)
    case other => other.children.exists(observed)
  }

  /** Resets what the job counted that ended early: the next one counts all rows, but does not repeat a shuffle. */
  private def forgetCounts(plan: SparkPlan): Unit = plan match {
    case _: Exchange | _: QueryStageExec =>
    case a: AdaptiveSparkPlanExec => forgetCounts(a.executedPlan)
    case other =>
      other.metrics.valuesIterator.foreach(_.reset())
      other.children.foreach(forgetCounts)
  }

  private def collected(child: SparkPlan, most: Limits): Option[Seq[InternalRow]] = {
    val types = child.schema.map(_.dataType).toArray
    val tasks = child.execute()
    // Many tasks would fill the driver before it adds up their rows.
    val parted = most.bytes.toLong * MostTogether / math.max(tasks.getNumPartitions, MostTogether)
    val share = most.copy(bytes = math.max(parted, 1L).toInt)
    val parts =
      tasks.sparkContext.runJob(tasks, (_: TaskContext, rows: Iterator[InternalRow]) => few(rows, types, share))
    Option.unless(parts.contains(null))(parts.toSeq.flatMap(unpacked(_, types.length)))
      .filter(rows => rows.length <= most.rows && rows.map(_.getSizeInBytes.toLong).sum <= most.bytes)
  }

  private def unpacked(bytes: Array[Byte], columns: Int): Iterator[UnsafeRow] = Iterator.unfold(0L) { at =>
    if (at >= bytes.length) None
    else {
      val (place, row) = (Platform.BYTE_ARRAY_OFFSET + at, new UnsafeRow(columns))
      val size = Platform.getLong(bytes, place)
      row.pointTo(bytes, place + JLong.BYTES, size.toInt)
      Some((row, at + JLong.BYTES + size))
    }
  }

  /** The rows of a task, each after its size as a long number, or null if there are too many. */
  private def few(rows: Iterator[InternalRow], types: Array[DataType], most: Limits): Array[Byte] = {
    val project = UnsafeProjection.create(types)
    val found = new ByteArrayOutputStream()
    val buffer = new Array[Byte](4096)
    val size = new Array[Byte](JLong.BYTES)
    var (count, bytes) = (0, 0L)
    def fits = count <= most.rows && bytes <= most.bytes
    while (fits && rows.hasNext) {
      val row = project(rows.next())
      count += 1
      bytes += row.getSizeInBytes
      Platform.putLong(size, Platform.BYTE_ARRAY_OFFSET, row.getSizeInBytes.toLong)
      found.write(size)
      row.writeToStream(found, buffer)
    }
    if (fits) found.toByteArray else null
  }
}
