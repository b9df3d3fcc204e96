package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._
import scala.language.implicitConversions

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.{Identifier, V1Table}
import org.apache.spark.sql.types.StructType

/** The name of a view with its catalog. Spark's releases take it in two forms. */
case class ViewName(catalog: String, ident: Identifier) {
  def parts: Seq[String] = catalog +: ident.namespace().toSeq :+ ident.name()
  def quoted: String = parts.map(quoteIfNeeded).mkString(".")
}

object ViewName {
  implicit def identifier(name: ViewName): TableIdentifier =
    TableIdentifier(name.ident.name(), name.ident.namespace().headOption, Some(name.catalog))
  implicit def names(name: ViewName): Seq[String] = name.parts
}

/** The stored definition of a view; `context` has the settings with which Spark resolves the query. */
case class ViewDefinition(
    query: String,
    columns: JsonNode,
    context: Map[String, String],
    properties: Map[String, String],
    comment: Option[String]) {
  def request: Map[String, Any] = Map(
    "query" -> query,
    "columns" -> columns.get("fields"),
    "context" -> context,
    "properties" -> properties,
    "comment" -> comment)
}

/** A permanent view as Spark's session catalog describes one, so that Spark resolves the query. */
class PaimonView(val viewName: ViewName, val definition: ViewDefinition, metadata: CatalogTable)
    extends V1Table(metadata) {

  /** The user's properties, without those that determine how the query is resolved. */
  override lazy val properties: java.util.Map[String, String] =
    (definition.properties ++ definition.comment.map("comment" -> _)).asJava
}

object PaimonView {
  def of(viewName: ViewName, described: JsonNode): PaimonView = {
    val definition = ViewDefinition(
      described.get("query").asText(),
      described.get("columns"),
      Json.stringMap(described.get("context")),
      Json.stringMap(described.get("properties")),
      Json.optional(described, "comment").map(_.asText()))
    val metadata = CatalogTable(
      identifier = viewName,
      tableType = CatalogTableType.VIEW,
      storage = CatalogStorageFormat.empty,
      schema = JvmFrames.schema(definition.columns),
      properties = definition.properties ++ definition.context,
      viewText = Some(definition.query),
      viewOriginalText = Some(definition.query),
      comment = definition.comment)
    new PaimonView(viewName, definition, metadata)
  }
}

/** The requests of a catalog that concern views. */
trait PaimonViews { this: PaimonCatalog =>

  /** A request about the view `ident`; an error that a name exists is about `made`. */
  private def request(
      method: String,
      ident: Identifier,
      args: Map[String, Any],
      idempotent: Boolean = false,
      made: Option[Identifier] = None) = {
    val named = made.getOrElse(ident)
    Engine.json(
      method,
      args ++ Map("database" -> ident.namespace().mkString("."), "name" -> ident.name()),
      ref,
      idempotent = idempotent,
      namespace = ref.name +: named.namespace().toSeq,
      name = ref.name +: named.namespace().toSeq :+ named.name())
  }

  def listViews(namespace: Array[String]): Array[Identifier] =
    if (!hasViews || namespace.length != 1) Array.empty
    else Json.strings(Engine.json(
      "list_views",
      Map("database" -> namespace(0)),
      ref,
      namespace = ref.name +: namespace.toSeq).get("views")).map(Identifier.of(namespace, _)).toArray

  /** The descriptions of many tables and views, in one request. */
  private[paimonbridge] def describeAll(namespace: Array[String], names: Seq[String]): Seq[JsonNode] =
    ofEach("describe_tables", namespace, names)

  /** The columns and the primary key of each table that is there, in one request; a message for one that cannot be
    * read. */
  private[sql] def columnsOf(
      namespace: Array[String],
      names: Seq[String]): Map[String, Either[String, (StructType, Seq[String])]] =
    names.zip(ofEach("describe_columns", namespace, names)).filterNot(_._2.isNull).map { case (name, found) =>
      name -> Json.optional(found, "message").map(_.asText())
        .toLeft((JvmFrames.schema(found.get("schema")), Json.strings(found.get("keys"))))
    }.toMap

  private def ofEach(method: String, namespace: Array[String], names: Seq[String]): Seq[JsonNode] =
    Json.items(Engine.json(
      method,
      Map("database" -> namespace.mkString("."), "names" -> names),
      ref,
      namespace = ref.name +: namespace.toSeq).get("tables"))

  def loadView(ident: Identifier): PaimonView =
    PaimonView.of(ViewName(ref.name, ident), request("load_view", ident, Map.empty, idempotent = true))

  def createView(ident: Identifier, view: ViewDefinition, ifNotExists: Boolean, replace: Boolean): Unit =
    request("create_view", ident, Map("view" -> view.request, "if_not_exists" -> ifNotExists, "replace" -> replace))

  def alterView(ident: Identifier, view: ViewDefinition): Unit =
    request("alter_view", ident, Map("view" -> view.request))

  def dropView(ident: Identifier, ifExists: Boolean): Unit = request("drop_view", ident, Map("if_exists" -> ifExists))

  def renameView(from: Identifier, to: Identifier): Unit =
    request(
      "rename_view",
      from,
      Map("to_database" -> to.namespace().mkString("."), "to_name" -> to.name()),
      made = Some(to))
}
