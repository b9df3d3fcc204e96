package org.apache.spark.sql.paimonbridge

import java.util.{Map => JMap, Set => JSet}

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types.StructType

/** CREATE TABLE AS and REPLACE TABLE [AS]: the existing table is unchanged until the query has succeeded. */
trait PaimonStaging extends StagingTableCatalog { this: PaimonCatalog =>

  override def stageCreate(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable =
    created(ident, columns, partitions, properties, "CREATE_TABLE_AS_SELECT")

  override def stageReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable = {
    if (!tableExists(ident)) throw new NoSuchTableException(ident)
    replaced(ident, columns, partitions, properties, "REPLACE_TABLE_AS_SELECT")
  }

  override def stageCreateOrReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable = {
    val operation = "CREATE_OR_REPLACE_TABLE_AS_SELECT"
    if (tableExists(ident)) replaced(ident, columns, partitions, properties, operation)
    else created(ident, columns, partitions, properties, operation)
  }

  private def created(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String],
      operation: String): StagedTable = {
    createTable(ident, columns, partitions, properties)
    loadTable(ident, JSet.of(TableWritePrivilege.INSERT)) match {
      case table: PaimonTable =>
        new PaimonStagedTable(new PaimonFilledTable(table, operation), () => (), () => dropTable(ident))
      case other => throw notOurs(other.name())
    }
  }

  private def replaced(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String],
      operation: String): StagedTable = {
    requireOurs(ident, properties)
    val wanted = tableArgs(ident, CatalogV2Util.v2ColumnsToStructType(columns), partitions, properties)
    val table = new PaimonReplacedTable(ref, Engine.json("plan_replace", wanted, ref), wanted, operation)
    new PaimonStagedTable(table, () => table.finish(), () => ())
  }

  /** Rejects a replacement if one of the two is not a Paimon table. */
  protected def requireOurs(ident: Identifier, properties: JMap[String, String]): Unit = {}

  protected def notOurs(name: String) = new PaimonException(
    s"[UNSUPPORTED_FEATURE] $name cannot be created or replaced in one statement with a table of another provider. " +
      "Use CREATE TABLE or DROP TABLE first.",
    "UNSUPPORTED_FEATURE")
}

/** The table that Spark writes to between staging and commit; it delegates everything but the commit to the table. */
class PaimonStagedTable(table: PaimonTable, commit: () => Unit, abort: () => Unit) extends StagedTable
    with SupportsWrite {
  override def name(): String = table.name
  override def schema(): StructType = table.schema
  override def partitioning(): Array[Transform] = table.partitioning()
  override def properties(): JMap[String, String] = table.properties
  override def capabilities(): JSet[TableCapability] = table.capabilities()
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = table.newWriteBuilder(info)
  override def commitStagedChanges(): Unit = commit()
  override def abortStagedChanges(): Unit = abort()
}

/** A new table that is filled by a query. */
class PaimonFilledTable(table: PaimonTable, operation: String) extends PaimonTable(table.catalog, table.described) {
  override protected def operationName: Option[String] = Some(operation)
}

/** A table with its new schema, which becomes visible when the new rows replace the old ones. */
class PaimonReplacedTable(catalog: CatalogRef, described: JsonNode, wanted: Map[String, Any], operation: String)
    extends PaimonTable(catalog, described) {
  private var written = false

  override def insert(
      mode: String,
      replaced: Option[Map[String, Any]],
      options: Map[String, String],
      frame: DataFrame): Unit = {
    written = true
    replace(Seq(frame), options)
  }

  /** A statement without a query has written nothing yet. */
  def finish(): Unit = if (!written) replace(Nil, Map.empty)

  private def replace(frames: Seq[DataFrame], options: Map[String, String]): Unit =
    Engine.json(
      "replace_table",
      wanted ++ Map("operation" -> operation, "options" -> options),
      catalog,
      frames,
      idempotent = false)
}
