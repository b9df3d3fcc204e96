package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.LogicalQueryStageStrategy
import org.apache.spark.sql.execution.joins.SortMergeJoinExec
import org.apache.spark.sql.internal.SQLConf

/** A read in a task for each bucket, whose rows there are in at most `runs` sequences of ascending `keys`. The keys are
  * unique if there is one run. `mostBytes` is the size of the largest bucket in memory. */
case class SortedRuns(keys: Seq[Attribute], runs: Int, rows: Long, mostBytes: Long) {
  def isUnique: Boolean = runs == 1

  /** Whether it is cheaper to begin again in the rows of `other` for each run than to sort these rows. The rows of
    * `other` are then kept in memory. */
  def areJoinedByRun(other: SortedRuns): Boolean =
    other.mostBytes <= SortedRuns.MostKept && other.rows * (runs - 1) <= rows * SortedRuns.SortCost
}

object SortedRuns {
  private val MostKept = 16L << 20

  /** The cost of sorting a row, in rows that are passed over in another run. */
  private val SortCost = 4

  /** The size of texts in memory to that of their files; `BatchCopies` has each value of a batch once. */
  private val Compression = 8

  def apply(keys: Seq[Attribute], layout: BucketLayout, scan: PaimonScan): SortedRuns = {
    val size = scan.estimateStatistics()
    val rows = size.numRows().orElse(layout.mostRows * layout.buckets)
    val ofRow = size.sizeInBytes().getAsLong / math.max(rows, 1) + 1
    val isFixed = scan.readSchema.fields.forall(f => UnsafeRow.isFixedLength(f.dataType))
    val mostBytes = math.max(layout.mostRows * ofRow, if (isFixed) 0 else layout.mostBytes * Compression)
    SortedRuns(keys, layout.runs, rows, mostBytes)
  }
}

/** Plans a join in which one side has unique keys in their order: rows of the other side look theirs up by merging.
  * A join with a side that adaptive execution has already broadcast is Spark's, however large it turned out to be. */
class MergeJoins(session: SparkSession) {
  def unapply(plan: LogicalPlan): Option[SparkPlan] = plan match {
    case join: Join if BucketReads.enabled(SQLConf.get) && LogicalQueryStageStrategy(join).isEmpty =>
      val sides = (BucketReads.sortedRuns(join.left), BucketReads.sortedRuns(join.right))
      lookups(join.joinType, sides).flatMap { lookup =>
        session.sessionState.planner.JoinSelection(join) match {
          case Seq(planned: SortMergeJoinExec) => of(planned, lookup, sides)
          case _ => None
        }
      }
    case _ => None
  }

  /** The side in which rows are looked up: the larger one if there is a choice. */
  private def lookups(kind: JoinType, sides: (Option[SortedRuns], Option[SortedRuns])): Option[BuildSide] = {
    val (left, right) = (sides._1.filter(_.isUnique), sides._2.filter(_.isUnique))
    kind match {
      case _: InnerLike if left.exists(l => right.forall(_.rows < l.rows)) => Some(BuildLeft)
      case _: InnerLike | LeftOuter | LeftSemi | LeftAnti => right.map(_ => BuildRight)
      case RightOuter => left.map(_ => BuildLeft)
      case _ => None
    }
  }

  private def of(
      planned: SortMergeJoinExec,
      lookup: BuildSide,
      sides: (Option[SortedRuns], Option[SortedRuns])): Option[SparkPlan] = {
    val (kept, streamed) = if (lookup == BuildLeft) sides else sides.swap
    val (keys, others) = if (lookup == BuildLeft) (planned.leftKeys, planned.rightKeys)
    else (planned.rightKeys, planned.leftKeys)
    val positions = kept.get.keys.map(key => keys.indexWhere(_.semanticEquals(key)))
    if (positions.contains(-1)) None
    else {
      val alike = streamed.filter(s =>
        s.keys.length >= positions.length &&
          positions.zip(s.keys).forall { case (p, key) => others(p).semanticEquals(key) })
      val order = if (alike.exists(_.isUnique)) StreamedOrder.Sorted
      else if (alike.exists(_.areJoinedByRun(kept.get))) StreamedOrder.Runs
      else StreamedOrder.ToSort
      Some(PaimonMergeJoinExec(
        planned.leftKeys,
        planned.rightKeys,
        planned.joinType,
        planned.condition,
        lookup,
        positions,
        order,
        planned.left,
        planned.right))
    }
  }
}

/** How the streamed rows of a merge join come: sorted by the read, sorted in each of some runs, or to be sorted. */
object StreamedOrder extends Enumeration {
  val Sorted, Runs, ToSort = Value
}
