package org.apache.spark.sql.paimonbridge

import org.roaringbitmap.longlong.Roaring64Bitmap

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.objects.{AssertNotNull, StaticInvoke}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** MERGE INTO as one join. The source is evaluated once, and so is every clause. */
class MergeIntoRows(
    target: Target,
    source: LogicalPlan,
    on: Expression,
    matched: Seq[MergeAction],
    notMatched: Seq[MergeAction],
    notMatchedBySource: Seq[MergeAction],
    forced: Boolean = false)
    extends RowStatement(target, "MERGE", forced) {
  private val actions = matched ++ notMatched ++ notMatchedBySource
  override protected def rewriting: RowStatement =
    new MergeIntoRows(target, source, on, matched, notMatched, notMatchedBySource, forced = true)
  override protected def changeKinds: Seq[String] =
    if (onlyInserts) Nil else if (actions.exists(_.isInstanceOf[DeleteAction])) Seq("MERGE", "DELETE") else Seq("MERGE")
  override protected def onlyDeletes: Boolean = actions.forall(_.isInstanceOf[DeleteAction])
  override protected def deletes: Boolean = actions.exists(_.isInstanceOf[DeleteAction])
  override protected def updates: Seq[Seq[Assignment]] = actions.collect { case u: UpdateAction => u.assignments }
  override protected def onlyInserts: Boolean = matched.isEmpty && notMatchedBySource.isEmpty

  override def validate(): Unit = {
    Target.refuse(
      (on +: actions.flatMap(_.condition)).exists(SubqueryExpression.hasSubquery),
      "A subquery in a condition of MERGE INTO",
      "Join it into the source instead.")
    matched.foreach { case u: UpdateAction if keyed && !keepsKey(u.assignments) => refuseKeyUpdate(); case _ => }
    notMatchedBySource.foreach { case u: UpdateAction if setsKey(u.assignments) => refuseKeyUpdate(); case _ => }
  }

  override protected def description: String = {
    val clauses = Seq("MATCHED" -> matched, "NOT MATCHED" -> notMatched, "NOT MATCHED BY SOURCE" -> notMatchedBySource)
    val all = clauses.flatMap { case (when, actions) =>
      actions.map(a => s" WHEN $when${where(a.condition, "AND")} THEN ${description(a)}")
    }
    s"MERGE INTO ${table.name} ON ${text(on)}${all.mkString}"
  }

  private def description(action: MergeAction): String = action match {
    case u: UpdateAction => s"UPDATE SET ${sets(u.assignments)}"
    case i: InsertAction => s"INSERT (${columns.map(_.name).mkString(", ")}) VALUES (" +
        s"${Target.values(i.assignments).map(text).mkString(", ")})"
    case _ => "DELETE"
  }

  /** What is equal by ON. */
  private lazy val equal: Seq[(Expression, Expression)] = ConjunctiveParts(on).collect {
    case EqualTo(l, r) => Seq(l -> r, r -> l)
    case EqualNullSafe(l, r) => Seq(l -> r, r -> l)
  }.flatten

  private def isEqual(a: Attribute, value: Expression): Boolean = {
    def same(e: Expression) = bare(e, a.dataType)
    val given = same(value)
    given.semanticEquals(a) || equal.exists { case (l, r) =>
      same(l).semanticEquals(a) && same(r).semanticEquals(given)
    }
  }

  /** Whether every key column is assigned itself, or what it equals by ON. */
  private def keepsKey(assignments: Seq[Assignment]): Boolean =
    columns.zip(Target.values(assignments)).filter { case (a, _) => isKey(a) }.forall { case (a, v) => isEqual(a, v) }

  /** The assignments with the stored key. What equals it by ON may have other bytes: -0.0 equals 0.0. */
  private def underStoredKey(assignments: Seq[Assignment]): Seq[Assignment] =
    columns.zip(assignments).map { case (a, given) => if (isKey(a)) given.copy(value = a) else given }

  override protected def keeps(a: Attribute, value: Expression): Boolean =
    super.keeps(a, value) || (table.partitionKeys.contains(a.name) && isEqual(a, value))

  /** A value without checks, casts that keep all of it, and the cast of an assignment to a column of the type `to`.
    * Others change it: `CAST(ts AS DATE) = s.d` says nothing about the time of day. */
  private def bare(e: Expression, to: DataType): Expression = e match {
    case c: Cast if c.dataType == to || Cast.canUpCast(c.child.dataType, c.dataType) => bare(c.child, to)
    case c: CheckOverflowInTableInsert => bare(c.child, to)
    case c: AssertNotNull => bare(c.child, to)
    case c: StaticInvoke if c.staticObject == classOf[CharVarcharCodegenUtils] => bare(c.arguments.head, to)
    case other => other
  }

  /** The statement, and how its source becomes unique, in the error for a row that matches several rows of it. */
  protected def statement: String = s"MERGE INTO ${table.name}"
  protected def remedy: String = "Make the source unique in the columns of ON, for example with GROUP BY."

  /** Several source rows for one target row would make the result ambiguous, except for a plain DELETE. */
  private val checked: Boolean = matched match {
    case Seq() => false
    case Seq(DeleteAction(None)) => false
    case _ => true
  }

  /** Runs `body` with changed settings. A separate session would start Python workers that are never reused. */
  override protected def execute(session: ClassicSession): Unit = {
    val own = session.sessionState.conf.clone()
    // A skew join would repeat target rows in several tasks, which hides that they match more than once.
    own.setConf(SQLConf.SKEW_JOIN_ENABLED, false)
    SQLConf.withExistingConf(own) {
      write(session, changed)
    }
  }

  /** The rows that the statement writes. */
  protected def changed: LogicalPlan = if (onlyInserts) insertsOnly else merged

  private def insertsOnly: LogicalPlan = {
    val missing = Join(source, rows, LeftAnti, Some(on), JoinHint.NONE)
    val noPlaces = if (!placed) Nil else rows.output.drop(columns.size)
    val padded =
      Project(source.output ++ noPlaces.map(a => Alias(Literal.create(null, a.dataType), a.name)(a.exprId)), missing)
    chosen(padded, notMatched.map(Literal.TrueLiteral -> _))
  }

  private def merged: LogicalPlan = {
    val inTarget = Alias(Literal.TrueLiteral, "_in_target_")()
    val inSource = Alias(Literal.TrueLiteral, "_in_source_")()
    val number = Alias(MonotonicallyIncreasingID(), "_row_")()
    val left = Project(rows.output ++ (inTarget +: (if (checked) Seq(number) else Nil)), candidates)
    val right = Project(source.output :+ inSource, source)
    val whole = if (checked) JoinHint(Some(HintInfo(Some(NO_BROADCAST_AND_REPLICATION))), None) else JoinHint.NONE
    val joined = Join(left, right, joinType, Some(on), whole)
    val (here, there) = (IsNotNull(inTarget.toAttribute), IsNotNull(inSource.toAttribute))
    val both = And(here, there)
    val once =
      if (!checked) joined
      else Filter(MatchedOnce(If(both, number.toAttribute, Literal.create(null, LongType)), statement, remedy), joined)
    chosen(
      once,
      matched.map(both -> _) ++ notMatched.map(And(Not(here), there) -> _) ++
        notMatchedBySource.map(And(here, Not(there)) -> _))
  }

  /** Target rows that satisfy the conditions of ON over the target alone; all rows if unmatched rows count too. */
  protected def candidates: LogicalPlan = {
    val own = if (notMatchedBySource.nonEmpty) Nil
    else ConjunctiveParts(on).filter(c =>
      c.references.nonEmpty && c.references.subsetOf(AttributeSet(columns)) && c.deterministic)
    own.reduceOption(And).fold[LogicalPlan](rows)(Filter(_, rows))
  }

  private def joinType: JoinType = (notMatched.nonEmpty, notMatchedBySource.nonEmpty) match {
    case (true, true) => FullOuter
    case (false, true) => LeftOuter
    case (true, false) => RightOuter
    case (false, false) => Inner
  }

  /** Assigns to every row the first clause that applies to it, and drops the rows that no clause applies to. */
  private def chosen(child: LogicalPlan, clauses: Seq[(Expression, MergeAction)]): LogicalPlan = {
    val branches = clauses.zipWithIndex.map { case ((where, action), i) =>
      action.condition.fold(where)(And(where, _)) -> Literal(i)
    }
    val clause = Alias(CaseWhen(branches, Some(Literal.create(null, IntegerType))), "_clause_")()
    val picked = Filter(IsNotNull(clause.toAttribute), Project(child.output :+ clause, child))
    val images = clauses.map(_._2).map {
      case u: UpdateAction => updated(if (keyed) underStoredKey(u.assignments) else u.assignments)
      case i: InsertAction => inserted(i.assignments)
      case _: DeleteAction => Seq(removed)
      case other => throw new IllegalStateException(s"${other.getClass.getSimpleName} was not resolved")
    }
    changes(images, Some(clause.toAttribute), picked)
  }
}

/** True for every number that this task has not seen yet and for null; a number seen twice is an error. */
case class MatchedOnce(child: Expression, statement: String, remedy: String) extends UnaryExpression
    with Nondeterministic
    with CodegenFallback {
  @transient private var seen: Roaring64Bitmap = _

  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def stateful: Boolean = true
  override def prettyName: String = "paimon_matched_once"
  override protected def initializeInternal(partitionIndex: Int): Unit = seen = new Roaring64Bitmap

  override protected def evalInternal(input: InternalRow): Any = {
    val number = child.eval(input)
    if (number != null) {
      val row = number.asInstanceOf[Long]
      if (seen.contains(row)) throw new TaskFailed(
        s"[MERGE_CARDINALITY_VIOLATION] $statement found a row that matches several rows of the source. $remedy",
        "MERGE_CARDINALITY_VIOLATION",
        "UsageError")
      seen.addLong(row)
    }
    true
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
