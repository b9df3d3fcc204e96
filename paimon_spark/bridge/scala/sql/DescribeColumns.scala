package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{DescribeRelation, LocalRelation}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.Column
import org.apache.spark.sql.connector.expressions.IdentityTransform
import org.apache.spark.sql.execution.command.DescribeQueryCommand

/** DESCRIBE of a Paimon table. Spark's command would build a serializer for its rows, which takes longer than the rest
  * of the statement. `spark-sql` aligns the rows of commands that describe; this is the one that all releases of Spark
  * construct in the same way. */
class DescribeColumns(table: PaimonTable, heading: Seq[Attribute])
    extends DescribeQueryCommand("", LocalRelation(heading)) {
  override def simpleString(maxFields: Int): String = s"DescribeTable ${table.name}"

  override def run(session: SparkSession): Seq[Row] = {
    val columns = table.columns().toSeq
    val keys = table.partitioning().toSeq.collect { case IdentityTransform(key) => key.fieldNames().head }
    val parts = keys.flatMap(key => columns.find(_.name() == key))
    val heads =
      if (parts.isEmpty) Nil
      else Seq(Row("# Partition Information", "", ""), Row(s"# ${heading(0).name}", heading(1).name, heading(2).name))
    columns.map(c => row(c.name(), c)) ++ heads ++ parts.map(c => row(quoteIfNeeded(c.name()), c))
  }

  private def row(name: String, column: Column) = Row(name, column.dataType().simpleString, column.comment())
}

object DescribeColumns {

  /** The command for a DESCRIBE of a Paimon table without EXTENDED. */
  def of(statement: DescribeRelation): Option[DescribeColumns] = statement.relation match {
    case ResolvedTable(_, _, table: PaimonTable, _) if !statement.isExtended && !ofPartition(statement) =>
      Some(new DescribeColumns(table, statement.output))
    case _ => None
  }

  /** Up to Spark 4.1, a partition is part of the statement. */
  private def ofPartition(statement: DescribeRelation): Boolean = statement.productIterator.exists {
    case values: Map[_, _] => values.nonEmpty
    case _ => false
  }
}
