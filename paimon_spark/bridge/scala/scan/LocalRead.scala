package org.apache.spark.sql.paimonbridge

import java.io.ByteArrayInputStream

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.arrow.vector.ipc.ArrowStreamReader

import org.apache.spark.{InterruptibleIterator, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{FilterExec, LeafExecNode, ProjectExec, SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

/** Reads that are so small that the engine answers them. */
object LocalRead {

  /** Whether a scan is read so. Runtime partition filters and the file of a row are supported by Spark's own scans
    * only. */
  def serves(scan: PaimonScan, project: Seq[NamedExpression], filters: Seq[Expression]): Boolean =
    scan.isLocal && (project ++ filters).forall(serves)

  /** Whether an expression has its value over such a read. */
  def serves(e: Expression): Boolean = !namesFile(e) && !e.exists(_.isInstanceOf[DynamicPruning])

  /** Whether an expression has the file that its task has opened last. */
  def namesFile(e: Expression): Boolean = e.exists {
    case _: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength => true
    case _ => false
  }

  def plan(
      scan: PaimonScan,
      output: Seq[Attribute],
      project: Seq[NamedExpression],
      filters: Seq[Expression]): SparkPlan =
    if ((project ++ filters).forall(isPlain)) PaimonLocalReadExec(scan, output, project, filters)
    else {
      val rows = PaimonLocalReadExec(scan, output, output, Nil)
      ProjectExec(project, filters.reduceOption(And).fold[SparkPlan](rows)(FilterExec(_, rows)))
    }

  /** The read in a plan over one. */
  def under(plan: SparkPlan): PaimonLocalReadExec = plan.collectLeaves().head match {
    case read: PaimonLocalReadExec => read
    case task: PaimonDriverTaskExec => under(task.plan)
  }

  /** Whether an expression can be evaluated row by row, anywhere; one that waits for another query cannot. */
  def isPlain(e: Expression): Boolean = e.deterministic && !e.exists {
    case _: Attribute => false
    case _: PlanExpression[_] | _: Unevaluable => true
    case _ => false
  }
}

/** The plan of a small read with the filters and the projection of the query. */
private object SmallRead {
  def unapply(plan: LogicalPlan): Option[SparkPlan] = plan match {
    case PhysicalOperation(project, filters, ScanOf(relation, scan)) if LocalRead.serves(scan, project, filters) =>
      Some(LocalRead.plan(scan, relation.output, project, filters))
    case _ => None
  }
}

/** Rows that the thread which collects them computes without a job, unless they turn out to be too many. */
trait DriverRowsExec extends LeafExecNode {

  /** The first rows; None if they are too many. */
  protected def collected(most: Int = Int.MaxValue): Option[Array[InternalRow]]

  /** The plan of the same rows by Spark's tasks. */
  protected def distributed: SparkPlan

  protected def report(): Unit = SQLMetrics.postDriverMetricUpdates(
    sparkContext,
    sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY),
    metrics.values.toSeq)

  override def outputPartitioning: Partitioning = SinglePartition
  override def executeCollect(): Array[InternalRow] = collected().getOrElse(distributed.executeCollect())
  override def executeTake(limit: Int): Array[InternalRow] = collected(limit).getOrElse(distributed.executeTake(limit))
  override def executeTail(limit: Int): Array[InternalRow] =
    collected().fold(distributed.executeTail(limit))(_.takeRight(limit))
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) =
    collected().fold(distributed.executeCollectIterator())(rows => (rows.length.toLong, rows.iterator))
}

/** The rows of a small read, with the filters and the projection of the query. They are read when the query runs, and
  * once for each run; a query that only collects them takes no job. Rows that turn out to be too many are read by the
  * plan that larger reads have. */
case class PaimonLocalReadExec(
    @transient scan: PaimonScan,
    columns: Seq[Attribute],
    project: Seq[NamedExpression],
    filters: Seq[Expression]) extends DriverRowsExec {
  private val info: String = scan.info

  /** The size of the stored data. */
  private[paimonbridge] val bytes: Long = scan.plan.get("bytes").asLong()
  override def output: Seq[Attribute] = project.map(_.toAttribute)
  override def producedAttributes: AttributeSet = AttributeSet(columns ++ output)
  override def nodeName: String = "PaimonLocalRead"
  private def details: String = s"$info, columns=${project.mkString("[", ", ", "]")}" +
    (if (filters.isEmpty) "" else filters.mkString(", filters=[", ", ", "]"))
  override def simpleString(maxFields: Int): String = s"PaimonLocalRead $details"
  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\nRead: $details\n"

  override protected def doCanonicalize(): SparkPlan = {
    def normal[E <: Expression](e: E): E = QueryPlan.normalizeExpressions(e, columns)
    copy(
      columns = columns.map(normal),
      filters = filters.map(normal),
      project = project.zipWithIndex.map {
        case (a: Alias, i) => Alias(normal(a.child), "")(ExprId(columns.length + i), a.qualifier)
        case (e, _) => normal(e)
      })
  }

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "answerSize" -> SQLMetrics.createSizeMetric(sparkContext, "size of the engine's answer"),
    "readTime" -> SQLMetrics.createTimingMetric(sparkContext, "time of the engine"))

  @transient @volatile private var tooLarge = false

  /** Whether an execution has found that the rows are too many. */
  private[paimonbridge] def isTooLarge: Boolean = tooLarge

  /** The engine's answer; None if the rows are too many. */
  private def answer(): Option[LocalBatches] = if (tooLarge) None
  else {
    val start = System.nanoTime()
    val bytes = session.withActive(scan.localRows())
    longMetric("readTime").set((System.nanoTime() - start) / 1000000)
    bytes.foreach(b => longMetric("answerSize").set(b.length))
    tooLarge = bytes.isEmpty
    bytes.map(LocalBatches(_, columns, filters, project))
  }

  override protected def collected(most: Int): Option[Array[InternalRow]] = answer().map { batches =>
    val rows = batches.own(session).rows(most)
    longMetric("numOutputRows").add(rows.length)
    report()
    rows
  }

  @transient override protected lazy val distributed: SparkPlan =
    JvmFrames.analyzed(
      session,
      ReadPlan.of(scan.logicalPlan(prunesLater = false, byBucket = false), columns, project, filters))
      .queryExecution.executedPlan

  override protected def doExecute(): RDD[InternalRow] = answer() match {
    case None => PushDown.withWholeCalendar(conf)(distributed.execute()).coalesce(1)
    case Some(batches) =>
      report()
      val rows = longMetric("numOutputRows")
      val shipped = batches.shipped(sparkContext)
      sparkContext.parallelize(Seq(0), 1).mapPartitionsInternal { _ =>
        new InterruptibleIterator(TaskContext.get(), shipped().iterator).map { row => rows += 1; row }
      }
  }
}

/** An Arrow stream, and which of its rows are wanted. */
case class LocalBatches(
    stream: Array[Byte],
    columns: Seq[Attribute],
    filters: Seq[Expression],
    project: Seq[NamedExpression]) {

  /** The same, for the thread that asks. */
  def own(session: SparkSession): LocalBatches = {
    val (columns, filters, project) = OwnCopy.of((this.columns, this.filters, this.project), session)
    LocalBatches(stream, columns, filters, project)
  }

  /** The first wanted rows. */
  def rows(most: Int = Int.MaxValue): Array[InternalRow] = {
    val found = mutable.ArrayBuffer[InternalRow]()
    val few = stream.length < LocalBatches.WorthCode
    val (keep, wanted) = if (few) interpreted else generated
    keep.foreach(_.initialize(0))
    wanted.initialize(0)
    val whole =
      if (!readsNested) None
      else if (few) Some(interpreted(columns))
      else Some(UnsafeProjection.create(columns, columns))
    Using.Manager { use =>
      val allocator = use(ArrowUtils.rootAllocator.newChildAllocator("local read", 0, Long.MaxValue))
      val reader = use(new ArrowStreamReader(new ByteArrayInputStream(stream), allocator))
      val root = reader.getVectorSchemaRoot
      while (found.length < most && reader.loadNextBatch()) {
        val vectors = root.getFieldVectors.asScala.map(v => WorkerColumn(new ArrowColumnVector(v)): ColumnVector)
        val batch = new ColumnarBatch(vectors.toArray, root.getRowCount).rowIterator()
        while (found.length < most && batch.hasNext) {
          val stored = batch.next()
          val row = whole.fold(stored)(_(stored))
          if (keep.forall(_.eval(row))) found += wanted(row).copy()
        }
      }
    }.get
    found.toArray
  }

  /** Whether an expression may look into an array, a map or a struct. Most look up an element without asking whether it
    * is null, which a column of a batch does not allow. */
  private def readsNested: Boolean = (project ++ filters).exists {
    case _: Attribute | Alias(_: Attribute, _) => false
    case e => e.references.exists(a => isNested(a.dataType))
  }

  private def isNested(t: DataType): Boolean = t match {
    case _: ArrayType | _: MapType | _: StructType => true
    case _ => false
  }

  private def condition: Option[Expression] = filters.reduceOption(And)

  private def generated: (Option[BasePredicate], UnsafeProjection) =
    (condition.map(Predicate.create(_, columns)), UnsafeProjection.create(project, columns))

  /** For few rows: generating code for a query costs more than evaluating thousands of rows without. */
  private def interpreted: (Option[BasePredicate], UnsafeProjection) =
    (
      condition.map(c => Predicate.createInterpreted(BindReferences.bindReference(c, columns))),
      interpreted(project))

  private def interpreted(values: Seq[Expression]): UnsafeProjection =
    InterpretedUnsafeProjection.createProjection(BindReferences.bindReferences(values, columns))

  /** The rows for one task; a large stream is broadcast. */
  def shipped(context: SparkContext): () => Array[InternalRow] = {
    val (columns, filters, project) = (this.columns, this.filters, this.project)
    if (stream.length <= LocalBatches.InClosure) {
      val inline = stream
      () => LocalBatches(inline, columns, filters, project).rows()
    } else {
      val sent = context.broadcast(stream)
      () => LocalBatches(sent.value, columns, filters, project).rows()
    }
  }
}

object LocalBatches {
  private val InClosure = 256 << 10

  /** Rows of fewer bytes are evaluated faster without generated code. */
  val WorthCode: Int = 64 << 10
}
