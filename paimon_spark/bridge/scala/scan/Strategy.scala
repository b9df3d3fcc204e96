package org.apache.spark.sql.paimonbridge

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.optimizer._
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.RuleExecutor
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.write.Write
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.command.ExecutedCommandExec
import org.apache.spark.sql.execution.datasources.{FileSourceStrategy, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation,
  LeafV2CommandExec,
  StreamingDataSourceV2ScanRelation,
  WriteToDataSourceV2
}
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite
import org.apache.spark.sql.internal.SQLConf

/** Replaces Paimon scans by the engine's plan, schedules the search for superseded rows, packs rows for writers, and
  * runs SHOW TABLES and INSERTs. */
case class PaimonStrategy(session: SparkSession) extends SparkStrategy {
  private val OverSmallRead = new DriverTasks(session)
  private val MergeJoin = new MergeJoins(session)

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case OverSmallRead(task) => task :: Nil
    case SmallRead(read) => read :: Nil
    case PlannedRead(read) => read :: Nil
    case MergeJoin(join) => join :: Nil
    case PhysicalOperation(project, filters, ScanOf(relation, scan)) =>
      val prunesLater = filters.exists(_.exists(_.isInstanceOf[DynamicPruning]))
      val buckets = BucketReads.partitioning(relation, scan, project)
      val read = ReadPlan.of(scan.logicalPlan(prunesLater, buckets.isDefined), relation.output, project, filters)
      val sorted = if (buckets.isDefined) BucketReads.ordering(relation, scan, project) else Nil
      planLater(PaimonRead(scan.info, buckets, sorted, read)) :: Nil
    case PhysicalOperation(project, filters, StreamOf(read, stream)) =>
      PaimonStreamScanExec.plan(read, stream, project, filters) :: Nil
    case PhysicalOperation(project, filters, AggregateOf(relation, scan)) =>
      PaimonMetadataExec.of(scan, relation.output, filters, project) :: Nil
    case p @ PhysicalOperation(_, filters, _: LogicalRelation)
        if filters.exists(_.exists(_.isInstanceOf[NotSuperseded])) =>
      FileSourceStrategy(p).map(_.transformAllExpressions { case test: NotSuperseded => test.superseded.planned(test) })
    case PaimonRead(info, buckets, sorted, child) =>
      PaimonScanExec(info, buckets, sorted, grouped = false, planLater(child)) :: Nil
    case BucketSplitsPlan(output, splits) => BucketSplitsExec(output, splits) :: Nil
    case ArrowBatches(columns, task, tasks, output, child) =>
      ArrowBatchesExec(columns, task, tasks, output, planLater(child)) :: Nil
    case PositionBitmaps(output, child) => PositionBitmapsExec(output, planLater(child)) :: Nil
    case PaimonTasks(child) => PaimonTasksExec(planLater(child)) :: Nil
    case WorkerBatches(function, output, child) => WorkerBatchesExec(function, output, planLater(child)) :: Nil
    case SingleRowBatches(child) => SingleRowBatchesExec(planLater(child)) :: Nil
    case ShowTables(ResolvedNamespace(ours: PaimonCatalog, namespace, _), pattern, output) =>
      new PaimonShowTablesExec(output, ours, namespace, pattern) :: Nil
    case d: DescribeRelation => DescribeColumns.of(d).map(ExecutedCommandExec(_)).toSeq
    case a: AppendData => insert(a, a.write, a.analyzedQuery)
    case o: OverwriteByExpression => insert(o, o.write, o.analyzedQuery)
    case o: OverwritePartitionsDynamic => insert(o, o.write, None)
    case WriteToDataSourceV2(relation, batch: MicroBatchWrite, query, _) => batch.writeSupport match {
        case ours: PaimonStreamingWrite =>
          PaimonStreamExec(session, ours, relation, ChangelogFunctions.emptied(query), planLater(query)) :: Nil
        case _ => Nil
      }
    case _ => Nil
  }

  private def insert(statement: V2WriteCommand, write: Option[Write], analyzed: Option[LogicalPlan]): Seq[SparkPlan] =
    (write, statement.table) match {
      case (Some(ours: PaimonWrite), relation: DataSourceV2Relation) =>
        PaimonInsertExec(session, ours, relation, analyzed.getOrElse(statement.query)) :: Nil
      case _ => Nil
    }

  private object AggregateOf {
    def unapply(plan: LogicalPlan): Option[(DataSourceV2ScanRelation, AggregateScan)] = plan match {
      case r: DataSourceV2ScanRelation => r.scan match {
          case s: AggregateScan => Some((r, s))
          case _ => None
        }
      case _ => None
    }
  }

  private object StreamOf {
    def unapply(plan: LogicalPlan): Option[(StreamingDataSourceV2ScanRelation, PaimonStream)] = plan match {
      case r: StreamingDataSourceV2ScanRelation if r.startOffset.isDefined && r.endOffset.isDefined =>
        r.stream match {
          case s: PaimonStream => Some((r, s))
          case _ => None
        }
      case _ => None
    }
  }
}

/** A Paimon scan in a logical plan. */
private object ScanOf {
  def unapply(plan: LogicalPlan): Option[(DataSourceV2ScanRelation, PaimonScan)] = plan match {
    case r: DataSourceV2ScanRelation => r.scan match {
        case s: PaimonScan => Some((r, s))
        case _ => None
      }
    case _ => None
  }
}

/** The engine's plan with the attributes of the query, and with the query's filters and projection pushed into it. */
object ReadPlan extends RuleExecutor[LogicalPlan] {
  override protected def batches: Seq[Batch] = Seq(Batch(
    "push into the read",
    FixedPoint(20),
    PushProjectionThroughUnion,
    PushDownPredicates,
    ColumnPruning,
    CollapseProject,
    CombineFilters,
    RemoveNoopOperators))

  def of(
      source: LogicalPlan,
      output: Seq[Attribute],
      project: Seq[NamedExpression],
      filters: Seq[Expression]): LogicalPlan = {
    val renamed = Project(
      output.zip(source.output).map { case (want, have) =>
        Alias(have, want.name)(exprId = want.exprId, qualifier = want.qualifier, explicitMetadata = Some(want.metadata))
      },
      source)
    val filtered = filters.reduceOption(And).fold[LogicalPlan](renamed)(Filter(_, renamed))
    PushDown.exact(execute(Project(project, filtered)))
  }
}

/** Marks a Paimon read, so that EXPLAIN can show what was pruned. It can be grouped by `buckets`, in each of which the
  * rows are then `sorted`. */
case class PaimonRead(info: String, buckets: Option[BucketPartitioning], sorted: Seq[SortOrder], child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** Passes its child's rows through; in EXPLAIN it shows snapshot, partitions and files. `buckets` is how the tasks are
  * partitioned if they are `grouped` by bucket, which `GroupReads` decides; only then they are `sorted`. */
case class PaimonScanExec(
    info: String,
    buckets: Option[BucketPartitioning],
    sorted: Seq[SortOrder],
    grouped: Boolean,
    child: SparkPlan) extends UnaryExecNode with CodegenSupport {

  /** The partitioning that operators may rely on; `GroupReads` later decides whether they do. */
  def claimed: Option[BucketPartitioning] = if (grouped) None else buckets.filter(_ => BucketTasks.canGroup(child))
  def ungrouped: PaimonScanExec = copy(buckets = None, sorted = Nil)

  /** The same read with one task for each bucket. An operator above may rely on it: another plan would be wrong. */
  def groupedByBucket: PaimonScanExec =
    if (BucketTasks.canGroup(child)) copy(grouped = true, child = BucketTasks.grouped(child, buckets.get.numPartitions))
    else
      throw SparkException.internalError("A read cannot be grouped by bucket, because another extension has replaced " +
        s"operators of its plan. Set ${SQLConf.V2_BUCKETING_ENABLED.key}=false.\n$child")

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning =
    (if (grouped) buckets else claimed).getOrElse(child.outputPartitioning)
  override def outputOrdering: Seq[SortOrder] = if (grouped) sorted else child.outputOrdering
  override def nodeName: String = "PaimonScan"
  override def simpleString(maxFields: Int): String = s"PaimonScan $shown"
  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\nRead: $shown\n"
  private def shown: String = if (!outputPartitioning.isInstanceOf[BucketPartitioning]) info
  else s"$info, a task for each bucket" + (if (sorted.isEmpty) "" else ", sorted")
  override protected def doPrepare(): Unit =
    if (buckets.isDefined && !grouped)
      throw SparkException.internalError("It is not decided how a read is partitioned.")
  override protected def doExecute(): RDD[InternalRow] = PushDown.withWholeCalendar(conf)(child.execute())
  override def inputRDDs(): Seq[RDD[InternalRow]] =
    PushDown.withWholeCalendar(conf)(child.asInstanceOf[CodegenSupport].inputRDDs())
  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)
  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = consume(ctx, input)
  override def usedInputs: AttributeSet = AttributeSet.empty
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** An INSERT: the engine runs the query and commits its rows. EXPLAIN shows the target, the kind of write and the
  * query. */
case class PaimonInsertExec(owner: SparkSession, write: PaimonWrite, relation: DataSourceV2Relation, query: LogicalPlan)
    extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override def nodeName: String = "PaimonInsert"
  override def simpleString(maxFields: Int): String = s"PaimonInsert ${write.description()}"
  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\nWrite: ${write.description()}\n"
  override def innerChildren: Seq[QueryPlan[_]] = Seq(query)
  override protected def run(): Seq[InternalRow] = {
    write.insert(Dataset.ofRows(owner, query))
    CachedRows.refresh(owner, relation)
    Nil
  }
}
