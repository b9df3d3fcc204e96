package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan}
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.streaming.{OutputMode, Trigger}
import org.apache.spark.sql.types.{StringType, StructType}

/** INSERT into a temporary table of a connector: print, blackhole or filesystem. `names`: the columns that the
  * statement lists; `byName`: whether those of the query are matched by their names. */
case class ConnectorInsertCommand(
    name: String,
    connector: JsonNode,
    query: LogicalPlan,
    overwrite: Boolean,
    names: Seq[String],
    byName: Boolean) extends LeafRunnableCommand {
  private val kind = connector.get("connector").asText()
  private val columns = JvmFrames.schema(connector.get("schema"))
  override val output: Seq[Attribute] =
    DataTypesBridge.attributes(new StructType().add("job id", StringType))
  override def simpleString(maxFields: Int): String = s"PaimonConnectorInsert $name"

  override def run(session: SparkSession): Seq[Row] = {
    val given = Dataset.ofRows(session.asInstanceOf[ClassicSession], query)
    if (given.isStreaming && overwrite) throw new PaimonException(
      s"[UNSUPPORTED_FEATURE] An unbounded query cannot overwrite '$name'. Write INSERT INTO.",
      "UNSUPPORTED_FEATURE")
    val rows = aligned(given, session.sessionState.conf.resolver)
    if (given.isStreaming) Seq(Row(start(session, rows)))
    else {
      write(rows)
      if (kind == "filesystem") session.catalog.refreshTable(quoteIdentifier(name))
      Nil
    }
  }

  /** The rows with the columns of the table; those that the statement leaves out are NULL. */
  private def aligned(given: DataFrame, same: (String, String) => Boolean): DataFrame = {
    val listed = if (byName) given.columns.toSeq else if (names.nonEmpty) names else columns.fieldNames.toSeq
    if (given.columns.length != listed.length) throw new PaimonException(
      s"[INVALID_ARGUMENT] The query has ${given.columns.length} columns, but '$name' takes ${listed.length}: " +
        s"${listed.mkString(", ")}.",
      "INVALID_ARGUMENT")
    listed.find(l => !columns.fieldNames.exists(same(l, _))).foreach(l =>
      throw new PaimonException(
        s"[COLUMN_NOT_FOUND] '$name' has no column '$l'. Its columns are ${columns.fieldNames.mkString(", ")}.",
        "COLUMN_NOT_FOUND"))
    val numbered = given.toDF(listed.indices.map(i => s"_$i"): _*)
    numbered.select(columns.map { f =>
      val at = listed.indexWhere(same(_, f.name))
      (if (at < 0) lit(null) else col(s"_$at")).cast(f.dataType).as(f.name)
    }: _*)
  }

  private def write(rows: DataFrame): Unit = kind match {
    case "print" => print(rows)
    case "filesystem" => rows.write.format(connector.get("format").asText()).options(options)
        .mode(if (overwrite) "overwrite" else "append").save(connector.get("path").asText())
    case _ => rows.write.format("noop").mode("overwrite").save()
  }

  /** Prints rows as Flink's connector does. */
  private def print(rows: DataFrame): Unit = {
    val prefix = Option(connector.get("identifier")).map(_.asText()).filter(_.nonEmpty).fold("")(_ + "> ")
    rows.toLocalIterator().forEachRemaining(r => println(r.toSeq.mkString(s"$prefix+I[", ", ", "]")))
  }

  private def start(session: SparkSession, rows: DataFrame): String = {
    val updated = Jobs.updates(rows.queryExecution.analyzed)
    val place = Jobs.checkpoints(session, s"insert-into_$name", query)
    val writer =
      rows.writeStream.outputMode(if (updated && kind != "filesystem") OutputMode.Update() else OutputMode.Append())
        .trigger(Trigger.ProcessingTime(ClientKeys.interval(session)))
        .option("checkpointLocation", place)
    val started = Jobs.start(session)(kind match {
      case "print" => writer.foreachBatch((batch: DataFrame, _: Long) => print(batch)).start()
      case "filesystem" => writer.format(connector.get("format").asText()).options(options)
          .start(connector.get("path").asText())
      case _ => writer.format("noop").start()
    })
    Jobs.writes(started, place, None)
    started.id.toString
  }

  private def options: Map[String, String] =
    Option(connector.get("options")).fold(Map.empty[String, String])(o => Json.stringMap(Json.parse(o.asText())))
}

object Connectors {
  val Prefix = "flink.temporary-table."

  /** Returns the command for an INSERT into a temporary table that takes rows. */
  def claim(session: SparkSession, parsed: Object): Object = parsed match {
    case i: InsertIntoStatement => i.table match {
        case u: UnresolvedRelation if u.multipartIdentifier.size == 1 =>
          connector(session, u.multipartIdentifier.head).fold(parsed)(insert(i, u.multipartIdentifier.head, _))
        case _ => parsed
      }
    case _ => parsed
  }

  private def insert(i: InsertIntoStatement, name: String, connector: JsonNode): Object =
    if (i.partitionSpec.nonEmpty) FailedStatement(new PaimonException(
      s"[UNSUPPORTED_FEATURE] The temporary table '$name' has no partitions. Leave PARTITION out.",
      "UNSUPPORTED_FEATURE"))
    else ConnectorInsertCommand(name, connector, i.query, i.overwrite, i.userSpecifiedCols, i.byName)

  /** The connector of a name, as long as its temporary view is there. */
  private def connector(session: SparkSession, name: String): Option[JsonNode] =
    session.conf.getOption(Prefix + name.toLowerCase).map(Json.parse).filter { c =>
      val view = CreateLike.manager(session).v1SessionCatalog.getTempView(name)
      c.get("connector").asText() != "datagen" && view.exists(_.schema.sameType(JvmFrames.schema(c.get("view"))))
    }
}
