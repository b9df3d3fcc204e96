package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.{ExtractEquiJoinKeys, PhysicalOperation}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.{BroadcastDistribution, Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.internal.SQLConf

/** Finds the reads whose buckets avoid a shuffle; `PaimonStrategy` plans them so that each bucket can be one task. It
  * plans nothing itself: Spark calls a strategy with the whole query first. */
case class BucketReadStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    plan match {
      case ReturnAnswer(query) if BucketReads.enabled(SQLConf.get) => new BucketReads(session).mark(query)
      case _ =>
    }
    Nil
  }
}

/** Rows of some reads in tasks by bucket; for each column of the bucket key, the attributes that have its values. */
private case class BucketedRows(layout: BucketLayout, keys: Seq[Set[ExprId]], reads: Seq[DataSourceV2ScanRelation]) {

  /** Whether rows with equal values of all `expressions` are in one task. */
  def groups(expressions: Seq[Expression]): Boolean =
    keys.forall(ids => expressions.exists { case a: Attribute => ids(a.exprId); case _ => false })

  /** The same rows with other columns; None if a column of the bucket key is not among them. */
  def through(columns: Seq[NamedExpression]): Option[BucketedRows] = {
    val renamed = keys.map(ids =>
      columns.collect {
        case a: Attribute if ids(a.exprId) => a.exprId
        case c @ Alias(a: Attribute, _) if ids(a.exprId) => c.exprId
      }.toSet)
    if (renamed.forall(_.nonEmpty)) Some(copy(keys = renamed)) else None
  }

  /** Whether rows with equal join keys are in tasks of the same number. */
  def meets(other: BucketedRows, own: Seq[Expression], others: Seq[Expression]): Boolean =
    layout.buckets == other.layout.buckets && layout.function == other.layout.function &&
      keys.length == other.keys.length && keys.zip(other.keys).forall { case (a, b) =>
        own.zip(others).exists {
          case (x: Attribute, y: Attribute) => a(x.exprId) && b(y.exprId)
          case _ => false
        }
      }

  def joined(other: BucketedRows): BucketedRows =
    copy(keys = keys.zip(other.keys).map { case (a, b) => a ++ b }, reads = reads ++ other.reads)
}

/** The reads of a query to group by bucket: those of joins and aggregations by the bucket key. */
class BucketReads(session: SparkSession) {
  def mark(query: LogicalPlan): Unit = {
    query.foreach { case r: DataSourceV2ScanRelation => r.unsetTagValue(BucketReads.Grouped); case _ => }
    rows(query)
  }

  private def wanted(rows: BucketedRows): Unit = rows.reads.foreach(_.setTagValue(BucketReads.Grouped, ()))

  private def rows(plan: LogicalPlan): Option[BucketedRows] = plan match {
    case relation: DataSourceV2ScanRelation => of(relation)
    // without a shuffle, the other side of a join opens its files in the same task
    case opened if opened.expressions.exists(LocalRead.namesFile) => opened.children.foreach(rows); None
    case Project(columns, child) => rows(child).flatMap(_.through(columns))
    case Filter(_, child) => rows(child)
    case Aggregate(grouping, results, child, _) => grouped(child, grouping).flatMap(_.through(results))
    case Window(_, partition, _, child, _) => grouped(child, partition)
    case join @ ExtractEquiJoinKeys(kind, left, right, _, _, _, _, _) =>
      of(kind, rows(join.left), rows(join.right), left, right)
    case other => other.children.foreach(rows); None
  }

  private def grouped(child: LogicalPlan, by: Seq[Expression]): Option[BucketedRows] = {
    val found = rows(child)
    found.filter(_.groups(by)).foreach(wanted)
    found
  }

  private def of(
      kind: JoinType,
      left: Option[BucketedRows],
      right: Option[BucketedRows],
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression]): Option[BucketedRows] = {
    val both = for (l <- left; r <- right if l.meets(r, leftKeys, rightKeys)) yield l.joined(r)
    both.foreach(wanted)
    kind match {
      case _: InnerLike => both.orElse(left).orElse(right)
      case LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_) => left
      case RightOuter => right
      case _ => None
    }
  }

  private def of(relation: DataSourceV2ScanRelation): Option[BucketedRows] = relation.scan match {
    case scan: PaimonScan => BucketReads.keys(relation, scan).flatMap { case (layout, keys) =>
        if (worthwhile(layout, scan)) Some(BucketedRows(layout, keys.map(k => Set(k.exprId)), Seq(relation))) else None
      }
    case _ => None
  }

  /** With few buckets, tasks would be too few or too large: a shuffle is better then. */
  private def worthwhile(layout: BucketLayout, scan: PaimonScan): Boolean =
    layout.buckets >= session.sparkContext.defaultParallelism ||
      scan.plan.get("bytes").asLong() / layout.buckets <= session.sessionState.conf.filesMaxPartitionBytes
}

object BucketReads {
  private val Grouped = TreeNodeTag[Unit]("paimon_bucket_read")

  def enabled(conf: SQLConf): Boolean = conf.v2BucketingEnabled

  private def keys(relation: DataSourceV2ScanRelation, scan: PaimonScan): Option[(BucketLayout, Seq[Attribute])] =
    if (!scan.table.isBucketed) None
    else BucketLayout.of(scan.plan).flatMap { layout =>
      val keys = layout.keys.flatMap(k => relation.output.find(_.name == k.name))
      if (keys.length == layout.keys.length) Some((layout, keys)) else None
    }

  /** The partitioning of a marked read after a projection. */
  def partitioning(
      relation: DataSourceV2ScanRelation,
      scan: PaimonScan,
      project: Seq[NamedExpression]): Option[BucketPartitioning] =
    if (relation.getTagValue(Grouped).isEmpty) None
    else keys(relation, scan).flatMap { case (layout, keys) =>
      val renamed = keys.flatMap(renamedBy(project, _))
      if (renamed.length == keys.length) Some(BucketPartitioning(layout, renamed)) else None
    }

  /** The order of the rows in each bucket after a projection. */
  def ordering(relation: DataSourceV2ScanRelation, scan: PaimonScan, project: Seq[NamedExpression]): Seq[SortOrder] =
    BucketLayout.of(scan.plan).filter(_.runs == 1).fold(Seq.empty[Option[Attribute]])(sorted(_, relation, project))
      .takeWhile(_.isDefined).flatten.map(SortOrder(_, Ascending))

  /** The sorted runs of a marked read after a projection that keeps the columns of their order. */
  def sortedRuns(plan: LogicalPlan): Option[SortedRuns] = plan match {
    case PhysicalOperation(project, _, ScanOf(relation, scan)) if relation.getTagValue(Grouped).isDefined =>
      BucketLayout.of(scan.plan).flatMap { layout =>
        val keys = sorted(layout, relation, project)
        if (keys.isEmpty || keys.exists(_.isEmpty)) None else Some(SortedRuns(keys.flatten, layout, scan))
      }
    case _ => None
  }

  private def sorted(
      layout: BucketLayout,
      relation: DataSourceV2ScanRelation,
      project: Seq[NamedExpression]): Seq[Option[Attribute]] =
    layout.sorted.map(name => relation.output.find(_.name == name).flatMap(renamedBy(project, _)))

  private def renamedBy(project: Seq[NamedExpression], key: Attribute): Option[Attribute] = project.collectFirst {
    case a: Attribute if a.exprId == key.exprId => a
    case c @ Alias(a: Attribute, _) if a.exprId == key.exprId => c.toAttribute
  }
}

/** Groups the reads on whose partitioning an operator relies, and leaves all others in tasks by file size.
  * Like Spark's rule for bucketed files, it runs after the exchanges are planned. Sorts of rows that grouping leaves
  * in order are removed. */
case class GroupReads(group: Boolean) extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = decide(plan, relied = false)

  /** `relied`: whether an operator above, of the same stage, relies on how rows are partitioned. */
  private def decide(plan: SparkPlan, relied: Boolean): SparkPlan = plan match {
    case scan: PaimonScanExec if scan.buckets.isDefined && !scan.grouped =>
      if (!relied) scan.ungrouped else if (group) scan.groupedByBucket else scan
    case exchange: Exchange => exchange.mapChildren(decide(_, relied = false))
    case sort: SortExec if group && !sort.global =>
      val child = decide(sort.child, relied)
      if (SortOrder.orderingSatisfies(child.outputOrdering, sort.sortOrder)) child else sort.copy(child = child)
    case join: PaimonMergeJoinExec if group && !join.isSettled =>
      decideChildren(join, relied) match {
        case decided: PaimonMergeJoinExec => decided.settled
      }
    case other => decideChildren(other, relied)
  }

  private def decideChildren(plan: SparkPlan, relied: Boolean): SparkPlan =
    plan.withNewChildren(plan.children.zip(plan.requiredChildDistribution).map {
      case (child, required) => decide(child, relied || relies(required))
    })

  private def relies(required: Distribution): Boolean = required match {
    case UnspecifiedDistribution | _: BroadcastDistribution => false
    case _ => true
  }
}

object GroupReads extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = GroupReads(group = true)
}
