package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, NamedArgumentExpression, UnaryMinus}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.types.{BooleanType, IntegralType, StringType}

/** Read-only procedures as table functions: `paimon_doctor('db.t')`. The procedure runs while the query is
  * analyzed. */
case class ProceduresAsFunctions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    plan.transformDownWithSubqueries {
      case f: UnresolvedTableValuedFunction if ProcedureFunctions.known(session, f.name) =>
        CurrentOrigin.withOrigin(f.origin)(ProcedureFunctions.rows(session, f))
    }
  }
}

object ProcedureFunctions {
  private val Names = Set("config", "diff", "doctor", "help", "history", "verify", "why")
  private val Namespace = "sys"
  private val Prefix = "paimon_"

  /** Whether a name is that of one of these functions, and no other function is registered under it. */
  def known(session: SparkSession, name: Seq[String]): Boolean = name.length == 1 && procedure(name.head).nonEmpty &&
    !TableFunctions.isRegistered(
      session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.catalog,
      name.head)

  private def procedure(name: String): Option[String] =
    Some(name.toLowerCase).filter(_.startsWith(Prefix)).map(_.stripPrefix(Prefix)).filter(Names)

  private def catalogOf(session: SparkSession, name: String): Option[String] =
    Extensions.catalogs(session).keys.find(_.equalsIgnoreCase(name))

  /** The rows of the procedure. */
  def rows(session: SparkSession, function: UnresolvedTableValuedFunction): LogicalPlan = {
    val (request, ref) = Calls.statement(session, text(session, function))
    val answer = Engine.json("run_call", request, ref)
    val schema = JvmFrames.schema(answer.get("schema"))
    LocalRelation(
      DataTypesBridge.attributes(schema),
      Json.items(answer.get("rows")).map(r => Values.row(Json.items(r), schema)))
  }

  /** The CALL; a table of another catalog than the current one is looked for there. */
  private def text(session: SparkSession, function: UnresolvedTableValuedFunction): String = {
    val name = function.name.head
    val parser = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.sqlParser
    val ofTable = function.functionArgs.headOption.map(value).collect {
      case Literal(t, _: StringType) if t != null =>
        t.toString
    }.filter(_.count(_ == '.') >= 2).map(_.stripSuffix(".*")).map(parser.parseMultipartIdentifier(_).head)
    val catalog = ofTable.flatMap(catalogOf(session, _)).map(c => s"`${c.replace("`", "``")}`.").getOrElse("")
    val arguments = function.functionArgs.map {
      case NamedArgumentExpression(key, value) => s"$key => ${literal(name, value)}"
      case other => literal(name, other)
    }
    s"CALL $catalog$Namespace.${procedure(name).get}(${arguments.mkString(", ")})"
  }

  private def value(argument: Expression): Expression = argument match {
    case NamedArgumentExpression(_, value) => value
    case other => other
  }

  private def literal(name: String, argument: Expression): String = argument match {
    case Literal(null, _) => "NULL"
    case l @ Literal(_, _: StringType) => l.sql
    case Literal(v, _: IntegralType | BooleanType) => v.toString
    case UnaryMinus(Literal(v, _: IntegralType), _) => s"-$v"
    case _ => throw new PaimonException(
        s"[INVALID_ARGUMENT] An argument of the table function $name is not a literal. Write strings, " +
          "numbers, true or false.",
        "INVALID_ARGUMENT")
  }
}
