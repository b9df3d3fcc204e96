package org.apache.spark.sql.paimonbridge

import org.apache.spark._
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonEvalType}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, PythonUDF}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MapInArrow, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{RowToColumnarTransition, SparkPlan}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, BatchIterator, PythonSQLMetrics}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

/** The batches that the Python function of a read yields for the splits of `child`. */
case class WorkerBatches(function: PythonUDF, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

object WorkerBatches {

  /** The same plan, its batches not divided into rows. */
  def of(plan: LogicalPlan): WorkerBatches = plan match {
    case MapInArrow(function: PythonUDF, output, child, _, _) => WorkerBatches(function, output, child)
  }
}

/** Runs `WorkerBatches`, and reports failures of its tasks by the engine's message. Spark's own operator copies every
  * row of a batch; this one hands the batch on. Its child must yield rows without any columnar operator, because Spark
  * leaves the children of such a transition as they are. */
case class WorkerBatchesExec(function: PythonUDF, output: Seq[Attribute], child: SparkPlan)
    extends RowToColumnarTransition with PythonSQLMetrics {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def supportsColumnar: Boolean = true
  override def nodeName: String = "PaimonMergeRead"
  override protected def doExecute(): RDD[InternalRow] = throw SparkException.internalError("The rows are in batches.")

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    val runner = BatchRunner(function, child.schema, conf, pythonMetrics)
    val columns = output.indices
    val batches = child.execute().mapPartitionsInternal { splits =>
      if (!splits.hasNext) Iterator.empty
      else runner.run(splits, TaskContext.get()).map { batch =>
        val struct = batch.column(0).asInstanceOf[ArrowColumnVector]
        new ColumnarBatch(columns.map(i => WorkerColumn(struct.getChild(i))).toArray[ColumnVector], batch.numRows)
      }
    }
    new ErrorReportingRDD(batches)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** Runs a Python function over Arrow batches of a task's rows. */
private case class BatchRunner(
    functions: Seq[(ChainedPythonFunctions, Long)],
    input: StructType,
    rows: Int,
    zone: String,
    large: Boolean,
    settings: Map[String, String],
    metrics: Map[String, SQLMetric],
    artifacts: Option[String]) {

  def run(given: Iterator[InternalRow], context: TaskContext): Iterator[ColumnarBatch] = {
    val structs = new ContextAwareIterator(context, given).map(InternalRow(_): InternalRow)
    val batches = if (rows > 0) new BatchIterator(structs, rows) else Iterator(structs)
    BatchRunner.open(this).compute(batches, context.partitionId(), context)
  }
}

private object BatchRunner {
  def apply(function: PythonUDF, input: StructType, conf: SQLConf, metrics: Map[String, SQLMetric]): BatchRunner =
    BatchRunner(
      Seq((ChainedPythonFunctions(Seq(function.func)), function.resultId.id)),
      input,
      conf.arrowMaxRecordsPerBatch,
      conf.sessionLocalTimeZone,
      conf.arrowUseLargeVarTypes,
      ArrowPythonRunner.getPythonRunnerConfMap(conf),
      metrics,
      JobArtifactSet.getCurrentJobArtifactState.map(_.uuid))

  /** Spark's releases differ in how many optional arguments follow the artifacts; none of them is needed. */
  private def open(r: BatchRunner): ArrowPythonRunner = {
    val made = classOf[ArrowPythonRunner].getConstructors.head
    val struct = StructType(Seq(StructField("struct", r.input)))
    val known = Seq[Any](
      r.functions,
      PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
      Array(Array(0)),
      struct,
      r.zone,
      r.large,
      r.settings,
      r.metrics,
      r.artifacts)
    made.newInstance(known.padTo(made.getParameterCount, None).map(_.asInstanceOf[AnyRef]): _*).asInstanceOf[
      ArrowPythonRunner]
  }
}
