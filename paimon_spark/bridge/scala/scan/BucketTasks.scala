package org.apache.spark.sql.paimonbridge

import org.apache.spark.{OneToOneDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LeafNode
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, PartitionedFile}
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.unsafe.types.UTF8String

/** The plan of a read with one task for each bucket, instead of tasks by file size. */
object BucketTasks {

  /** The name of the bucket among the metadata of a file in a `PaimonFileIndex`. */
  val Bucket = "paimon_bucket"

  /** The name of a file's number among those of a read: in a bucket of sorted files, they are in the order of the
    * keys. */
  val Order = "paimon_order"

  /** Whether a plan consists of operators that `grouped` supports. */
  def canGroup(plan: SparkPlan): Boolean = plan match {
    case f: FileSourceScanExec => hasBuckets(f.relation)
    case l: LocalTableScanExec => l.rows.isEmpty
    case _: BucketSplitsExec => true
    case _: UnionExec | _: ProjectExec | _: FilterExec | _: WorkerBatchesExec => plan.children.forall(canGroup)
    case _ => false
  }

  private def hasBuckets(relation: HadoopFsRelation): Boolean = relation.location match {
    case index: PaimonFileIndex => index.hasBuckets
    case _ => false
  }

  def grouped(plan: SparkPlan, buckets: Int): SparkPlan = plan match {
    case f: FileSourceScanExec => BucketFilesExec(f, buckets)
    case l: LocalTableScanExec => BucketSplitsExec(l.output, BucketSplits.none, buckets)
    case s: BucketSplitsExec => s.copy(buckets = buckets)
    case u: UnionExec => BucketUnionExec(u.children.map(grouped(_, buckets)), u.output)
    case other => other.mapChildren(grouped(_, buckets))
  }
}

/** The files of a native scan, one task for each bucket. */
case class BucketFilesExec(child: SparkPlan, buckets: Int) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def nodeName: String = "PaimonBuckets"
  override def simpleString(maxFields: Int): String = s"PaimonBuckets $buckets"
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def vectorTypes: Option[Seq[String]] = child.vectorTypes
  override protected def doExecute(): RDD[InternalRow] = new RegroupedFilesRDD(child.execute(), byBucket)
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] =
    new RegroupedFilesRDD(child.executeColumnar(), byBucket)
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)

  private def byBucket(tasks: Seq[Seq[PartitionedFile]]): Seq[Seq[PartitionedFile]] = {
    val found = tasks.flatten.groupBy(_.otherConstantMetadataColumnValues(BucketTasks.Bucket).asInstanceOf[Int])
    Seq.tabulate(buckets)(found.getOrElse(_, Nil).sortBy(f =>
      (f.otherConstantMetadataColumnValues(BucketTasks.Order).asInstanceOf[Int], f.start)))
  }
}

/** Bucket after bucket of several reads of a table. */
case class BucketUnionExec(children: Seq[SparkPlan], output: Seq[Attribute]) extends SparkPlan {
  override def nodeName: String = "PaimonBucketUnion"
  override protected def doExecute(): RDD[InternalRow] = new BucketUnionRDD(children.map(_.execute()))
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = newChildren)
}

private case class BucketUnionPartition(index: Int, parts: Seq[Partition]) extends Partition

private class BucketUnionRDD(reads: Seq[RDD[InternalRow]])
    extends RDD[InternalRow](reads.head.sparkContext, reads.map(new OneToOneDependency(_))) {
  override protected def getPartitions: Array[Partition] =
    reads.head.partitions.map(p => BucketUnionPartition(p.index, reads.map(_.partitions(p.index))): Partition)
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    dependencies.iterator.zip(split.asInstanceOf[BucketUnionPartition].parts.iterator).flatMap { case (d, part) =>
      d.rdd.asInstanceOf[RDD[InternalRow]].iterator(part, context)
    }
}

/** Texts of splits for the tasks that read them: task, bucket and text. */
class BucketSplits(@transient val lines: IndexedSeq[(Int, Int, String)]) extends Serializable

object BucketSplits {
  val none = new BucketSplits(Vector.empty)

  /** A frame of one string column `split`, the texts of a task in one task: lines of task, bucket and text, or `@file`
    * with them. */
  def frame(session: SparkSession, lines: String): Dataset[Row] = {
    val parsed = JvmFrames.lines(lines)(_.map { line =>
      val Array(task, bucket, text) = line.split("\t", 3)
      (task.toInt, bucket.toInt, text)
    }.toIndexedSeq)
    JvmFrames.analyzed(
      session,
      BucketSplitsPlan(Seq(AttributeReference("split", StringType)()), new BucketSplits(parsed)))
  }
}

case class BucketSplitsPlan(output: Seq[Attribute], splits: BucketSplits) extends LeafNode

/** The texts in tasks by number or, with `buckets` > 0, one task for each bucket. */
case class BucketSplitsExec(output: Seq[Attribute], splits: BucketSplits, buckets: Int = 0) extends LeafExecNode {
  override def nodeName: String = "PaimonSplits"
  override def simpleString(maxFields: Int): String =
    s"PaimonSplits ${if (buckets > 0) s"by bucket, $buckets" else ""}".trim
  override protected def doExecute(): RDD[InternalRow] = {
    val found = splits.lines.groupMap { case (task, bucket, _) => if (buckets > 0) bucket else task }(_._3)
    val tasks = if (buckets > 0) 0 until buckets else found.keys.toSeq.sorted
    val texts = tasks.map(found.getOrElse(_, Nil).toArray)
    session.sparkContext.parallelize(texts, math.max(texts.size, 1)).mapPartitions { lists =>
      val copy = UnsafeProjection.create(Array[DataType](StringType))
      lists.flatten.map(text => copy(InternalRow(UTF8String.fromString(text))): InternalRow)
    }
  }
}
