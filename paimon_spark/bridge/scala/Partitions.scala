package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.util.PartitioningUtils

/** ALTER TABLE … DROP PARTITION, kept from Spark's own analysis, which accepts whole specs only. */
case class PaimonDropPartitions(child: LogicalPlan, parts: Seq[UnresolvedPartitionSpec], ifExists: Boolean,
    purge: Boolean) extends UnaryNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** Before tables are resolved: keep the statement where there are tables of ours at all. */
case class KeepDropPartitions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case DropPartitions(table: UnresolvedTable, parts, ifExists, purge)
        if parts.forall(_.isInstanceOf[UnresolvedPartitionSpec]) && Extensions.catalogs(session).nonEmpty =>
      PaimonDropPartitions(table, parts.map(_.asInstanceOf[UnresolvedPartitionSpec]), ifExists, purge)
    case other => other
  }
}

/** When the table is known: ours are served here, all others go on as they would have. */
case class ResolveDropPartitions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case PaimonDropPartitions(ResolvedTable(_, _, table: PaimonPartitionedTable, _), parts, ifExists, _) =>
      PaimonDropCommand(table, parts.map(p => PaimonDropCommand.normal(table, p, conf.resolver)), ifExists)
    case PaimonDropPartitions(child, parts, ifExists, purge) if child.resolved =>
      DropPartitions(child, parts, ifExists, purge)
    case other => other
  }
}

/** Drops, in one commit, all partitions that match any of the specs. A whole spec names one partition, which has to be
  * there; the others choose among those that are. */
case class PaimonDropCommand(table: PaimonPartitionedTable, specs: Seq[Map[String, String]], ifExists: Boolean)
    extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val found = specs.map(spec => spec -> matching(spec))
    val missing = found.collect { case (spec, Array()) if spec.size == table.partitionKeys.size => spec }
    if (missing.nonEmpty && !ifExists) {
      val name = table.name.split('.')
      throw new NoSuchPartitionsException(name.init.mkString("."), name.last, missing)
    }
    val chosen = found.flatMap(_._2).distinct
    if (chosen.nonEmpty) table.dropPartitions(chosen.toArray)
    Nil
  }

  private def matching(spec: Map[String, String]): Array[InternalRow] = {
    val names = table.partitionSchema.fieldNames.filter(spec.contains)
    val values = names.map { n =>
      PartitioningUtils.castPartitionSpec(spec(n), table.partitionSchema(n).dataType, conf).eval()
    }
    table.listPartitionIdentifiers(names, InternalRow.fromSeq(values.toSeq))
  }
}

object PaimonDropCommand {
  /** The spec under the table's own column names. */
  def normal(table: PaimonPartitionedTable, spec: UnresolvedPartitionSpec, resolver: Resolver): Map[String, String] =
    PartitioningUtils.normalizePartitionSpec(spec.spec, table.partitionSchema, table.name, resolver)
}
