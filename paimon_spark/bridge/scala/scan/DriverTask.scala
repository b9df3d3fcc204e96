package org.apache.spark.sql.paimonbridge

import java.util.Properties
import java.util.concurrent.atomic.AtomicLong

import scala.reflect.ClassTag

import org.apache.spark.{SparkEnv, TaskContext, TaskContextImpl, TaskKilledException}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSet,
  Expression,
  PlanExpression,
  PythonFuncExpression,
  SortOrder
}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.window.{WindowExecBase, WindowGroupLimitExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.{AccumulatorContext, AccumulatorV2}

/** Sorts, aggregates, limits and windows over one small read. The thread that collects the rows runs them: scheduling a
  * job, and planning it adaptively, would take longer than its only task. A plan above, such as a write, runs them in
  * one of its tasks. */
case class PaimonDriverTaskExec(plan: SparkPlan) extends DriverRowsExec {
  private val read: PaimonLocalReadExec = LocalRead.under(plan)

  override def output: Seq[Attribute] = plan.output
  override def producedAttributes: AttributeSet = outputSet
  override def outputOrdering: Seq[SortOrder] = plan.outputOrdering
  override def nodeName: String = "PaimonDriverTask"
  override def simpleString(maxFields: Int): String = nodeName
  override def innerChildren: Seq[QueryPlan[_]] = Seq(plan)
  override protected def doCanonicalize(): SparkPlan = PaimonDriverTaskExec(plan.canonicalized)
  override def metrics: Map[String, SQLMetric] = read.metrics

  override protected def doExecute(): RDD[InternalRow] = plan.execute()

  /** The task; None if the rows of the read have turned out to be too many, which its execution has found. */
  @transient private lazy val task: Option[RDD[InternalRow]] = Some(plan.execute()).filterNot(_ => read.isTooLarge)

  override protected def collected(most: Int): Option[Array[InternalRow]] = task.map { rdd =>
    val rows = DriverTask.run(rdd, session)(_.take(most).map(_.copy()).toArray)
    report()
    rows
  }
  override protected def distributed: SparkPlan = plan
}

/** A task in the thread that asks for its rows. */
private object DriverTask {

  /** Ids that no task of Spark has, and none of those below zero that its block manager knows. */
  private val ids = new AtomicLong(Long.MinValue)

  /** The settings of the session, which expressions look up in the properties of the task. */
  private def settings: Properties = {
    val properties = new Properties
    SQLConf.get.getAllConfs.foreach { case (key, value) =>
      if (key.startsWith("spark")) properties.setProperty(key, value)
    }
    properties
  }

  /** Adds the metric of a copy to that of the plan. */
  private def add[A, B](metric: AccumulatorV2[A, B]): Unit =
    AccumulatorContext.get(metric.id).foreach(_.asInstanceOf[AccumulatorV2[A, B]].merge(metric))

  def run[T](rdd: RDD[InternalRow], session: SparkSession)(use: Iterator[InternalRow] => T): T = {
    val env = SparkEnv.get
    val id = ids.getAndIncrement()
    val memory = new TaskMemoryManager(env.memoryManager, id)
    val context = new DriverTaskContext(id, settings, memory, env)
    TaskContext.setTaskContext(context)
    env.blockManager.registerTask(id) // reads of broadcast values lock their blocks
    try {
      val partition = rdd.partitions.head // a copy cannot be asked for its partitions
      val result = use(OwnCopy.of(rdd, session).iterator(partition, context))
      context.markTaskCompleted(None)
      context.taskMetrics.withExternalAccums(_.foreach(add(_)))
      result
    } catch {
      case error: Throwable =>
        context.markTaskFailed(error)
        context.markTaskCompleted(Some(error))
        throw error
    } finally {
      env.blockManager.releaseAllLocksForTask(id)
      memory.cleanUpAllAllocatedMemory()
      TaskContext.unset()
    }
  }
}

/** Copies for one thread. Expressions keep state while they are evaluated, such as the element that a lambda concerns,
  * and the threads of one query, or of several that collect one DataFrame, run the same plan: each evaluates a copy, as
  * each task of Spark does. */
object OwnCopy {
  def of[T: ClassTag](value: T, session: SparkSession): T = {
    val serializer = SparkEnv.get.closureSerializer.newInstance()
    serializer.deserialize[T](serializer.serialize(value), session.artifactManager.classloader)
  }
}

/** The context of such a task; it is cancelled by an interrupt of the thread. */
private class DriverTaskContext(id: Long, settings: Properties, memory: TaskMemoryManager, env: SparkEnv)
    extends TaskContextImpl(0, 0, 0, id, 0, 1, memory, settings, env.metricsSystem, TaskMetrics.empty) {
  override private[spark] def killTaskIfInterrupted(): Unit =
    if (Thread.currentThread().isInterrupted || Cancel.isInterrupted) throw new TaskKilledException("cancelled")
}

/** A read that is already planned, in the plan of a `PaimonDriverTaskExec`. */
private case class PlannedRead(plan: SparkPlan) extends LeafNode {
  val bytes: Long = LocalRead.under(plan).bytes
  override def output: Seq[Attribute] = plan.output
  override def computeStats(): Statistics = Statistics(sizeInBytes = 1)
}

/** Operators over one read of at most `DriverTasks.MostBytes`, planned as one task. */
class DriverTasks(session: SparkSession) {
  def unapply(plan: LogicalPlan): Option[SparkPlan] = plan match {
    case ReturnAnswer(child) => unapply(child)
    case _ => overRead(plan).flatMap {
        case PlannedRead(task: PaimonDriverTaskExec) => Some(task)
        case PlannedRead(_) => None
        case query => task(query)
      }
  }

  /** The plan, with its read planned. */
  private def overRead(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case SmallRead(read) => Some(PlannedRead(read)).filter(_.bytes <= DriverTasks.MostBytes)
    case e: Expand => overChild(e).flatMap(task).map(PlannedRead(_)) // Spark does not know how its rows are partitioned
    case _: Sort | _: Aggregate | _: Project | _: Filter | _: GlobalLimit | _: LocalLimit | _: Offset | _: Window |
        _: WindowGroupLimit => overChild(plan)
    case _ => None
  }

  private def overChild(plan: LogicalPlan): Option[LogicalPlan] =
    if (plan.expressions.forall(isServed)) overRead(plan.children.head).map(read => plan.withNewChildren(Seq(read)))
    else None

  private def task(query: LogicalPlan): Option[PaimonDriverTaskExec] = {
    val planned = session.sessionState.planner.plan(ReturnAnswer(query)).next()
    val prepared = SQLConf.withExistingConf(settings(query)) { QueryExecution.prepareExecutedPlan(session, planned) }
    if (prepared.exists(!isServed(_))) None else Some(PaimonDriverTaskExec(prepared))
  }

  /** Compiling code for a whole stage takes longer than it saves with few rows. */
  private def settings(query: LogicalPlan): SQLConf = {
    val settings = session.sessionState.conf.clone()
    if (query.exists { case read: PlannedRead => read.bytes < LocalBatches.WorthCode; case _ => false })
      settings.setConf(SQLConf.WHOLESTAGE_CODEGEN_ENABLED, false)
    settings
  }

  private def isServed(e: Expression): Boolean = LocalRead.serves(e) && !e.exists {
    case _: PlanExpression[_] | _: PythonFuncExpression => true
    case _ => false
  }

  private def isServed(plan: SparkPlan): Boolean = plan match {
    case _: PaimonLocalReadExec | _: PaimonDriverTaskExec | _: WholeStageCodegenExec | _: InputAdapter => true
    case _: SortExec | _: BaseAggregateExec | _: ProjectExec | _: FilterExec | _: LimitExec |
        _: TakeOrderedAndProjectExec | _: WindowExecBase | _: WindowGroupLimitExec | _: ExpandExec => true
    case _ => false
  }
}

object DriverTasks {

  /** A job is cheap beside the operators over larger reads, and runs on an executor. */
  private val MostBytes = 8L << 20
}
