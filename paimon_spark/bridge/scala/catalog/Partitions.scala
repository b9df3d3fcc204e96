package org.apache.spark.sql.paimonbridge

import scala.util.Try

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog, TableChange}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.PartitioningUtils

/** ALTER TABLE … DROP PARTITION, hidden from Spark's analyzer, which accepts full specs only. */
case class PaimonDropPartitions(
    child: LogicalPlan,
    parts: Seq[UnresolvedPartitionSpec],
    ifExists: Boolean,
    purge: Boolean) extends UnaryNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** Before table resolution: hides the statement if any Paimon catalog is configured. */
case class KeepDropPartitions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case DropPartitions(table: UnresolvedTable, parts, ifExists, purge)
        if parts.forall(_.isInstanceOf[UnresolvedPartitionSpec]) && Extensions.catalogs(session).nonEmpty =>
      PaimonDropPartitions(table, parts.map(_.asInstanceOf[UnresolvedPartitionSpec]), ifExists, purge)
    case other => other
  }
}

/** After table resolution: executes it for Paimon tables, and restores Spark's plan for others. */
case class ResolveDropPartitions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case PaimonDropPartitions(ResolvedTable(catalog, ident, table: PaimonPartitionedTable, _), parts, ifExists, _) =>
      val specs = parts.map(p => PaimonDropCommand.normal(table, p, conf.resolver))
      PaimonDropCommand(table, catalog, ident, specs, ifExists)
    case PaimonDropPartitions(child, parts, ifExists, purge) if child.resolved =>
      DropPartitions(child, parts, ifExists, purge)
    case other => other
  }
}

/** Drops, in one commit, all partitions that match any of the specs. A full spec names one partition, which must
  * exist; a partial spec selects among the existing ones. */
case class PaimonDropCommand(
    table: PaimonPartitionedTable,
    catalog: TableCatalog,
    ident: Identifier,
    specs: Seq[Map[String, String]],
    ifExists: Boolean) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val found = specs.map(spec => spec -> matching(spec))
    val missing = found.collect { case (spec, Array()) if spec.size == table.partitionKeys.size => spec }
    if (missing.nonEmpty && !ifExists) {
      val name = table.name.split('.')
      throw new NoSuchPartitionsException(name.init.mkString("."), name.last, missing)
    }
    val chosen = found.flatMap(_._2) // not distinct: 0.0 and -0.0 are two partitions
    if (chosen.nonEmpty) {
      table.dropPartitions(chosen.toArray)
      val relation = DataSourceV2Relation.create(table, Some(catalog), Some(ident))
      CachedRows.refresh(session.asInstanceOf[ClassicSession], relation)
    }
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

  /** The spec with the table's own column names. */
  def normal(table: PaimonPartitionedTable, spec: UnresolvedPartitionSpec, resolver: Resolver): Map[String, String] =
    PartitioningUtils.normalizePartitionSpec(spec.spec, table.partitionSchema, table.name, resolver)
}

/** Before table resolution: reports invalid partition specs and column positions with the table's column names.
  * Spark's own messages lack them, or name another column. */
case class CheckAlteredNames(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case c: V2PartitionCommand => named(c.table).foreach(checkSpecs(_, c))
      case a: AddColumns => named(a.table).foreach(checkPlaces(_, a))
      case _ =>
    }
    plan
  }

  private def named(plan: LogicalPlan): Option[PaimonTable] = plan match {
    case t: UnresolvedTable if Extensions.ours(session, t.multipartIdentifier) =>
      val (catalog, ident) = CreateLike.locate(CreateLike.manager(session), t.multipartIdentifier)
      Try(catalog.loadTable(ident)).toOption.collect { case table: PaimonTable => table }
    case _ => None
  }

  private def checkSpecs(table: PaimonTable, command: V2PartitionCommand): Unit = table match {
    case parts: PaimonPartitionedTable => command.expressions.foreach {
        case spec: UnresolvedPartitionSpec => spec.spec.foreach { case (name, text) => check(parts, name, text) }
        case _ =>
      }
    case _ => throw wrong(s"Table ${table.name} has no partitions.", "INVALID_ARGUMENT")
  }

  private def check(table: PaimonPartitionedTable, name: String, text: String): Unit = {
    val columns = table.partitionSchema.fields
    val field = columns.find(f => conf.resolver(f.name, name)).getOrElse {
      val own = table.schema.fieldNames.exists(conf.resolver(_, name))
      throw wrong(
        s"'$name' is not a ${if (own) "partition " else ""}column of table ${table.name}. " +
          s"Its partition columns are ${columns.map(_.name).mkString(", ")}.",
        if (own) "INVALID_ARGUMENT" else "COLUMN_NOT_FOUND")
    }
    val given = text != null && text != ExternalCatalogUtils.DEFAULT_PARTITION_NAME
    val value = Try(PartitioningUtils.castPartitionSpec(text, field.dataType, conf).eval()).getOrElse(null)
    if (given && value == null)
      throw wrong(
        s"'$text' is not a value of the partition column '${field.name}' of table ${table.name}, which has " +
          s"the type ${field.dataType.sql}. SHOW PARTITIONS ${table.name} lists the partitions.",
        "TYPE_MISMATCH")
  }

  private def checkPlaces(table: PaimonTable, command: AddColumns): Unit = {
    val columns = table.schema.fieldNames ++ command.columnsToAdd.filter(_.path.isEmpty).map(_.colName)
    for (added <- command.columnsToAdd if added.path.isEmpty; place <- added.position) place.position match {
      case after: TableChange.After if !columns.exists(conf.resolver(_, after.column())) =>
        throw wrong(
          s"Table ${table.name} has no column '${after.column()}' to add '${added.colName}' after. " +
            s"Its columns are ${table.schema.fieldNames.mkString(", ")}.",
          "COLUMN_NOT_FOUND")
      case _ =>
    }
  }

  private def wrong(text: String, code: String) = new PaimonException(s"[$code] $text", code)
}
