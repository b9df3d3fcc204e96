package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{UnresolvedRelation, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.catalog.SessionCatalog
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, UnaryMinus}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** Table functions that read changes: each is a reference to a table with an option, resolved like any other. */
case class ChangesOfTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    plan.transformDownWithSubqueries {
      case f: UnresolvedTableValuedFunction if TableFunctions.known(f.name) =>
        CurrentOrigin.withOrigin(f.origin)(TableFunctions.reference(session, f))
      case f: UnresolvedTableValuedFunction if TableFunctions.misspelt(session, f.name) =>
        throw TableFunctions.unknown(f.name.head)
    }
  }
}

object TableFunctions {
  private case class Changes(option: String, limits: Seq[String], streams: Boolean = false)

  private val All = Map(
    "paimon_incremental_query" -> Changes("incremental-between", Seq("start", "end")),
    "paimon_incremental_between_timestamp" -> Changes("incremental-between-timestamp", Seq("start", "end")),
    "paimon_incremental_to_auto_tag" -> Changes("incremental-to-auto-tag", Seq("tag")),
    "paimon_changes" -> Changes("", Nil, streams = true))
  private val MicrosPerMilli = 1000L

  def known(name: Seq[String]): Boolean = name.length == 1 && All.contains(name.head.toLowerCase)

  /** Whether a function returns the changes of a table from now on. */
  def isStream(name: Seq[String]): Boolean = known(name) && All(name.head.toLowerCase).streams

  /** Whether there is no function of a name, and one of ours has a similar one. */
  def misspelt(session: SparkSession, name: Seq[String]): Boolean = name.length == 1 && near(name.head).nonEmpty && {
    val catalog = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.catalog
    !isRegistered(catalog, name.head) && !catalog.isPersistentFunction(FunctionIdentifier(name.head))
  }

  /** Whether Spark, an extension or the session has a table function. */
  def isRegistered(catalog: SessionCatalog, name: String): Boolean =
    catalog.lookupBuiltinOrTempTableFunction(name).isDefined

  def unknown(name: String): PaimonException = refused(
    s"There is no table function '$name'. Did you mean ${near(name).map(n => s"'$n'").mkString(" or ")}?")

  /** Our functions with a similar name, the most similar first. */
  private def near(name: String): Seq[String] = {
    val given = UTF8String.fromString(name.toLowerCase)
    val all = All.keys.toSeq.map(n => n -> given.levenshteinDistance(UTF8String.fromString(n)))
    all.filter { case (n, distance) => distance * 3 <= n.length }.sortBy(_.swap).map(_._1)
  }

  /** The reference that a function stands for. Another extension's function of that name serves its own tables. */
  def reference(session: SparkSession, function: UnresolvedTableValuedFunction): LogicalPlan = {
    val (name, args) = (function.name.last.toLowerCase, function.functionArgs)
    val state = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState
    val table = args.headOption.flatMap(text).map(state.sqlParser.parseMultipartIdentifier)
    val isOurs = table.exists(t => !isView(session, t) && Extensions.ours(session, t))
    if (!isOurs && isRegistered(state.catalog, name)) function
    else reference(session, name, args)
  }

  private def isView(session: SparkSession, name: Seq[String]): Boolean =
    CreateLike.manager(session).v1SessionCatalog.isTempView(name)

  private def reference(session: SparkSession, name: String, args: Seq[Expression]): UnresolvedRelation = {
    val changes = All(name)
    val usage = s"Write $name(${("'table'" +: changes.limits).mkString(", ")})."
    if (args.length != changes.limits.length + 1) throw refused(
      s"The table function $name has ${args.length} arguments instead of ${changes.limits.length + 1}. $usage")
    val texts = args.map(text(_).getOrElse(throw refused(
      s"An argument of the table function $name is not a literal. $usage")))
    val table = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.sqlParser
      .parseMultipartIdentifier(texts.head)
    if (isView(session, table) || !Extensions.ours(session, table)) throw refused(
      s"'${texts.head}', an argument of the table function $name, is ${if (isView(session, table)) "a view"
        else
          "not in a Paimon catalog"}. Name a Paimon table.")
    if (changes.streams) UnresolvedRelation(
      table.init :+ s"${table.last}$$audit_log",
      CaseInsensitiveStringMap.empty(),
      isStreaming = true)
    else UnresolvedRelation(table, new CaseInsensitiveStringMap(Map(changes.option -> texts.tail.mkString(",")).asJava))
  }

  /** The text of a literal; instants are in epoch milliseconds. */
  private def text(argument: Expression): Option[String] = argument match {
    case Literal(null, _) => None
    case Literal(value, _: StringType | _: IntegralType) => Some(value.toString)
    case UnaryMinus(Literal(value, _: IntegralType), _) => Some(s"-$value")
    case Literal(micros: Long, TimestampType) => Some(Math.floorDiv(micros, MicrosPerMilli).toString)
    case Literal(micros: Long, TimestampNTZType) => Some(DateTimeUtils.microsToLocalDateTime(micros).toString)
    case Literal(days: Int, DateType) => Some(DateTimeUtils.daysToLocalDate(days).toString)
    case _ => None
  }

  private def refused(message: String) = new PaimonException(s"[INVALID_ARGUMENT] $message", "INVALID_ARGUMENT")
}
