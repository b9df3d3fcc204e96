package org.apache.spark.sql.paimonbridge

import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.DataType

/** Columns of a partial-update table whose updates are ordered by sequence fields; a delete may remove the row. */
case class SequenceGroup(sequence: Seq[String], columns: Seq[String], removes: Boolean)

/** Checks the rows that UPDATE and DELETE write into a table with the partial-update engine.
  *
  * The engine merges a written row into the stored one: a null does not replace a value, and a row that is older than a
  * sequence group, or has no sequence, does not change the group. Where merging would give another result than the
  * statement, the job fails, and the statement rewrites files instead. Rows of MERGE are merged like those of INSERT: a
  * null leaves the stored value as it is.
  */
class PartialUpdates(table: String, groups: Seq[SequenceGroup]) {
  private val grouped = groups.flatMap(g => g.sequence ++ g.columns).toSet

  /** Whether a column outside of the groups is set to null, whatever the row. */
  def ignoresNulls(columns: Seq[Attribute], values: Seq[Expression]): Boolean = columns.zip(values).exists {
    case (a, v) => !grouped(a.name) && v.foldable && Try(v.eval() == null).getOrElse(false)
  }

  /** The new values of a row, each checked if it replaces another one. */
  def checked(columns: Seq[Attribute], values: Seq[Expression]): Seq[Expression] = {
    val updates = columns.zip(values)
    def isSet(name: String): Boolean = updates.exists { case (a, v) => a.name == name && !v.semanticEquals(a) }
    updates.map {
      case (a, v) if v.semanticEquals(a) => v
      case (a, v) => groups.find(g => g.sequence.contains(a.name) || g.columns.contains(a.name)) match {
          case None if grouped(a.name) => v
          case None => refuse(
              And(IsNull(v), IsNotNull(a)),
              v,
              s"the merge engine partial-update ignores the null for column '${a.name}'",
              "Put the column into a sequence group, or leave it as it is.")
          case Some(g) if (g.sequence ++ g.columns).find(isSet).contains(a.name) =>
            val pairs = updates.filter { case (c, _) => g.sequence.contains(c.name) }
            val sequence = g.sequence.flatMap(n => pairs.find(_._1.name == n))
            refuse(
              Or(sequence.map { case (_, n) => IsNull(n): Expression }.reduce(And), older(sequence)),
              v,
              s"the sequence (${g.sequence.mkString(", ")}) of the new row is null " +
                "or older than that of the stored row",
              "Set the sequence fields to values that are not older.")
          case _ => v
        }
    }
  }

  /** The values of a row to delete, checked to have the sequence that lets a delete remove the row. */
  def removed(columns: Seq[Attribute]): Seq[Expression] = {
    val removing = groups.filter(_.removes)
    if (removing.isEmpty) columns
    else {
      val fields = columns.filter(c => removing.exists(_.sequence.contains(c.name)))
      val none = fields.map(c => IsNull(c): Expression).reduce(And)
      refuse(
        none,
        columns.head,
        s"the sequence (${fields.map(_.name).mkString(", ")}) of a row to delete is null",
        "Set the sequence of these rows first.") +: columns.tail
    }
  }

  private def older(sequence: Seq[(Attribute, Expression)]): Expression =
    sequence.foldRight(Literal.FalseLiteral: Expression) { case ((stored, written), rest) =>
      val less =
        Or(And(IsNull(written), IsNotNull(stored)), Coalesce(Seq(LessThan(written, stored), Literal.FalseLiteral)))
      Or(less, And(EqualNullSafe(written, stored), rest))
    }

  private def refuse(when: Expression, value: Expression, why: String, hint: String): Expression =
    RefusedIf(when, value, s"[UNSUPPORTED_FEATURE] A row of table $table ${PartialUpdates.Refused}: $why. $hint")
}

object PartialUpdates {
  private val Refused = "cannot be changed by merging"

  /** Whether a job failed because merging would store another row than that of the statement. */
  def refused(error: PaimonException): Boolean =
    error.code == "UNSUPPORTED_FEATURE" && Option(error.getMessage).exists(_.contains(Refused))

  def of(table: String, described: JsonNode): Option[PartialUpdates] =
    Json.optional(described, "partial_update").map { node =>
      val groups = Json.items(node.get("groups")).map(g =>
        SequenceGroup(Json.strings(g.get("sequence")), Json.strings(g.get("columns")), g.get("removes").asBoolean()))
      new PartialUpdates(table, groups)
    }
}

/** `value`, unless `when` is true: then the statement fails. */
case class RefusedIf(when: Expression, value: Expression, message: String) extends BinaryExpression
    with CodegenFallback {
  override def left: Expression = when
  override def right: Expression = value
  override def dataType: DataType = value.dataType
  override def nullable: Boolean = value.nullable
  override def foldable: Boolean = false
  override lazy val deterministic: Boolean = false
  override def prettyName: String = "paimon_refused_if"

  override def eval(input: InternalRow): Any = {
    if (when.eval(input) == true) throw new TaskFailed(message, "UNSUPPORTED_FEATURE", "UnsupportedError")
    value.eval(input)
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(when = newLeft, value = newRight)
}
