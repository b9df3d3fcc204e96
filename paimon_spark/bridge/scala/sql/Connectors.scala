package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, InsertIntoStatement, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.{OutputMode, Trigger}
import org.apache.spark.sql.types.{StringType, StructType}

/** INSERT into a temporary table of a connector: print, blackhole or filesystem. */
case class ConnectorInsertCommand(name: String, connector: JsonNode, query: LogicalPlan, overwrite: Boolean)
    extends LeafRunnableCommand {
  private val kind = connector.get("connector").asText()
  private val columns = JvmFrames.schema(connector.get("schema"))
  override val output: Seq[Attribute] =
    DataTypesBridge.attributes(new StructType().add("job id", StringType))
  override def simpleString(maxFields: Int): String = s"PaimonConnectorInsert $name"

  override def run(session: SparkSession): Seq[Row] = {
    val given = Dataset.ofRows(session.asInstanceOf[ClassicSession], query)
    if (given.columns.length != columns.length) throw new PaimonException(
      s"[INVALID_ARGUMENT] The query has ${given.columns.length} columns, but the temporary table '$name' has " +
        s"${columns.length}. Name as many columns as the table has.", "INVALID_ARGUMENT")
    val rows = given.toDF(columns.fieldNames.toSeq: _*).select(columns.map(f => col(Connectors.quoted(f.name)).cast(f.dataType)): _*)
    if (given.isStreaming) Seq(Row(start(session, rows)))
    else { write(rows); Nil }
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
    val updated = rows.queryExecution.analyzed.exists { case a: Aggregate => a.isStreaming; case _ => false }
    val writer = rows.writeStream.outputMode(if (updated && kind != "filesystem") OutputMode.Update() else OutputMode.Append())
      .trigger(Trigger.ProcessingTime(ClientKeys.interval(session)))
      .option("checkpointLocation", Jobs.checkpoints(session, s"insert-into_$name"))
    val started = Jobs.started(session)(kind match {
      case "print" => writer.foreachBatch((batch: DataFrame, _: Long) => print(batch)).start()
      case "filesystem" => writer.format(connector.get("format").asText()).options(options)
        .start(connector.get("path").asText())
      case _ => writer.format("noop").start()
    })
    started.id.toString
  }

  private def options: Map[String, String] =
    Option(connector.get("options")).fold(Map.empty[String, String])(o => Json.stringMap(Json.parse(o.asText())))
}

object Connectors {
  private val Prefix = "flink.temporary-table."

  /** Returns the command for an INSERT into a temporary table that takes rows. */
  def claim(session: SparkSession, parsed: Object): Object = parsed match {
    case i: InsertIntoStatement => i.table match {
      case u: UnresolvedRelation if u.multipartIdentifier.size == 1 =>
        session.conf.getOption(Prefix + u.multipartIdentifier.head.toLowerCase).map(Json.parse)
          .filter(_.get("connector").asText() != "datagen")
          .fold(parsed)(ConnectorInsertCommand(u.multipartIdentifier.head, _, i.query, i.overwrite))
      case _ => parsed
    }
    case _ => parsed
  }

  def quoted(name: String): String = "`" + name.replace("`", "``") + "`"
}
