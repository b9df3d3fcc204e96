package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, LogicalPlan}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** Assigned values whose struct members are in the order of the column. Spark casts them by position, for a table of
  * which it does not know that its rows can be changed. */
object MembersByName {

  /** The statement on `table`, with its assigned values.
    *
    * An AnalysisException is thrown if a value lacks a member of the column. */
  def apply[T <: LogicalPlan](statement: T, table: String): T = statement.transformExpressions {
    case a: Assignment if a.key.resolved =>
      a.copy(value = a.value.transform {
        case c: Cast if c.getTagValue(Cast.BY_TABLE_INSERTION).isDefined && c.child.resolved =>
          c.withNewChildren(Seq(arranged(c.child, c.dataType, Missing(table, path(a.key)))))
      })
  }.asInstanceOf[T]

  private def path(key: Expression): Seq[String] = key match {
    case member: GetStructField => path(member.child) :+ member.extractFieldName
    case column => column.references.map(_.name).toSeq
  }

  private case class Missing(table: String, path: Seq[String]) {
    def at(name: String): Missing = copy(path = path :+ name)
    def error: Throwable = QueryCompilationErrors.incompatibleDataToTableCannotFindDataError(
      table,
      path.map(n => s"`$n`").mkString("."))
  }

  private def same(a: String, b: String): Boolean = SQLConf.get.resolver(a, b)

  /** Whether all members of `from` are where `to` has them. */
  private def fits(from: DataType, to: DataType): Boolean = (from, to) match {
    case (StructType(given), StructType(wanted)) => given.length == wanted.length &&
      given.zip(wanted).forall { case (g, w) => same(g.name, w.name) && fits(g.dataType, w.dataType) }
    case (ArrayType(given, _), ArrayType(wanted, _)) => fits(given, wanted)
    case (MapType(k, v, _), MapType(keys, values, _)) => fits(k, keys) && fits(v, values)
    case _ => true
  }

  private def arranged(e: Expression, to: DataType, missing: Missing): Expression = (e.dataType, to) match {
    case (from, _) if fits(from, to) => e
    case (StructType(given), StructType(wanted)) if given.length <= wanted.length =>
      val members = wanted.toSeq.flatMap { w =>
        val place = given.indexWhere(g => same(g.name, w.name))
        if (place < 0) throw missing.at(w.name).error
        Seq(Literal(w.name), arranged(GetStructField(e, place, Some(w.name)), w.dataType, missing.at(w.name)))
      }
      val struct = CreateNamedStruct(members)
      if (e.nullable) If(IsNull(e), Literal.create(null, struct.dataType), struct) else struct
    case (ArrayType(given, nullable), ArrayType(wanted, _)) =>
      each(e, given, nullable, arranged(_, wanted, missing.at("element")))
    case (MapType(k, v, nullable), MapType(keys, values, _)) => MapFromArrays(
        each(MapKeys(e), k, nullable = false, arranged(_, keys, missing.at("key"))),
        each(MapValues(e), v, nullable, arranged(_, values, missing.at("value"))))
    case _ => e
  }

  private def each(array: Expression, of: DataType, nullable: Boolean, value: Expression => Expression): Expression = {
    val element = NamedLambdaVariable("element", of, nullable)
    ArrayTransform(array, LambdaFunction(value(element), Seq(element)))
  }
}
