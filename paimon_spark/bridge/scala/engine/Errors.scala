package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis._

/** An engine error: `[CODE] problem. hint`.
  *
  * @param known whether the code is passed to Spark as the error condition */
class PaimonException(text: String, val code: String, cause: Option[Throwable] = None, known: Boolean = false)
    extends AnalysisException(message = text, cause = cause, errorClass = Option.when(known)(code)) {

  /** Spark 4.3 prints the stack trace of an error without a state, or with one of class XX. */
  override def getSqlState: String = if (code == "ENGINE_FAILED") "XX000" else "45000"
}

/** A table that the engine did not find, with the engine's message. */
class MissingTable(name: Seq[String], val explained: String) extends NoSuchTableException(name) {
  override def getMessage: String = s"[TABLE_OR_VIEW_NOT_FOUND] $explained"
}

/** A database that the engine did not find, with the engine's message. */
class MissingDatabase(name: Seq[String], val explained: String) extends NoSuchNamespaceException(name) {
  override def getMessage: String = s"[SCHEMA_NOT_FOUND] $explained"
}

/** Translates engine errors into Spark's exceptions, so that IF [NOT] EXISTS and suggestions work. */
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

  /** The innermost failure in `t` with a Spark error condition: the problem with a value, not the aborted job. Its
    * stack trace, which has only Spark's own code, is removed; `t` itself if nothing has a condition. */
  def named(t: Throwable): Throwable = {
    val found = chain(t).reverse.find {
      case s: SparkThrowable => s.getCondition != null && !s.getCondition.startsWith("INTERNAL_ERROR")
      case _ => false
    }
    found.foreach(chain(_).foreach(_.setStackTrace(Array.empty)))
    found.getOrElse(t)
  }

  /** A failure and its causes, from the outermost in. */
  def chain(of: Throwable): Seq[Throwable] = Iterator.iterate(of)(_.getCause).takeWhile(_ != null).take(100).toSeq
}
