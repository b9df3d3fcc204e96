package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis._

/** A failure that the engine named: `[CODE] what was wrong. what to do next`.
  *
  * @param known whether Spark is told the code as the condition of the error */
class PaimonException(text: String, val code: String, cause: Option[Throwable] = None, known: Boolean = false)
    extends AnalysisException(message = text, cause = cause, errorClass = Option.when(known)(code))

/** A table that the engine did not find, with what it says about it. */
class MissingTable(name: Seq[String], val explained: String) extends NoSuchTableException(name) {
  override def getMessage: String = s"[TABLE_OR_VIEW_NOT_FOUND] $explained"
}

/** A database that the engine did not find, with what it says about it. */
class MissingDatabase(name: Seq[String], val explained: String) extends NoSuchNamespaceException(name) {
  override def getMessage: String = s"[SCHEMA_NOT_FOUND] $explained"
}

/** The engine's error answers as Spark's own exceptions, so that IF [NOT] EXISTS and did-you-mean keep working. */
object Errors {
  def raise(error: JsonNode, namespace: Seq[String], name: Seq[String]): Nothing = {
    val message = error.get("message").asText()
    throw (error.get("code").asText() match {
      case "TABLE_NOT_FOUND" if name.nonEmpty => new MissingTable(name, message.stripPrefix("[TABLE_NOT_FOUND] "))
      case "TABLE_EXISTS" if name.nonEmpty => new TableAlreadyExistsException(name)
      case "DATABASE_NOT_FOUND" if namespace.nonEmpty =>
        new MissingDatabase(namespace, message.stripPrefix("[DATABASE_NOT_FOUND] "))
      case "DATABASE_EXISTS" if namespace.nonEmpty => new NamespaceAlreadyExistsException(namespace.toArray)
      case "DATABASE_NOT_EMPTY" if namespace.nonEmpty => new NonEmptyNamespaceException(namespace.toArray)
      case code => new PaimonException(message, code)
    })
  }

  /** The innermost failure inside `t` that Spark gave a code: what was wrong with a value, not that a job was aborted
    * for it. It comes without its stacks, which name code of Spark alone; `t` as it is where nothing has a code. */
  def named(t: Throwable): Throwable = {
    val found = chain(t).reverse.find {
      case s: SparkThrowable => s.getCondition != null && !s.getCondition.startsWith("INTERNAL_ERROR")
      case _ => false
    }
    found.foreach(chain(_).foreach(_.setStackTrace(Array.empty)))
    found.getOrElse(t)
  }

  /** A failure and what caused it, from the outside in. */
  def chain(of: Throwable): Seq[Throwable] = Iterator.iterate(of)(_.getCause).takeWhile(_ != null).take(100).toSeq
}
