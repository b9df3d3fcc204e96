package org.apache.spark.sql.paimonbridge

import java.util.{Collections, Iterator => JIterator}

import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.{CurrentUserContext, InternalRow}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.catalog.procedures.{BoundProcedure, ProcedureParameter, UnboundProcedure}
import org.apache.spark.sql.connector.read.{LocalScan, Scan}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{DataType, StructType}

/** A Paimon CALL, a COPY INTO or a tag statement. The parser only validates it; it is executed once, when Spark
  * runs the command. */
case class PaimonCallCommand(text: String, catalog: CatalogRef, request: Map[String, Any], columns: StructType)
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = DataTypesBridge.attributes(columns)
  override def simpleString(maxFields: Int): String = s"PaimonCall ${text.trim}"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Engine.json("run_call", request + ("user" -> Calls.user), catalog, idempotent = false)
    Calls.refresh(session, answer)
    CompactionJobs.start(session, answer)
    Json.items(answer.get("rows")).map(r => Values.externalRow(Json.items(r), columns))
  }
}

/** An invalid Paimon statement. A parser may throw only Spark's parse errors, so the error is raised when Spark runs
  * it. */
case class FailedStatement(error: PaimonException) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = throw error
}

object Calls {

  /** Text before the first word of a statement: blanks and comments. */
  val Before = "(?is)\\s*+(?>(?:--[^\\n]*(?:\\n|$)|/\\*.*?\\*/)\\s*+)*+"
  private val Opening = (Before + "(?:copy\\s+into\\b|" +
    "(?:explain\\s+)?(?:call\\b|show\\s+tags\\b|alter\\s+table\\b.*\\btag\\b)).*").r.pattern

  /** Returns the command for a Paimon CALL, a COPY INTO or a tag statement, else None. Other statements are
    * decided without a request to the engine. */
  def claim(session: SparkSession, given: String): Option[LeafRunnableCommand] =
    if (!Opening.matcher(given).matches()) None
    else {
      val (request, ref) = statement(session, given)
      claimed("claim_call", request, ref)(PaimonCallCommand(request("text").toString, ref, request, _))
    }

  /** The user who runs the statement of this thread; in a Thrift server, the user of the connection. */
  def user: String = CurrentUserContext.getCurrentUser

  /** The request for a statement. The engine finds the options of the catalog that the statement names in it. */
  def statement(session: SparkSession, given: String): (Map[String, Any], CatalogRef) = {
    // Spark's parser would substitute ${name} before it parses.
    val text = new VariableSubstitution().substitute(given)
    val classic = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession]
    val manager = classic.sessionState.catalogManager
    val current = manager.currentCatalog.name()
    val catalogs = Extensions.catalogs(session).map { case (name, given) =>
      name -> CatalogRef(name, given).withStore(classic).options
    }
    val settings = classic.sessionState.conf.getAllConfs.filter(_._1.startsWith("spark.sql.catalog."))
    val request = Map(
      "text" -> text,
      "current_catalog" -> current,
      "current_database" -> manager.currentNamespace.headOption,
      "catalogs" -> catalogs,
      "catalog_settings" -> settings.keys.toSeq,
      "session_catalog" -> settings.get(s"spark.sql.catalog.${PaimonGeneric.Name}"))
    (request, CatalogRef(current, Map.empty, usesStore = false))
  }

  /** The command for a statement that the engine runs, with the columns of its result. */
  def claimed(method: String, request: Map[String, Any], ref: CatalogRef)(
      command: StructType => LeafRunnableCommand): Option[LeafRunnableCommand] =
    try {
      val answer = Engine.json(method, request, ref)
      if (!answer.get("claimed").asBoolean()) None else Some(command(JvmFrames.schema(answer.get("schema"))))
    } catch { case error: PaimonException => Some(FailedStatement(error)) }

  /** Invalidates Spark's caches of the tables that a procedure changed; without cached data there is nothing to do. */
  def refresh(session: SparkSession, answer: JsonNode): Unit =
    if (!session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sharedState.cacheManager.isEmpty)
      Json.strings(answer.get("changed")).foreach(name => Try(session.catalog.refreshTable(name)))
}

/** Spark's own CALL (scripts, parameter markers, SHOW and DESCRIBE PROCEDURE) over the same registry. */
object Procedures {
  def load(ref: CatalogRef, ident: Identifier): UnboundProcedure = {
    val args = Map("namespace" -> ident.namespace().toSeq, "name" -> ident.name())
    val d = Engine.json("describe_procedure", args, ref)
    new EngineProcedure(ref, d)
  }

  def list(ref: CatalogRef): Array[Identifier] =
    Json.strings(Engine.json("list_procedures", Map.empty, ref).get("procedures"))
      .map(Identifier.of(Array("sys"), _)).toArray
}

/** An unbound procedure; a bound one must be of another class, or Spark binds it repeatedly. */
class EngineProcedure(ref: CatalogRef, described: JsonNode) extends UnboundProcedure {
  override def name(): String = described.get("name").asText()
  override def description(): String = described.get("description").asText()
  override def bind(inputType: StructType): BoundProcedure = new BoundEngineProcedure(ref, described)
}

class BoundEngineProcedure(ref: CatalogRef, described: JsonNode) extends BoundProcedure {
  private val types = Json.items(described.get("parameters")).map(p => DataType.fromDDL(p.get("type").asText()))

  override def name(): String = described.get("name").asText()
  override def description(): String = described.get("description").asText()
  override def isDeterministic: Boolean = false

  override def parameters(): Array[ProcedureParameter] =
    Json.items(described.get("parameters")).zip(types).map { case (p, t) =>
      val builder = ProcedureParameter.in(p.get("name").asText(), t).comment(p.get("comment").asText())
      (if (p.get("required").asBoolean()) builder else builder.defaultValue("NULL")).build()
    }.toArray

  override def call(input: InternalRow): JIterator[Scan] = {
    val values = types.zipWithIndex.map { case (t, i) =>
      Values.encode(input.get(i, t), t).getOrElse(throw new PaimonException(
        s"[UNSUPPORTED_FEATURE] ${name()} takes no value of type ${t.sql} here. Write the CALL without parameter " +
          "markers.",
        "UNSUPPORTED_FEATURE"))
    }
    val session = SparkSession.active
    val current = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.catalogManager
    val answer = Engine.json(
      "run_procedure",
      Map(
        "name" -> name(),
        "values" -> values,
        "current_catalog" -> current.currentCatalog.name(),
        "current_database" -> current.currentNamespace.headOption,
        "user" -> Calls.user),
      ref,
      idempotent = false)
    Calls.refresh(session, answer)
    CompactionJobs.start(session, answer)
    val schema = JvmFrames.schema(answer.get("schema"))
    val data = Json.items(answer.get("rows")).map(r => Values.row(Json.items(r), schema)).toArray
    Collections.singletonList[Scan](new LocalScan {
      override def rows(): Array[InternalRow] = data
      override def readSchema(): StructType = schema
    }).iterator()
  }
}
