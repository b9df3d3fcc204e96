package org.apache.spark.sql.paimonbridge

import java.nio.channels.FileChannel
import java.nio.file.{Files, Paths}
import java.nio.file.StandardOpenOption.WRITE
import java.util.Base64

import scala.util.Using

import org.apache.spark.SparkEnv
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull
import org.apache.spark.sql.catalyst.planning.{ExtractEquiJoinKeys, PhysicalOperation}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.util.Utils

/** The rows of a query that are so few that the engine writes them itself, without a job of Python workers. */
object SmallRows {

  /** Maximum size of the input of a query for so few rows. */
  private val Source = 1L << 20

  /** Maximum size of rows that are sent as text; others are sent in a file. */
  private val Inline = 32L << 10

  /** The result for a query that has to run first. */
  private val Unknown = ""

  /** The rows as an Arrow stream in Base64, or `@file` with the stream, which the reader deletes; null if there are
    * more than `rows` or `bytes` in Spark's row format, or there may be many to read for them. Rows of VALUES are known
    * without a job. A query of narrow operators over little data, and of joins with few rows, has to run first: the
    * answer is empty unless it may `run`. */
  def packed(frame: Dataset[Row], rows: Int, bytes: Int, run: Boolean): String = {
    val execution = frame.queryExecution
    val (session, wanted) = (execution.sparkSession, execution.analyzed.output)
    def limited(found: Array[InternalRow], given: Seq[Attribute], values: Seq[Expression]): String =
      if (found.length > rows) null
      else SQLConf.withExistingConf(session.sessionState.conf)(
        pack(found, bytes, UnsafeProjection.create(values, given), wanted))
    def local(of: LocalRelation, values: Seq[Expression]): String =
      limited(of.data.iterator.take(rows + 1).toArray, of.output, values)
    computed(execution.analyzed).map { case (given, values) => local(given, values) }.getOrElse(
      execution.optimizedPlan match {
        case given: LocalRelation => local(given, given.output)
        case plan if !readsLittle(plan, rows, bytes) => null
        case _ if !run => Unknown
        case _ =>
          val given = execution.executedPlan.output
          limited(
            SQLExecution.withNewExecutionId(execution, Some("collect"))(execution.executedPlan.executeTake(rows + 1)),
            given,
            given)
      })
  }

  /** All rows of a frame, in the form of `packed`; null if the frame shuffles, and nothing has run. */
  def unshuffled(frame: Dataset[Row]): String = {
    val execution = frame.queryExecution
    val output = execution.executedPlan.output
    if (shuffles(execution.executedPlan)) null
    else {
      val rows = SQLExecution.withNewExecutionId(execution, Some("collect"))(execution.executedPlan.executeCollect())
      SQLConf.withExistingConf(execution.sparkSession.sessionState.conf)(
        pack(rows, Int.MaxValue, UnsafeProjection.create(output, output), output))
    }
  }

  private def shuffles(plan: SparkPlan): Boolean = plan.exists {
    case adaptive: AdaptiveSparkPlanExec => shuffles(adaptive.executedPlan)
    case _: ShuffleExchangeLike => true
    case _ => false
  }

  /** Given rows and the values that a plan computes from them, if the optimizer has nothing to add: it would evaluate
    * them by an interpreter. */
  private def computed(plan: LogicalPlan): Option[(LocalRelation, Seq[Expression])] =
    EliminateSubqueryAliases(plan) match {
      case PhysicalOperation(columns, Nil, given: LocalRelation) if columns.forall(isPlain) => Some((given, columns))
      case _ => None
    }

  private def isPlain(e: Expression): Boolean = e match {
    case _: Attribute | _: Literal => true
    case _: Alias | _: Cast | _: CheckOverflowInTableInsert | _: AssertNotNull => e.children.forall(isPlain)
    case _ => false
  }

  /** Whether a plan reads little, and each of its tasks gives no more rows than it reads, times a constant or the few
    * rows of one side of a join. */
  private def readsLittle(plan: LogicalPlan, rows: Int, bytes: Int): Boolean =
    !plan.exists {
      case join: Join =>
        val most = if (ExtractEquiJoinKeys.unapply(join).isDefined) rows else 1
        !join.children.exists(hasFew(_, most, bytes))
      case node => !isNarrow(node)
    } && plan.collectLeaves().forall {
      case r: DataSourceV2ScanRelation => r.scan match {
          case scan: PaimonScan => scan.isLocal || r.stats.sizeInBytes <= Source
          case _ => false
        }
      case leaf => leaf.stats.sizeInBytes <= Source
    }

  private def hasFew(plan: LogicalPlan, rows: Int, bytes: Int): Boolean = !plan.exists(!isNarrow(_)) &&
    plan.collectLeaves().forall {
      case given: LocalRelation => given.data.length <= rows
      case _: OneRowRelation => true
      case leaf => rows > 1 && leaf.stats.sizeInBytes <= bytes
    }

  private def isNarrow(node: LogicalPlan): Boolean = node match {
    case _: DataSourceV2ScanRelation | _: LocalRelation | _: OneRowRelation => true
    case _: Project | _: Filter | _: Expand | _: Union => !node.expressions.exists(SubqueryExpression.hasSubquery)
    case _ => false
  }

  private def pack(rows: Array[InternalRow], most: Int, values: UnsafeProjection, columns: Seq[Attribute]): String = {
    val schema = StructType(columns.map(a => StructField(a.name, a.dataType, a.nullable, a.metadata)))
    val conf = SQLConf.get
    val batch = new OpenBatch(
      0,
      RowPacker(schema, conf.sessionLocalTimeZone, conf.arrowUseLargeVarTypes),
      BatchLimits(Int.MaxValue, most))
    var size = 0L
    try {
      val fits = rows.forall { row =>
        val unsafe = values(row)
        size += unsafe.getSizeInBytes
        if (size <= most) batch.add(unsafe, unsafe.getSizeInBytes)
        size <= most
      }
      if (!fits) null else if (size <= Inline) Base64.getEncoder.encodeToString(batch.packed()) else "@" + inFile(batch)
    } finally batch.close()
  }

  /** Arrays and strings of this size are each a humongous object of the garbage collector, and py4j makes several. */
  private def inFile(batch: OpenBatch): String = {
    val file = Files.createTempFile(Paths.get(Utils.getLocalDir(SparkEnv.get.conf)), "rows", ".arrow")
    Using.resource(FileChannel.open(file, WRITE))(batch.writeTo)
    file.toString
  }
}
