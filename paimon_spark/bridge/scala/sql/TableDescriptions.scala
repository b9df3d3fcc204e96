package org.apache.spark.sql.paimonbridge

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{DescribeRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.execution.command.DescribeCommandBase
import org.apache.spark.sql.types.StructType

/** DESCRIBE of a table without EXTENDED. Spark's command would build a serializer for its rows, which takes longer than
  * to load the table. */
object TableDescriptions extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case d: DescribeRelation if !d.isExtended && d.partitionSpec.isEmpty => d.relation match {
      case ResolvedTable(_, _, table: PaimonTable, _) => DescribePaimonTable(table, d.output)
      case _ => plan
    }
    case other => other
  }
}

/** The rows of Spark's `DescribeTableExec`: the columns, then the partition columns. */
case class DescribePaimonTable(table: PaimonTable, override val output: Seq[Attribute]) extends DescribeCommandBase {
  override def run(session: SparkSession): Seq[Row] = {
    val rows = ArrayBuffer.empty[Row]
    describeSchema(table.schema, rows, header = false)
    if (table.partitionKeys.nonEmpty) {
      append(rows, "# Partition Information", "", "")
      val partition = StructType(table.partitionKeys.map(k => table.schema(k)))
      describeSchema(partition.copy(partition.fields.map(f => f.copy(name = quoteIfNeeded(f.name)))), rows, header = true)
    }
    rows.toSeq
  }
}
