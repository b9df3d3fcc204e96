package org.apache.spark.sql.paimonbridge

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.{DescribeColumn, LogicalPlan}

/** Statements of other table formats that are procedures here: errors name the procedure. */
object OtherStatements {
  private val Optimize = s"${Calls.Before}optimize\\s+(${CreateLike.Name})(?:\\s.*)?".r
  private val Vacuum = s"${Calls.Before}vacuum\\s+(${CreateLike.Name})(?:\\s.*)?".r
  private val Branch = (s"${Calls.Before}alter\\s+table\\s+(${CreateLike.Name})\\s+" +
    "(create|drop|replace)\\s+(?:or\\s+replace\\s+)?branch\\b.*").r

  /** Returns the error for a text that Spark's parser rejects, if it is such a statement on a Paimon table. */
  def rejected(session: SparkSession, parser: ParserInterface, text: String): Option[FailedStatement] =
    (text.trim.stripSuffix(";") match {
      case Optimize(name) => Some(("OPTIMIZE", name, s"CALL sys.compact(${literal(name)})"))
      case Vacuum(name) => Some((
          "VACUUM",
          name,
          s"CALL sys.expire_snapshots(${literal(name)}), then CALL sys.remove_orphan_files(${literal(name)})"))
      case Branch(name, verb) =>
        val procedure = if (verb.equalsIgnoreCase("drop")) "delete_branch" else "create_branch"
        Some((s"ALTER TABLE … ${verb.toUpperCase} BRANCH", name, s"CALL sys.$procedure(${literal(name)}, '<branch>')"))
      case _ => None
    }).collect {
      case (statement, name, call) if isOurs(session, parser, name) =>
        FailedStatement(new PaimonException(
          s"[UNSUPPORTED_FEATURE] Paimon tables have no statement $statement. Write $call.",
          "UNSUPPORTED_FEATURE"))
    }

  /** The procedure for DESCRIBE HISTORY, which Spark reads as a column of a table named HISTORY. */
  def history(plan: LogicalPlan): Option[String] = plan match {
    case DescribeColumn(table: UnresolvedTableOrView, column: UnresolvedAttribute, _, _)
        if table.multipartIdentifier.map(_.toLowerCase) == Seq("history") =>
      Some(s" For the history of a table, write CALL sys.history(${literal(column.name)}).")
    case _ => None
  }

  private def isOurs(session: SparkSession, parser: ParserInterface, name: String): Boolean =
    Try(parser.parseMultipartIdentifier(name)).toOption.exists(Extensions.ours(session, _))

  private def literal(text: String): String = s"'${text.replace("\\", "\\\\").replace("'", "\\'")}'"
}
