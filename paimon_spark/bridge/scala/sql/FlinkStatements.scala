package org.apache.spark.sql.paimonbridge

import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.StructType

/** A statement of Flink's SQL. The parser only validates it; it is executed once, when Spark runs the command. */
case class FlinkStatementCommand(request: Map[String, Any], catalog: CatalogRef, columns: StructType)
    extends LeafRunnableCommand with Logging {
  override val output: Seq[Attribute] = DataTypesBridge.attributes(columns)
  override def simpleString(maxFields: Int): String = "PaimonStatement"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Engine.json("run_statement", request, catalog, idempotent = false)
    Json.strings(answer.path("unset")).foreach(session.conf.unset)
    Option(answer.get("set")).foreach(Json.stringMap(_).foreach { case (k, v) => session.conf.set(k, v) })
    Option(answer.get("warn")).foreach(w => logWarning(w.asText()))
    Option(answer.get("use")).foreach(name => CreateLike.manager(session).setCurrentCatalog(name.asText()))
    Option(answer.get("forget")).foreach(_ => FlinkStatements.forgetCatalogs(session))
    Calls.refresh(session, answer)
    Option(answer.get("query")).foreach(insert(session, _))
    Option(answer.get("show")).map(_.asText()).map(key => Row(key, session.conf.get(key, "<undefined>"))).toSeq ++
      Option(answer.get("stop")).map(id => Jobs.stop(session, id.asText(), answer.get("savepoint").asBoolean())) ++
      Option(answer.get("jobs")).toSeq.flatMap(_ => Jobs.listed(session)) ++
      started(session, Json.strings(answer.path("statements"))) ++
      Json.items(answer.path("rows")).map(r => Values.externalRow(Json.items(r), columns))
  }

  /** Starts the INSERTs of a statement set, none of them if one is wrong. */
  private def started(session: SparkSession, statements: Seq[String]): Seq[Row] = {
    val state = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState
    statements.foreach { text =>
      state.sqlParser.parsePlan(text) match {
        case FailedStatement(error) => throw error
        case plan => state.executePlan(plan).assertAnalyzed()
      }
    }
    statements.flatMap(session.sql(_).collect().toSeq)
  }

  /** Fills the table of a CREATE TABLE … AS; the query is the user's own text. */
  private def insert(session: SparkSession, query: JsonNode): Unit = {
    val Seq(catalog, database, table, text) = Json.strings(query)
    val name = Seq(catalog, database, table).map(quoteIdentifier).mkString(".")
    try session.sql(s"INSERT INTO $name $text")
    catch { case e: Throwable => session.sql(s"DROP TABLE $name"); throw e }
  }
}

object FlinkStatements {
  private val Opening =
    s"${Calls.Before}(?:create|drop|use|alter|set|reset|show|stop|begin|execute|end)\\b.*".r.pattern
  private val Keyed = s"${Calls.Before}create\\s+table\\b.*\\bprimary\\s+key\\b.*".r.pattern

  /** Returns the command for a text that Spark's parser rejects, if it is a statement of Flink's. */
  def rejected(session: SparkSession, text: String): Option[LeafRunnableCommand] = claim(session, text, Opening)

  /** Returns the command for a CREATE TABLE with a primary key, which some releases of Spark parse and no Spark passes
    * on as a key. */
  def keyed(session: SparkSession, text: String): Option[LeafRunnableCommand] = claim(session, text, Keyed)

  private def claim(session: SparkSession, given: String, shape: java.util.regex.Pattern): Option[LeafRunnableCommand] =
    if (!shape.matcher(given).matches()) None
    else {
      val (request, ref) = Calls.statement(session, given)
      Calls.claimed("claim_statement", request, ref)(FlinkStatementCommand(request, ref, _))
    }

  /** Makes Spark reload its cached catalogs; the current one stays current. */
  def forgetCatalogs(session: SparkSession): Unit = {
    val manager = CreateLike.manager(session)
    val (catalog, namespace) = (manager.currentCatalog.name(), manager.currentNamespace)
    val database = manager.v1SessionCatalog.getCurrentDatabase
    manager.reset()
    manager.v1SessionCatalog.setCurrentDatabase(database)
    manager.setCurrentCatalog(catalog)
    Try(manager.setCurrentNamespace(namespace))
  }
}
