package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** The rows of a query that are so few that the engine writes them itself, without a job of Python workers. */
object SmallRows {
  /** Maximum size of the input of a query for so few rows. */
  private val Source = 1L << 20

  /** The result for a query that has to run first. */
  private val Unknown = Array.emptyByteArray

  /** The rows as an Arrow stream, or null if there are more than `rows` or `bytes` in Spark's row format, as they are
    * sent to the engine as text, or there may be many to read for them. Rows of VALUES are known without a job. A query
    * of narrow operators over little data takes a job without a shuffle: the answer is empty unless it may `run`. */
  def packed(frame: Dataset[Row], rows: Int, bytes: Int, run: Boolean): Array[Byte] = {
    val execution = frame.queryExecution
    val (session, wanted) = (execution.sparkSession, execution.analyzed.output)
    def limited(found: Array[InternalRow], given: Seq[Attribute]): Array[Byte] =
      if (found.length > rows) null else SQLConf.withExistingConf(session.sessionState.conf)(pack(found, bytes, given, wanted))
    execution.optimizedPlan match {
      case local: LocalRelation => limited(local.data.iterator.take(rows + 1).toArray, local.output)
      case plan if !readsLittle(plan) => null
      case _ if !run => Unknown
      case _ => limited(
        SQLExecution.withNewExecutionId(execution, Some("collect"))(execution.executedPlan.executeTake(rows + 1)),
        execution.executedPlan.output)
    }
  }

  /** Whether a plan reads little, and each of its tasks gives no more rows than it reads, times a constant. */
  private def readsLittle(plan: LogicalPlan): Boolean = plan.find(!isNarrow(_)).isEmpty && plan.collectLeaves().forall {
    case r: DataSourceV2ScanRelation => r.scan.isInstanceOf[PaimonScan] && r.stats.sizeInBytes <= Source
    case leaf => leaf.stats.sizeInBytes <= Source
  }

  private def isNarrow(node: LogicalPlan): Boolean = node match {
    case _: DataSourceV2ScanRelation | _: LocalRelation | _: OneRowRelation => true
    case _: Project | _: Filter | _: Expand | _: Union => !node.expressions.exists(SubqueryExpression.hasSubquery)
    case _ => false
  }

  private def pack(rows: Array[InternalRow], most: Int, given: Seq[Attribute], columns: Seq[Attribute]): Array[Byte] = {
    val schema = StructType(columns.map(a => StructField(a.name, a.dataType, a.nullable, a.metadata)))
    val project = UnsafeProjection.create(given.map(_.dataType).toArray)
    val conf = SQLConf.get
    val batch = new OpenBatch(0, RowPacker(schema, conf.sessionLocalTimeZone, conf.arrowUseLargeVarTypes),
      BatchLimits(Int.MaxValue, most))
    var size = 0L
    try {
      val fits = rows.forall { row =>
        val unsafe = project(row)
        size += unsafe.getSizeInBytes
        if (size <= most) batch.add(unsafe, unsafe.getSizeInBytes)
        size <= most
      }
      if (fits) batch.packed() else null
    } finally batch.close()
  }
}
