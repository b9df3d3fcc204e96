package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.physical._

/** The bucketing of the rows of a read: the number of buckets of all partitions, the bucket function, the columns by
  * which rows are sorted, in how many sorted runs those of a bucket are at most, and how many, in how many bytes of
  * files, a bucket has at most. */
case class BucketLayout(
    buckets: Int,
    function: String,
    keys: Seq[HashedField],
    sorted: Seq[String],
    runs: Int,
    mostRows: Long,
    mostBytes: Long)

object BucketLayout {

  /** The layout in the engine's plan of a read; None if partitions differ in it. */
  def of(plan: JsonNode): Option[BucketLayout] = Json.optional(plan, "layout").map(json =>
    BucketLayout(
      json.get("buckets").asInt(),
      json.get("function").asText(),
      Json.items(json.get("fields")).map(HashedField.fromJson),
      Json.strings(json.get("sorted")),
      json.get("runs").asInt(),
      json.get("most_rows").asLong(),
      json.get("most_bytes").asLong()))
}

/** Rows of bucket b are in task b. It is the hash partitioning of an expression whose Spark hash selects task b, so
  * that Spark shuffles other rows to these tasks, and it satisfies what a partitioning by the bucket key satisfies. */
class BucketPartitioning(expressions: Seq[Expression], numPartitions: Int)
    extends HashPartitioning(expressions, numPartitions) {
  private def hash: PaimonKeyHash = expressions.head.asInstanceOf[TaskOf].right.asInstanceOf[PaimonKeyHash]

  def keys: Seq[Expression] = hash.keys

  /** The function and what it is computed from; rows with equal keys are in equal buckets if these are equal. */
  def function: (String, Seq[KeyColumn]) = (hash.function, hash.columns)

  def withKeys(others: Seq[Expression]): BucketPartitioning =
    BucketPartitioning(hash.function, others, hash.precisions, numPartitions)

  override def toString: String = s"paimonbuckets(${keys.mkString(", ")}, $numPartitions)"

  override def satisfies0(required: Distribution): Boolean = super.satisfies0(required) || (required match {
    case c: ClusteredDistribution if c.requireAllClusterKeys => c.areAllClusterKeysMatched(keys)
    case c: ClusteredDistribution => keys.forall(k => c.clustering.exists(_.semanticEquals(k)))
    case _ => false
  })

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec =
    BucketShuffleSpec(this, distribution)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): HashPartitioning =
    new BucketPartitioning(newChildren, numPartitions)
}

object BucketPartitioning {
  def apply(function: String, keys: Seq[Expression], precisions: Seq[Int], buckets: Int): BucketPartitioning = {
    val bucket = PaimonKeyHash(function, keys :+ Literal(buckets), precisions)
    new BucketPartitioning(Seq(TaskOf(Literal(0), bucket, 0, buckets)), buckets)
  }

  def apply(layout: BucketLayout, keys: Seq[Expression]): BucketPartitioning =
    apply(layout.function, keys, layout.keys.map(_.precision), layout.buckets)
}

/** Which sides of a join have equal keys in tasks of the same number. */
case class BucketShuffleSpec(partitioning: BucketPartitioning, distribution: ClusteredDistribution)
    extends ShuffleSpec {

  /** For each column of the bucket key, where it is in the join's key. */
  private lazy val positions: Seq[Set[Int]] = partitioning.keys.map(key =>
    distribution.clustering.indices.filter(i => distribution.clustering(i).semanticEquals(key)).toSet)

  override def numPartitions: Int = partitioning.numPartitions

  override def isCompatibleWith(other: ShuffleSpec): Boolean = other match {
    case SinglePartitionShuffleSpec => numPartitions == 1
    case that: BucketShuffleSpec =>
      numPartitions == that.numPartitions && partitioning.function == that.partitioning.function &&
      distribution.clustering.length == that.distribution.clustering.length &&
      positions.zip(that.positions).forall { case (ours, theirs) => ours.exists(theirs) }
    case ShuffleSpecCollection(specs) => specs.exists(isCompatibleWith)
    case _ => false
  }

  override def canCreatePartitioning: Boolean = true

  override def createPartitioning(clustering: Seq[Expression]): Partitioning =
    partitioning.withKeys(positions.map(p => clustering(p.min)))
}
