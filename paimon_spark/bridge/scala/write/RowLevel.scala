package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, ResolveRowLevelCommandAssignments}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{SupportsRowLevelOperations, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.filter.{Predicate => Filtering}
import org.apache.spark.sql.connector.write.{RowLevelOperationBuilder, RowLevelOperationInfo}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2Strategy}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** DELETE, UPDATE, MERGE INTO, and overwrites of rows on Paimon tables become one command each, once they are fully
  * analysed. */
case class RowLevelRule(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case d: DeleteFromTable if d.resolved =>
      Target.of(d.table).fold[LogicalPlan](d) { t =>
        RowLevelChecks(d)
        command(new DeleteRows(t, d.condition))
      }
    case given: UpdateTable =>
      val u = Target.named(given, given.table)
      Target.of(u.table).filter(_ => u.resolved).fold[LogicalPlan](u) { t =>
        RowLevelChecks(u)
        t.refuseOthers(u.assignments, "UPDATE")
        val aligned = t.aligned(on => u.copy(table = on))
        command(new UpdateRows(t, aligned.assignments, u.condition))
      }
    case given: MergeIntoTable =>
      val m = Target.named(given, given.targetTable)
      Target.of(m.targetTable).filter(_ => m.resolved).fold[LogicalPlan](m) { t =>
        RowLevelChecks(m)
        Target.refuse(m.withSchemaEvolution, "MERGE WITH SCHEMA EVOLUTION", "Add the columns with ALTER TABLE first.")
        (m.matchedActions ++ m.notMatchedActions ++ m.notMatchedBySourceActions).foreach {
          case action: UpdateAction => t.refuseOthers(action.assignments, "MERGE")
          case action: InsertAction => t.refuseOthers(action.assignments, "MERGE")
          case _ =>
        }
        val aligned = t.aligned(on => m.copy(targetTable = on))
        command(new MergeIntoRows(
          t,
          m.sourceTable,
          m.mergeCondition,
          aligned.matchedActions,
          aligned.notMatchedActions,
          aligned.notMatchedBySourceActions))
      }
    case o: OverwriteByExpression if o.resolved && o.write.isEmpty => replaced(o)
  }

  private def replaced(o: OverwriteByExpression): LogicalPlan =
    Target.written(o.table, o.writeOptions).fold[LogicalPlan](o) { t =>
      RowLevelChecks(o)
      t.ofPartitions(session.asInstanceOf[ClassicSession], o.deleteExpr) match {
        case Some((simple, _)) => o.copy(deleteExpr = simple)
        case None => command(ReplaceRows(t, o.deleteExpr, o.query))
      }
    }

  private def command(statement: RowStatement): PaimonRowCommand = {
    statement.validate()
    PaimonRowCommand(statement)
  }
}

/** The table that a statement changes. Spark may have put a projection over it that pads CHAR columns, and metadata
  * columns that its conditions name behind its own. */
class Target(
    val relation: DataSourceV2Relation,
    selected: Seq[NamedExpression],
    given: Option[Map[String, String]] = None) {
  val table: PaimonTable = relation.table.asInstanceOf[PaimonTable]
  private val own = table.schema.length

  /** The options of the statement. */
  def options: Map[String, String] = given.getOrElse(relation.options.asCaseSensitiveMap().asScala.toMap)
  val columns: Seq[AttributeReference] =
    relation.output.zip(selected).take(own).map { case (a, n) => a.withExprId(n.exprId) }

  /** The table's rows, with their positions after the columns if requested. They are read even if Spark has cached
    * the table: a statement does not write back values that another program has replaced since. */
  def rows(placed: Boolean): LogicalPlan = {
    val read = relation.copy(table = table.uncached)
    val whole = if (placed) read.withMetadataColumns() else read
    if (selected eq relation.output) whole else Project(selected.take(own) ++ whole.output.drop(own), whole)
  }

  /** Refuses values for metadata columns, which Spark would leave out. */
  def refuseOthers(assignments: Seq[Assignment], operation: String): Unit =
    assignments.flatMap(_.key.references).find(a => !columns.exists(_.exprId == a.exprId)).foreach { a =>
      throw new PaimonException(
        s"[INVALID_ARGUMENT] $operation cannot set ${a.name}, which is no column of table " +
          s"${relation.table.name}. It has ${columns.map(_.name).mkString(", ")}.",
        "INVALID_ARGUMENT")
    }

  /** A condition over partitions alone: simplified, and as filters. */
  def ofPartitions(session: ClassicSession, condition: Expression): Option[(Expression, Array[Filtering])] = {
    val all = Some(Literal.TrueLiteral -> Array.empty[Filtering])
    def filters(simple: Expression): Option[(Expression, Array[Filtering])] = {
      val found = ConjunctiveParts(simple).map(DataSourceV2Strategy.translateFilterV2)
      if (found.forall(_.isDefined)) Some(simple -> found.flatten.toArray).filter(f => table.selectsPartitions(f._2))
      else None
    }
    if (condition == Literal.TrueLiteral) all
    else if (SubqueryExpression.hasSubquery(condition) || !condition.deterministic ||
      !condition.references.subsetOf(AttributeSet(columns))) None
    else session.sessionState.optimizer.execute(Filter(condition, PlaceholderRelation(columns))) match {
      case _: PlaceholderRelation => all
      case Filter(simple, _: PlaceholderRelation) => filters(simple)
      case _ => None
    }
  }

  /** The statement with assignments that are complete, in order, cast and checked: Spark aligns those to `standIn`. */
  def aligned[T <: LogicalPlan](on: DataSourceV2Relation => T): T = {
    val standIn = relation.copy(table = new AlignedTable(relation.table), output = columns)
    ResolveRowLevelCommandAssignments(on(standIn)).asInstanceOf[T]
  }
}

object Target {
  def of(plan: LogicalPlan): Option[Target] = EliminateSubqueryAliases(plan) match {
    case r: DataSourceV2Relation if ours(r) => Some(new Target(r, r.output))
    case Project(list, r: DataSourceV2Relation) if ours(r) && list.map(_.name) == r.output.map(_.name) =>
      Some(new Target(r, list))
    case _ => None
  }

  /** A statement on `table`, with the members of assigned structs by name. */
  def named[T <: LogicalPlan](statement: T, table: LogicalPlan): T =
    of(table).fold(statement)(t => MembersByName(statement, t.table.name))

  /** The table of a statement that has options of its own, which concern only the rows that it writes. */
  def written(plan: LogicalPlan, options: Map[String, String]): Option[Target] = of(plan).map { t =>
    val read = t.relation.copy(options = CaseInsensitiveStringMap.empty())
    new Target(read, read.output, Some(t.options ++ options))
  }

  private def ours(r: DataSourceV2Relation): Boolean = r.table match {
    case t: PaimonTable => t.isData
    case _ => false
  }

  def refuse(when: Boolean, what: String, hint: String): Unit =
    if (when) throw new PaimonException(s"[UNSUPPORTED_FEATURE] $what is not supported. $hint", "UNSUPPORTED_FEATURE")

  /** The assigned values, one for each column, without the names that alignment gives them. */
  def values(assignments: Seq[Assignment]): Seq[Expression] =
    assignments.map(_.value.transform { case named: Alias => named.child })
}

/** Stands in for a table only while assignments are aligned; Spark would rewrite the statement by itself otherwise. */
private class AlignedTable(table: Table) extends Table with SupportsRowLevelOperations {
  override def name(): String = table.name()
  override def schema(): StructType = table.asInstanceOf[PaimonTable].schema
  override def capabilities(): java.util.Set[TableCapability] = table.capabilities()
  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder =
    throw new UnsupportedOperationException(s"${table.name()} is read-only here")
}

/** Runs one statement. Its expressions are hidden in a plain object: Spark's checks would refuse subqueries there. */
case class PaimonRowCommand(statement: RowStatement) extends LeafRunnableCommand {
  override def output: Seq[Attribute] = Nil
  override def simpleString(maxFields: Int): String = s"Paimon $statement"

  override def run(given: SparkSession): Seq[Row] = {
    val session = given.asInstanceOf[ClassicSession]
    statement.run(session)
    CachedRows.refresh(session, statement.target.relation)
    Nil
  }
}

/** The effect of a clause on a row: the new values, the row kind, and whether the row is in the table already. */
case class RowChange(values: Seq[Expression], kind: Byte, present: Boolean)

object RowChange {
  val Insert: Byte = 0
  val Update: Byte = 2
  val Delete: Byte = 3

  /** `ROW_KIND` of `paimon_spark.core.columns`, which no column of a table can be called. */
  val KindColumn = "_KEY__row_kind_"
}

/** One statement on one table. Tables with a primary key get rows with kinds; other tables get the positions of the
  * rows, and so do statements that only delete, if they write deletion vectors, and those that rewrite files.
  *
  * @param forced whether files are rewritten although the merge engine can execute most such statements */
abstract class RowStatement(val target: Target, operation: String, forced: Boolean) {
  protected val table: PaimonTable = target.table
  protected val columns: Seq[Attribute] = target.columns
  protected val keyed: Boolean = table.primaryKeys.nonEmpty

  /** The new values of each clause that updates rows. */
  protected def updates: Seq[Seq[Assignment]] = Nil
  protected def deletes: Boolean = onlyDeletes

  /** Whether the statement has the same effect if it runs again. */
  protected def repeatable: Boolean = false
  private lazy val changed: Set[String] = updates.flatMap(u =>
    columns.zip(Target.values(u)).collect { case (a, v) if !keeps(a, v) => a.name }).toSet

  /** Whether a column has the assigned value already. */
  protected def keeps(a: Attribute, value: Expression): Boolean = value.semanticEquals(a)

  /** Whether the statement does nothing but delete. */
  protected def onlyDeletes: Boolean = false

  /** The kinds of its changes of rows, by which the merge engine decides whether their files are rewritten. */
  protected def changeKinds: Seq[String] = Seq(operation)

  /** Whether the files of changed rows of a table with a primary key are rewritten. */
  protected lazy val rewrites: Boolean = keyed && (forced || changeKinds.exists(table.rewrites))
  protected lazy val placed: Boolean = !keyed || rewrites || (onlyDeletes && table.marksDeletes)

  /** Whether a changed row does not depend on what it was, so that the merge engine cannot merge both. */
  protected def replaces: Boolean = false

  /** The checks of rows that are merged. */
  protected def checks: Option[PartialUpdates] = if (rewrites) None else table.partialUpdates

  /** The same statement, rewriting files. */
  protected def rewriting: RowStatement

  /** Whether no row that the statement writes was in the table before. */
  protected def onlyInserts: Boolean = false
  private val routing = table.routingKeys.map(_.toLowerCase).toSet

  /** The table's rows, with file and position if the statement names them. */
  protected lazy val rows: LogicalPlan = target.rows(placed)
  private def place(name: String): Attribute = rows.output.drop(columns.size).find(_.name == name).get

  /** Rejects unsupported statements; called once, when the statement is analysed. */
  def validate(): Unit = ()

  /** Runs the statement. It runs again, and rewrites files, if merging would store another row than that of the
    * statement, or if another commit changed what it rewrote: whole key ranges, in which few of the changes concern its
    * rows, or whole row ranges with some of their columns. */
  def run(session: ClassicSession): Unit =
    run(session, if (rewrites) RowStatement.Attempts else if (repeatable) table.evolution.fold(1)(_._1) else 1)

  private def run(session: ClassicSession, left: Int): Unit =
    try execute(session)
    catch {
      case e: PaimonException if !rewrites && PartialUpdates.refused(e) => rewriting.run(session)
      case e: PaimonException if e.code == "COMMIT_CONFLICT" && left > 1 =>
        table.evolution.foreach { case (_, wait) => Thread.sleep(wait) }
        run(session, left - 1)
    }

  protected def execute(session: ClassicSession): Unit

  /** The analysed statement, for EXPLAIN. */
  protected def description: String
  override def toString: String = if (rewrites) s"$description (rewrites the files of these rows)" else description

  protected def where(condition: Option[Expression], word: String): String =
    condition.fold("")(c => s" $word ${text(c)}")

  protected def text(e: Expression): String = e.transform {
    case a: AttributeReference => a.withQualifier(a.qualifier.takeRight(1))
  }.sql

  /** The columns that get another value, with that value. */
  protected def sets(assignments: Seq[Assignment]): String =
    columns.zip(Target.values(assignments)).collect { case (a, v) if !v.semanticEquals(a) => s"${a.name} = ${text(v)}" }
      .mkString(", ")

  protected def removed: RowChange = {
    val kept = checks.fold(
      columns.map(a => if (keyed || routes(a)) a else Literal.create(null, a.dataType)): Seq[Expression])(_.removed(
      columns))
    RowChange(kept, RowChange.Delete, present = true)
  }

  private def routes(a: Attribute): Boolean = routing.contains(a.name.toLowerCase)

  /** The images of an update. A row of a bucketed table that may change its bucket is removed there and added here. */
  protected def updated(assignments: Seq[Assignment]): Seq[RowChange] = {
    val values = if (table.evolution.isEmpty) Target.values(assignments) else changedValues(assignments)
    val moves = !keyed && columns.zip(values).exists { case (a, v) => routes(a) && !v.semanticEquals(a) }
    if (moves) Seq(RowChange(values, RowChange.Insert, present = false), removed)
    else Seq(RowChange(values, RowChange.Update, present = true))
  }

  /** The values of the columns that the statement changes in some row; the others are not read. */
  private def changedValues(assignments: Seq[Assignment]): Seq[Expression] =
    columns.zip(Target.values(assignments)).map { case (a, v) =>
      if (changed(a.name)) v else Literal.create(null, a.dataType)
    }

  protected def inserted(assignments: Seq[Assignment]): Seq[RowChange] =
    Seq(RowChange(Target.values(assignments), RowChange.Insert, present = false))

  protected def setsKey(assignments: Seq[Assignment]): Boolean =
    columns.zip(Target.values(assignments)).exists { case (a, v) => isKey(a) && !v.semanticEquals(a) }

  protected def isKey(a: Attribute): Boolean = table.primaryKeys.contains(a.name)

  protected def refuseKeyUpdate(): Nothing = throw new PaimonException(
    s"[INVALID_ARGUMENT] $operation cannot change the primary key (${table.primaryKeys.mkString(", ")}) of table " +
      s"${table.name}. Leave the key as it is, or delete the row and insert it under the new key.",
    "INVALID_ARGUMENT")

  /** The rows to write: `choice` is the clause that applies to a row; with one clause there is none. */
  protected def changes(clauses: Seq[Seq[RowChange]], choice: Option[Attribute], child: LogicalPlan): LogicalPlan = {
    val width = clauses.map(_.size).max
    val projections = (0 until width).map(i => project(clauses.map(_.lift(i)), choice))
    val names = columns.map(_.name) ++ (RowChange.KindColumn +: (if (placed) MetadataColumns.All else Nil))
    val rows =
      if (width == 1) Project(projections.head.zip(names).map { case (e, n) => Alias(e, n)() }, child)
      else {
        val output = projections.head.zip(names).map { case (e, n) => AttributeReference(n, e.dataType)() }
        Expand(projections, output, child)
      }
    if (clauses.forall(_.size == width)) rows else Filter(IsNotNull(rows.output(columns.size)), rows)
  }

  private def project(images: Seq[Option[RowChange]], choice: Option[Attribute]): Seq[Expression] = {
    def chosen(dataType: DataType, of: RowChange => Expression): Expression = choice match {
      case None => images.head.map(of).get
      case Some(clause) =>
        CaseWhen(
          images.zipWithIndex.collect { case (Some(image), i) => EqualTo(clause, Literal(i)) -> of(image) },
          Some(Literal.create(null, dataType)))
    }
    val values = columns.zipWithIndex.map { case (a, i) => chosen(a.dataType, _.values(i)) }
    val kind = chosen(ByteType, image => Literal(image.kind))
    val places = if (!placed) Nil
    else MetadataColumns.All.map { name =>
      val attribute = place(name)
      chosen(attribute.dataType, image => if (image.present) attribute else Literal.create(null, attribute.dataType))
    }
    (values :+ kind) ++ places
  }

  protected def write(session: ClassicSession, plan: LogicalPlan): Unit =
    Engine.json(
      "change_rows",
      Map(
        "table" -> table.token,
        "operation" -> operation,
        "rewrites" -> rewrites,
        "only_new" -> onlyInserts,
        "columns" -> columns.map(_.name).filter(changed),
        "deletes" -> deletes,
        "replaces" -> replaces,
        "options" -> target.options),
      table.catalog,
      Seq(Dataset.ofRows(session, plan)),
      idempotent = false)
}

private object RowStatement {
  val Attempts = 5
}

class DeleteRows(target: Target, condition: Expression, forced: Boolean = false)
    extends RowStatement(target, "DELETE", forced) {
  override protected def onlyDeletes: Boolean = true
  override protected def rewriting: RowStatement = new DeleteRows(target, condition, forced = true)

  override protected def description: String = s"DELETE FROM ${table.name}${where(Some(condition), "WHERE")}"

  /** No row has to be read if the condition is a filter over partitions. */
  override protected def execute(session: ClassicSession): Unit = {
    val partitions = if (table.deletesRowByRow) None else target.ofPartitions(session, condition).map(_._2)
    partitions.fold(write(session, changes(Seq(Seq(removed)), None, Filter(condition, rows))))(table.deleteWhere)
  }
}

object ConjunctiveParts extends PredicateHelper {
  def apply(condition: Expression): Seq[Expression] = splitConjunctivePredicates(condition)
}

/** A table's rows, to simplify a condition over them without planning a scan. */
case class PlaceholderRelation(output: Seq[Attribute]) extends LeafNode {
  override def computeStats(): Statistics = Statistics(sizeInBytes = 1L << 30)
}

class UpdateRows(target: Target, assignments: Seq[Assignment], condition: Option[Expression], forced: Boolean = false)
    extends RowStatement(target, "UPDATE", forced) {
  override protected def rewriting: RowStatement = new UpdateRows(target, assignments, condition, forced = true)
  override protected lazy val rewrites: Boolean = keyed && (forced || table.rewrites("UPDATE") ||
    table.partialUpdates.exists(_.ignoresNulls(columns, Target.values(assignments))))
  override protected def updates: Seq[Seq[Assignment]] = Seq(assignments)
  override protected def repeatable: Boolean = (condition ++ Target.values(assignments)).forall(_.deterministic)
  override def validate(): Unit = if (setsKey(assignments)) refuseKeyUpdate()

  override protected def description: String =
    s"UPDATE ${table.name} SET ${sets(assignments)}${where(condition, "WHERE")}"

  override protected def execute(session: ClassicSession): Unit =
    write(session, changes(Seq(checked), None, condition.fold[LogicalPlan](rows)(Filter(_, rows))))

  private def checked: Seq[RowChange] = checks.fold(updated(assignments)) { p =>
    updated(assignments).map(c => c.copy(values = p.checked(columns, c.values)))
  }
}
