package org.apache.spark.sql.paimonbridge

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, SaveMode, SQLContext}
import org.apache.spark.sql.catalyst.analysis.{AsOfTimestamp, AsOfVersion}
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.{BaseRelation, CreatableRelationProvider, DataSourceRegister}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("paimon")` with a path: reads a table directory, or saves a DataFrame as one. */
class PaimonDataSource extends TableProvider with DataSourceRegister with CreatableRelationProvider {
  override def shortName(): String = "paimon"
  override def supportsExternalMetadata(): Boolean = true

  private def describe(options: JMap[String, String]) = {
    val given = options.asScala.toMap
    Engine.json(
      "load_path",
      Map("path" -> path(given), "options" -> StreamOptions.ofTable(given), "travel" -> travel(options)),
      CatalogRef.none)
  }

  /** The snapshot that Spark's options of a reader select. */
  private def travel(options: JMap[String, String]): Map[String, Any] =
    ReferenceOptions.travel(new CaseInsensitiveStringMap(options)) match {
      case Some(AsOfVersion(version)) => Map("version" -> version)
      case Some(AsOfTimestamp(micros)) => Map("timestamp" -> micros)
      case None => Map.empty
    }

  private def path(options: Map[String, String]): String = options.collectFirst {
    case (k, v) if k.equalsIgnoreCase("path") => v
  }.getOrElse(throw new PaimonException(
    "[INVALID_ARGUMENT] format(\"paimon\") needs a path. Use .load(path) or .save(path); a table without a path " +
      "belongs in a Paimon catalog: spark.table(name) reads it, and writeTo(name) or saveAsTable(name) writes it.",
    "INVALID_ARGUMENT"))

  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    JvmFrames.schema(describe(options.asCaseSensitiveMap()).get("schema"))

  override def inferPartitioning(options: CaseInsensitiveStringMap): Array[Transform] = Array.empty

  override def getTable(schema: StructType, partitioning: Array[Transform], options: JMap[String, String]): Table = {
    val found =
      try Some(describe(options))
      catch { case e: PaimonException if e.code == "TABLE_NOT_FOUND" => None }
    found.map(d => new PaimonTable(CatalogRef.none, d, byPath = true, asked = Some(schema))).getOrElse(
      new PaimonTable(
        CatalogRef.none,
        Json.node(Map(
          "kind" -> "absent",
          "name" -> path(options.asScala.toMap),
          "schema" -> Json.parse(schema.json),
          "partition_keys" -> Seq.empty[String],
          "properties" -> Map.empty[String, String],
          "token" -> Map("path" -> path(options.asScala.toMap)))),
        byPath = true))
  }

  override def createRelation(
      context: SQLContext,
      mode: SaveMode,
      parameters: Map[String, String],
      frame: DataFrame): BaseRelation = {
    val partitions = parameters.get("__partition_columns").orNull
    Engine.json(
      "save_path",
      Map(
        "path" -> path(parameters),
        "save_mode" -> mode.name(),
        "schema" -> Json.parse(frame.schema.json),
        "partition_columns" -> partitions,
        "options" -> (parameters - "__partition_columns")),
      CatalogRef.none,
      Seq(frame),
      idempotent = false)
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = frame.schema
    }
  }
}
