package org.apache.spark.sql.paimonbridge

import java.util.{Comparator, PriorityQueue}

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.spark.{NarrowDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads what Spark's scan reads, in other tasks: its partitions are lists of files, which can be chosen freely. */
private class RegroupedFilesRDD[T: ClassTag](
    files: RDD[T],
    @transient regroup: Seq[Seq[PartitionedFile]] => Seq[Seq[PartitionedFile]])
    extends RDD[T](
      files.sparkContext,
      Seq(new NarrowDependency[T](files) {
        override def getParents(task: Int): Seq[Int] = Nil
      })) {
  override protected def getPartitions: Array[Partition] =
    regroup(files.partitions.toSeq.map { case p: FilePartition => p.files.toSeq }).zipWithIndex
      .map { case (task, i) => FilePartition(i, task.toArray): Partition }.toArray
  override def compute(split: Partition, context: TaskContext): Iterator[T] = firstParent[T].iterator(split, context)
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[FilePartition].preferredLocations().toSeq
}

/** The files of a native scan in tasks of about equal work. Spark counts 4 MB for opening a file, so that where a few
  * large files meet many small ones, one task gets most of the rows. */
case class BalancedFilesExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def nodeName: String = "PaimonBalancedFiles"
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def vectorTypes: Option[Seq[String]] = child.vectorTypes
  override protected def doExecute(): RDD[InternalRow] = balanced(child.execute())
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = balanced(child.executeColumnar())
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)

  /** The same tasks if another extension has replaced Spark's scan. */
  private def balanced[T: ClassTag](files: RDD[T]): RDD[T] =
    if (!files.partitions.forall(_.isInstanceOf[FilePartition])) files
    else new RegroupedFilesRDD(files, BalancedFiles.of(_, multiple))

  /** The number of tasks at once; 1 if the user has limited the number of tasks of a scan. */
  private def multiple: Int = if (conf.filesMaxPartitionNum.isDefined) 1 else sparkContext.defaultParallelism
}

/** Balances the files of all native scans of Paimon tables that are not grouped by bucket. */
object BalanceFiles extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transform {
    case scan: PaimonScanExec if scan.buckets.isEmpty => scan.copy(child = within(scan.child))
  }

  private def within(plan: SparkPlan): SparkPlan = plan match {
    case balanced: BalancedFilesExec => balanced
    case files: FileSourceScanExec if files.relation.location.isInstanceOf[PaimonFileIndex] => BalancedFilesExec(files)
    case other => other.mapChildren(within)
  }
}

object BalancedFiles extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = BalanceFiles

  /** Opening a file takes as long as reading this many bytes. */
  private val Opening = 256L << 10

  private class Task {
    val files: mutable.ArrayBuffer[PartitionedFile] = mutable.ArrayBuffer()
    var work: Long = 0
  }

  /** The files of `tasks`, spread evenly: the largest first, each to the task with the least work. The number of tasks
    * is that of Spark, or the next multiple of `slots` if it is larger than that, but at most one for each file. */
  def of(tasks: Seq[Seq[PartitionedFile]], slots: Int): Seq[Seq[PartitionedFile]] =
    if (tasks.size <= 1 || tasks.forall(_.size <= 1)) tasks
    else {
      val files = tasks.flatten.sortBy(-_.length)
      val count =
        math.min(if (tasks.size <= slots) tasks.size else (tasks.size + slots - 1) / slots * slots, files.size)
      val spread = Seq.fill(count)(new Task)
      val least = new PriorityQueue[Task](count, Comparator.comparingLong[Task](_.work))
      spread.foreach(least.add)
      files.foreach { file =>
        val task = least.poll()
        task.files += file
        task.work += file.length + Opening
        least.add(task)
      }
      spread.sortBy(-_.work).map(_.files.toSeq)
    }
}
