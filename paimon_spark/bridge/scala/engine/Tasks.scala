package org.apache.spark.sql.paimonbridge

import java.io.IOException

import scala.reflect.ClassTag

import org.apache.spark.{Partition, SparkException, TaskContext}
import org.apache.spark.api.python.PythonException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** The cause of a failed task, with the engine's message. Spark reports an error with a condition unchanged, and
  * wraps any other. It has no stack trace, which would have only Spark's own code.
  *
  * @param error the class of the error in Python */
class TaskFailed(text: String, code: String, val error: String) extends PaimonException(text, code, known = true) {
  setStackTrace(Array.empty)
}

/** The engine's Python functions, with failures of their tasks reported by the engine's message. */
case class PaimonTasks(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** Runs `PaimonTasks`. */
case class PaimonTasksExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = new ErrorReportingRDD(child.execute())
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** What `source` yields, with failures translated by `TaskFailure`; its Python worker ends if the task is cancelled. */
private class ErrorReportingRDD[T: ClassTag](source: RDD[T]) extends RDD[T](source) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    CancelledTasks.follow(context)
    val found = reported(context)(firstParent[T].iterator(split, context))
    new Iterator[T] {
      override def hasNext: Boolean = reported(context)(found.hasNext)
      override def next(): T = reported(context)(found.next())
    }
  }

  private def reported[R](context: TaskContext)(body: => R): R =
    try body
    catch { case e: Exception if !context.isInterrupted() => throw TaskFailure.named(e).fold(e)(translated(e, _)) }

  /** The stack trace is logged by the executor and not shown to the user. */
  private def translated(e: Exception, found: PaimonException): Exception = {
    if (!Errors.chain(e).contains(found)) logInfo(s"A task failed: ${found.code}", e)
    found
  }
}

/** Finds the cause of a failed task in a chain of exceptions, by their classes and stack traces. */
object TaskFailure {
  private val Raised = """(?m)^paimon_spark\.errors\.(\w+): \[([A-Z_]+)\] """.r

  /** What Spark 4.3 appends to the traceback of a Python function. */
  private val State = """\s+SQLSTATE: \w{5}\s*$""".r
  private val Absent = ("ModuleNotFoundError: No module named " +
    "'(paimon_spark|pyarrow|numpy|fastavro|backports|pyroaring|datasketches|msgspec|botocore)").r
  private val Ours = Seq("org.apache.spark.api.python.", "org.apache.spark.sql.execution.python.")
  private val Passed =
    Seq("java.", "javax.", "jdk.", "sun.", "scala.", "io.netty.", "org.apache.arrow.", "org.apache.spark.security.")
  private val LostExecutor = "ExecutorLostFailure"
  private val LostWorker = Seq(
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Python daemon failed to launch worker",
    "EOFException occurred while reading the port number from")

  /** The engine error in `t`, or None if another program or function failed. */
  def named(t: Throwable): Option[PaimonException] = {
    val chain = Errors.chain(t)
    chain.collectFirst { case known: PaimonException => known }
      .orElse(chain.collectFirst { case p: PythonException => p.getMessage }.flatMap(raised))
      .orElse(chain.find(isNoProgram).map(noProgram))
      .orElse(chain.find(isLostWorker).map(_ => lostWorker))
      .orElse(chain.find(isLostExecutor).map(_ => lostExecutor))
  }

  private def raised(trace: String): Option[PaimonException] =
    Raised.findAllMatchIn(trace).toSeq.lastOption.map { found =>
      val text = State.replaceFirstIn(found.after.toString, "").trim
      new TaskFailed(s"[${found.group(2)}] $text", found.group(2), found.group(1))
    }.orElse(Absent.findFirstMatchIn(trace).map(found => missing(found.group(1))))

  /** Whether a connection to a Python worker, or to the daemon that starts workers, was closed: the I/O was done by
    * Spark's own code for Python, not by code that it called for the query. */
  private def isLostWorker(t: Throwable): Boolean = t match {
    case e: IOException if !isNoProgram(e) =>
      e.getStackTrace.map(_.getClassName).find(c => !Passed.exists(c.startsWith))
        .exists(c => Ours.exists(c.startsWith))
    // a worker that is gone before the daemon's answer was read is an IllegalStateException
    case e @ (_: SparkException | _: IllegalStateException) =>
      Option(e.getMessage).exists(m => LostWorker.exists(m.contains))
    case _ => false
  }

  private def isNoProgram(e: Throwable): Boolean =
    e.isInstanceOf[IOException] && Option(e.getMessage).exists(_.startsWith("Cannot run program"))

  private def isLostExecutor(t: Throwable): Boolean = t match {
    case e: SparkException => Option(e.getMessage).exists(_.contains(LostExecutor))
    case _ => false
  }

  private def lostWorker = new TaskFailed(
    "[WORKER_FAILED] A Python worker ended before its task was done. Check the " +
      "system log for a kill, often for lack of memory; then run the statement again.",
    "WORKER_FAILED",
    "EngineError")

  private def lostExecutor = new TaskFailed(
    "[WORKER_FAILED] An executor ended before its tasks were done. Check the " +
      "cluster log for a kill, often for lack of memory; then run the statement again.",
    "WORKER_FAILED",
    "EngineError")

  private def noProgram(e: Throwable) = new TaskFailed(
    s"[ENVIRONMENT] The Python of the workers does not start: ${Engine.messageOf(e)}. " +
      "Set spark.pyspark.python to a Python that every machine has, or ship one with --archives.",
    "ENVIRONMENT",
    "EngineError")

  private def missing(module: String) = new TaskFailed(
    s"[ENVIRONMENT] The Python of the workers has no module " +
      s"'$module'. Install paimon-spark on every machine, or ship it: `paimon-spark env --archive FILE`, --py-files " +
      "FILE; what it needs must be in the environment that spark.pyspark.python names.",
    "ENVIRONMENT",
    "EngineError")

  /** `named` for the engine: class, code and text as JSON, or an empty text. */
  def description(t: Throwable): String = named(t).fold("") { found =>
    val error = found match { case task: TaskFailed => task.error; case _ => "UsageError" }
    Json.text(Map("error" -> error, "code" -> found.code, "text" -> found.getMessage.stripPrefix(s"[${found.code}] ")))
  }
}
