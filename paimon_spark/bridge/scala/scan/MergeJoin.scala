package org.apache.spark.sql.paimonbridge

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildSide}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** A merge join with a side that has unique keys in their order: the rows of the other, streamed side look theirs up in
  * the batches of Spark's scan, so that no row is sorted, buffered or copied. `positions` are the join keys in the
  * order of the unique ones. `settled`, called when it is decided how the reads are partitioned, replaces the join
  * by Spark's own if another extension has changed the plan of that side. */
case class PaimonMergeJoinExec(
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    joinType: JoinType,
    condition: Option[Expression],
    lookup: BuildSide,
    positions: Seq[Int],
    order: StreamedOrder.Value,
    left: SparkPlan,
    right: SparkPlan) extends ShuffledJoin {
  override def isSkewJoin: Boolean = false
  override def nodeName: String = "PaimonMergeJoin"
  override def stringArgs: Iterator[Any] = Iterator(leftKeys, rightKeys, joinType) ++ condition
  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))

  private def sides[T](left: T, right: T): (T, T) = if (lookup == BuildLeft) (left, right) else (right, left)
  private def lookupPlan: SparkPlan = sides(left, right)._1
  private def streamed: SparkPlan = sides(left, right)._2
  private def streamedKeys: Seq[Expression] = positions.map(sides(leftKeys, rightKeys)._2)

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = {
    val wanted = if (order == StreamedOrder.ToSort) streamedKeys.map(SortOrder(_, Ascending)) else Nil
    if (lookup == BuildLeft) Seq(Nil, wanted) else Seq(wanted, Nil)
  }

  /** Nothing is promised as long as Spark plans: the streamed rows may come in several runs. */
  override def outputOrdering: Seq[SortOrder] = if (isSettled) streamed.outputOrdering else Nil

  def isSettled: Boolean = found.isDefined

  def settled: SparkPlan = SortedBatchesExec.of(lookupPlan) match {
    case Some(batches) if isStreamedAsPlanned && (order != StreamedOrder.Runs || !batches.readsPlaces) =>
      val rows = if (MergeJoinRows.haveOneInput(streamed)) streamed else MergeJoinRows(streamed)
      if (lookup == BuildLeft) copy(left = batches, right = rows) else copy(left = rows, right = batches)
    case _ =>
      SortMergeJoinExec(leftKeys, rightKeys, joinType, condition, sorted(left, leftKeys), sorted(right, rightKeys))
  }

  private def isStreamedAsPlanned: Boolean = order == StreamedOrder.ToSort || (streamed match {
    case read: PaimonScanExec => read.grouped
    case _ => false
  })

  private def sorted(side: SparkPlan, keys: Seq[Expression]): SparkPlan = {
    val wanted = keys.map(SortOrder(_, Ascending))
    if (SortOrder.orderingSatisfies(side.outputOrdering, wanted)) side else SortExec(wanted, global = false, side)
  }

  /** The batches of the side with unique keys. */
  private def found: Option[SortedBatchesExec] = lookupPlan match {
    case InputAdapter(batches: SortedBatchesExec) => Some(batches)
    case batches: SortedBatchesExec => Some(batches)
    case _ => None
  }
  private def source: SortedBatchesExec =
    found.getOrElse(throw SparkException.internalError(s"It is not decided how a join is executed.\n$this"))

  private def lookups: KeyLookups = {
    val keys = positions.map(sides(leftKeys, rightKeys)._1).map(source.stored)
    val ordinals = keys.map(key => source.child.output.indexWhere(_.semanticEquals(key)))
    KeyLookups(DataTypeUtils.fromAttributes(source.child.output), ordinals, keep = order == StreamedOrder.Runs)
  }

  /** What a found row has to satisfy, over the streamed and the stored columns. */
  private def test: Option[Expression] = {
    val equal =
      leftKeys.zip(rightKeys).zipWithIndex.collect { case ((l, r), i) if !positions.contains(i) => EqualTo(l, r) }
    (source.filters ++ (equal ++ condition).map(source.stored)).reduceOption(And)
  }

  // Execution without generated code

  override protected def doExecute(): RDD[InternalRow] = {
    val (open, keys, kind) = (lookups, streamedKeys, joinType)
    val (rows, stored, project, wanted) = (streamed.output, source.child.output, source.project, test)
    val (from, out, lookupFirst) = (sides(left, right)._1.output, output, lookup == BuildLeft)
    val counter = longMetric("numOutputRows")
    streamed.execute().zipPartitions(lookupPlan.execute()) { (given, batches) =>
      val found = open.open(batches)
      val key = UnsafeProjection.create(keys, rows)
      val passes = wanted.map(Predicate.create(_, rows ++ stored))
      val pair = new JoinedRow
      def matches(row: InternalRow): Boolean = {
        val k = key(row)
        !k.anyNull && found.seek(k) && passes.forall(_.eval(pair(row, found.found)))
      }
      val columns = UnsafeProjection.create(project, stored)
      val none = new GenericInternalRow(from.length)
      val result = UnsafeProjection.create(out, if (lookupFirst) from ++ rows else rows ++ from)
      val joined = new JoinedRow
      def emit(row: InternalRow, other: InternalRow): InternalRow =
        result(if (lookupFirst) joined(other, row) else joined(row, other))
      val emitted = kind match {
        case LeftSemi => given.filter(matches)
        case LeftAnti => given.filterNot(matches)
        case _: InnerLike => given.filter(matches).map(row => emit(row, columns(found.found)))
        case _ => given.map(row => emit(row, if (matches(row)) columns(found.found) else none))
      }
      emitted.map { row => counter += 1; row }
    }
  }

  // Generated code: streamed rows are pushed, as by a broadcast join

  /** Spark tests the join's own expressions only; those of the looked up side are evaluated here, too. */
  override def supportCodegen: Boolean = found.forall(batches =>
    !(batches.project ++ batches.filters).exists(_.exists {
      case _: LeafExpression => false
      case e => e.isInstanceOf[CodegenFallback]
    }))

  override def inputRDDs(): Seq[RDD[InternalRow]] =
    streamed.asInstanceOf[CodegenSupport].inputRDDs() :+ lookupPlan.execute()

  override def needCopyResult: Boolean = streamed.asInstanceOf[CodegenSupport].needCopyResult

  override protected def doProduce(ctx: CodegenContext): String =
    streamed.asInstanceOf[CodegenSupport].produce(ctx, this)

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val opener = ctx.addReferenceObj("lookups", lookups)
    val kind = if (lookups.isLong) classOf[LongLookup].getName else classOf[KeyLookup].getName
    val at = ctx.addMutableState(kind, "lookup", v => s"$v = ($kind) $opener.open(inputs[1]);", forceInline = true)
    val matched = ctx.freshName("matched")
    val (before, condition) = keyTest(ctx, input, at)
    val prepared = s"""
      $before
      boolean $matched = $condition;
      ${test.fold("")(t => s"if ($matched) { ${passed(ctx, input, at, t, matched)} }")}"""
    val count = s"${metricTerm(ctx, "numOutputRows")}.add(1);"
    joinType match {
      case LeftSemi => s"$prepared if ($matched) { $count ${consume(ctx, input)} }"
      case LeftAnti => s"$prepared if (!$matched) { $count ${consume(ctx, input)} }"
      case _: InnerLike =>
        val (code, columns) = columnsOf(ctx, at)
        s"$prepared if ($matched) { $code $count ${consume(ctx, combined(input, columns))} }"
      case _ =>
        val (code, columns) = columnsIf(ctx, at, matched)
        s"$prepared $code $count ${consume(ctx, combined(input, columns))}"
    }
  }

  private def combined(input: Seq[ExprCode], columns: Seq[ExprCode]): Seq[ExprCode] =
    if (lookup == BuildLeft) columns ++ input else input ++ columns

  /** Code, and the condition that the key of a streamed row is found. */
  private def keyTest(ctx: CodegenContext, input: Seq[ExprCode], at: String): (String, String) = {
    ctx.INPUT_ROW = null
    ctx.currentVars = input
    val keys = BindReferences.bindReferences(streamedKeys, streamed.output)
    if (lookups.isLong) {
      val key = keys.head.genCode(ctx)
      (key.code.toString, s"!${key.isNull} && $at.seek((long) ${key.value})")
    } else {
      val key = GenerateUnsafeProjection.createCode(ctx, keys)
      (key.code.toString, s"!${key.value}.anyNull() && $at.seek(${key.value})")
    }
  }

  private def passed(
      ctx: CodegenContext,
      input: Seq[ExprCode],
      at: String,
      test: Expression,
      matched: String): String = {
    val vars = storedColumns(ctx, at)
    val code = evaluateRequiredVariables(source.child.output, vars, test.references)
    ctx.INPUT_ROW = null
    ctx.currentVars = input ++ vars
    val ev = BindReferences.bindReference(test, AttributeSeq(streamed.output ++ source.child.output)).genCode(ctx)
    s"$code ${ev.code} $matched = !${ev.isNull} && ${ev.value};"
  }

  /** The stored columns of the found row. */
  private def storedColumns(ctx: CodegenContext, at: String): Seq[ExprCode] =
    source.child.output.zipWithIndex.map { case (column, i) =>
      val (none, value) =
        (JavaCode.isNullVariable(ctx.freshName("isNull")), JavaCode.variable(ctx.freshName("value"), column.dataType))
      val (javaType, vector) = (CodeGenerator.javaType(column.dataType), s"$at.column($i)")
      val read = CodeGenerator.getValueFromVector(vector, column.dataType, s"$at.row()")
      val code = if (column.nullable) s"""
        boolean $none = $vector.isNullAt($at.row());
        $javaType $value = $none ? ${CodeGenerator.defaultValue(column.dataType)} : ($read);"""
      else s"$javaType $value = $read;"
      ExprCode(CodeBlock(Seq(code), Nil), if (column.nullable) none else FalseLiteral, value)
    }

  /** Code, and the columns of the side with unique keys in a found row. */
  private def columnsOf(ctx: CodegenContext, at: String): (String, Seq[ExprCode]) = {
    val vars = storedColumns(ctx, at)
    val project = source.project
    val code = evaluateRequiredVariables(source.child.output, vars, AttributeSet(project.flatMap(_.references)))
    ctx.INPUT_ROW = null
    ctx.currentVars = vars
    (code, BindReferences.bindReferences[Expression](project, source.child.output).map(_.genCode(ctx)))
  }

  /** The same if a row is found, else nulls. */
  private def columnsIf(ctx: CodegenContext, at: String, matched: String): (String, Seq[ExprCode]) = {
    val (code, columns) = columnsOf(ctx, at)
    val vars = source.project.zip(columns).map { case (e, column) =>
      val (none, value) = (ctx.freshName("isNull"), ctx.freshName("value"))
      val declared = s"boolean $none = true; ${CodeGenerator.javaType(e.dataType)} $value = " +
        s"${CodeGenerator.defaultValue(e.dataType)};"
      val set = s"${column.code} $none = ${column.isNull}; $value = ${column.value};"
      (declared, set, ExprCode(JavaCode.isNullVariable(none), JavaCode.variable(value, e.dataType)))
    }
    (s"${vars.map(_._1).mkString("\n")} if ($matched) { $code ${vars.map(_._2).mkString("\n")} }", vars.map(_._3))
  }

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): PaimonMergeJoinExec =
    copy(left = newLeft, right = newRight)
}

/** Ends the generated code below a join: the code of a stage has at most two inputs, and one is the looked up side. */
case class MergeJoinRows(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def nodeName: String = "PaimonRows"
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object MergeJoinRows {

  /** Whether the generated code of a plan has one input. */
  def haveOneInput(plan: SparkPlan): Boolean = plan match {
    case _: BroadcastHashJoinExec | _: BroadcastNestedLoopJoinExec => plan.children.forall(haveOneInput)
    case generated: CodegenSupport if generated.supportCodegen =>
      plan.children.length <= 1 && plan.children.forall(haveOneInput)
    case _ => true
  }
}

/** The batches of a scan whose rows are in the order of unique keys, for the join above, which applies the filters and
  * the projection to found rows only. */
case class SortedBatchesExec(
    shown: String,
    partitioning: Partitioning,
    project: Seq[NamedExpression],
    filters: Seq[Expression],
    child: SparkPlan) extends UnaryExecNode with ColumnarToRowTransition with AliasHelper {
  override def output: Seq[Attribute] = project.map(_.toAttribute)
  override def producedAttributes: AttributeSet = outputSet
  override def outputPartitioning: Partitioning = partitioning
  override def nodeName: String = "PaimonScan"
  override def simpleString(maxFields: Int): String = shown + filters.reduceOption(And).fold("")(f => s", filter=$f")
  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\nRead: ${simpleString(0)}\n"

  /** Whether the batches have the file and the position of each row: too much to keep them in memory. */
  def readsPlaces: Boolean = filters.exists(_.exists(_.isInstanceOf[NotSupersededTest]))

  /** An expression over the columns of the scan. */
  def stored(e: Expression): Expression = replaceAlias(e, getAliasMap(project))

  /** The batches, which only the join above can take. */
  override protected def doExecute(): RDD[InternalRow] =
    PushDown.withWholeCalendar(conf)(child.executeColumnar().asInstanceOf[RDD[InternalRow]])
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object SortedBatchesExec extends AliasHelper {

  /** The batches of a read; None if they do not have its rows. */
  def of(plan: SparkPlan): Option[SortedBatchesExec] = plan match {
    case read: PaimonScanExec if read.grouped && read.sorted.nonEmpty =>
      collapsed(read.child).filter { case (project, filters, _) => (project ++ filters).forall(LocalRead.isPlain) }
        .map { case (project, filters, files) =>
          SortedBatchesExec(read.simpleString(0), read.outputPartitioning, project, filters, files)
        }
    case _ => None
  }

  private def collapsed(plan: SparkPlan): Option[(Seq[NamedExpression], Seq[Expression], SparkPlan)] = plan match {
    case files: BucketFilesExec if files.supportsColumnar => Some((files.output, Nil, files))
    case ProjectExec(project, child) => collapsed(child).map { case (below, filters, files) =>
        (project.map(replaceAliasButKeepName(_, getAliasMap(below))), filters, files)
      }
    case FilterExec(condition, child) => collapsed(child).map { case (below, filters, files) =>
        (below, filters :+ replaceAlias(condition, getAliasMap(below)), files)
      }
    case _ => None
  }
}
