package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.connector.expressions.{
  Expression,
  Literal,
  NamedReference,
  NullOrdering,
  SortDirection,
  SortOrder
}
import org.apache.spark.sql.connector.expressions.filter.{And, Not, Or, Predicate}
import org.apache.spark.sql.types.BinaryType
import org.apache.spark.unsafe.types.UTF8String

/** Spark's pushed predicates and orders as JSON; unsupported ones are None and are evaluated by Spark. */
object Predicates {
  private val Comparisons = Set("=", "<=>", "<", "<=", ">", ">=", "<>")

  def encode(predicate: Predicate): Option[Map[String, Any]] = predicate match {
    case a: And => both("and", a.left(), a.right())
    case o: Or => both("or", o.left(), o.right())
    case n: Not => encode(n.child()).map(c => Map("op" -> "not", "parts" -> Seq(c)))
    case p => simple(p)
  }

  def all(predicates: Iterable[Predicate]): Option[Map[String, Any]] = {
    val parts = predicates.flatMap(encode).toSeq
    if (parts.isEmpty) None else if (parts.size == 1) parts.headOption else Some(Map("op" -> "and", "parts" -> parts))
  }

  private def both(op: String, left: Predicate, right: Predicate): Option[Map[String, Any]] =
    for (l <- encode(left); r <- encode(right)) yield Map("op" -> op, "parts" -> Seq(l, r))

  private def simple(p: Predicate): Option[Map[String, Any]] = (p.name(), p.children()) match {
    case ("ALWAYS_TRUE", _) => Some(Map("op" -> "true"))
    case ("ALWAYS_FALSE", _) => Some(Map("op" -> "false"))
    case (op, Array(Column(c), v: Literal[_])) if Comparisons(op) => compare(op, c, v)
    case (op, Array(v: Literal[_], Column(c))) if Comparisons(op) => compare(mirror(op), c, v)
    case ("IN", children) if children.nonEmpty =>
      for (c <- Column.unapply(children.head); vs <- literals(children.tail.toSeq))
        yield Map("op" -> "in", "column" -> c, "values" -> vs)
    case ("IS_NULL", Array(Column(c))) => Some(Map("op" -> "is_null", "column" -> c))
    case ("IS_NOT_NULL", Array(Column(c))) => Some(Map("op" -> "not_null", "column" -> c))
    case ("STARTS_WITH", Array(Column(c), v: Literal[_])) =>
      literal(v).map(value => Map("op" -> "starts_with", "column" -> c, "value" -> value))
    case _ => None
  }

  private def compare(op: String, column: String, v: Literal[_]): Option[Map[String, Any]] =
    literal(v).map(value => Map("op" -> op, "column" -> column, "value" -> value))

  def hasNullBinary(e: Expression): Boolean = e match {
    case v: Literal[_] => v.value() == null && v.dataType() == BinaryType
    case other => other.children().exists(hasNullBinary)
  }

  /** A text that is not valid UTF-8 has no JSON text that sorts as its bytes do. */
  private def literal(v: Literal[_]): Option[Any] = v.value() match {
    case text: UTF8String if !text.isValid => None
    case value => Values.encode(value, v.dataType())
  }

  private def literals(children: Seq[Expression]): Option[Seq[Any]] = {
    val values = children.map { case v: Literal[_] => literal(v); case _ => None }
    if (values.forall(_.isDefined)) Some(values.map(_.get)) else None
  }

  private def mirror(op: String): String = op match {
    case "<" => ">"
    case "<=" => ">="
    case ">" => "<"
    case ">=" => "<="
    case same => same
  }

  /** The first order of a sort; `only` if there is no other. */
  def order(order: SortOrder, only: Boolean): Option[Map[String, Any]] = Column.unapply(order.expression()).map(c =>
    Map(
      "column" -> c,
      "descending" -> (order.direction() == SortDirection.DESCENDING),
      "nulls_first" -> (order.nullOrdering() == NullOrdering.NULLS_FIRST),
      "only" -> only))

  object Column {
    def unapply(e: Expression): Option[String] = e match {
      case r: NamedReference if r.fieldNames().length == 1 => Some(r.fieldNames()(0))
      case _ => None
    }
  }
}
