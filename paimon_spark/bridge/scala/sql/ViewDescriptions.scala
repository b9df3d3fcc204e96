package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.AliasIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedPersistentView, ResolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{
  AnalyzeColumn,
  AnalyzeTable,
  DescribeRelation,
  LogicalPlan,
  ShowCreateTable,
  SubqueryAlias,
  TruncateTable,
  View
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.{escapeSingleQuotedString, quoteIfNeeded}
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier}
import org.apache.spark.sql.execution.command.LeafRunnableCommand

/** DESCRIBE and SHOW CREATE TABLE of views; Spark's commands would describe a table. What only tables can do fails. A
  * plan that is no more than a view is a question of `spark.catalog`, which calls all but `ResolvedPersistentView` a
  * table. */
object ViewDescriptions extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case d: DescribeRelation => of(d.relation).fold(plan)(DescribeView(_, d.isExtended, d.output))
    case s: ShowCreateTable => of(s.child).fold(plan)(ShowCreateView(_, s.output))
    case t: TruncateTable => of(t.table).fold(plan)(refused(_, "TRUNCATE TABLE"))
    case a: AnalyzeTable => of(a.child).fold(plan)(refused(_, "ANALYZE TABLE"))
    case a: AnalyzeColumn => of(a.child).fold(plan)(refused(_, "ANALYZE TABLE"))
    case ResolvedTable(catalog, ident, view: PaimonView, _) => persistent(catalog, ident, view)
    case other => other
  }

  /** Releases from 4.2 on take a `V1View` in place of its metadata. */
  private def persistent(catalog: CatalogPlugin, ident: Identifier, view: PaimonView): LogicalPlan = {
    val made = classOf[ResolvedPersistentView].getConstructors.head
    val metadata = if (made.getParameterTypes.last == classOf[CatalogTable]) view.catalogTable
    else Class.forName("org.apache.spark.sql.connector.catalog.V1View").getConstructor(classOf[CatalogTable])
      .newInstance(view.catalogTable).asInstanceOf[AnyRef]
    made.newInstance(catalog, ident, metadata).asInstanceOf[LogicalPlan]
  }

  private def refused(view: PaimonView, statement: String): Nothing = throw new PaimonException(
    s"[UNSUPPORTED_FEATURE] '${view.viewName.quoted}' is a view, and $statement is for tables. " +
      "Name a table that it reads.",
    "UNSUPPORTED_FEATURE")

  private def of(relation: LogicalPlan): Option[PaimonView] = relation match {
    case ResolvedTable(_, _, view: PaimonView, _) => Some(view)
    case _ => None
  }
}

case class DescribeView(view: PaimonView, extended: Boolean, override val output: Seq[Attribute])
    extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val columns =
      view.catalogTable.schema.fields.toSeq.map(f => Row(f.name, f.dataType.simpleString, f.getComment().orNull))
    if (extended) columns ++ (Row("", "", "") +: details.map { case (k, v) => Row(k, v, "") }) else columns
  }

  private def details: Seq[(String, String)] = {
    val metadata = view.catalogTable
    Seq(
      "# Detailed View Information" -> "",
      "Catalog" -> view.viewName.catalog,
      "Database" -> view.viewName.ident.namespace().mkString("."),
      "Table" -> view.viewName.ident.name(),
      "Type" -> "VIEW",
      "Provider" -> "paimon") ++ view.definition.comment.map("Comment" -> _) ++
      Seq(
        "View Text" -> view.definition.query,
        "View Schema Mode" -> metadata.viewSchemaMode.toString,
        "View Catalog and Namespace" -> metadata.viewCatalogAndNamespace.map(quoteIfNeeded).mkString("."),
        "View Query Output Columns" -> metadata.viewQueryColumnNames.map(quoteIfNeeded).mkString("[", ", ", "]"),
        "Table Properties" -> view.definition.properties.toSeq.sorted.map { case (k, v) => s"$k=$v" }.mkString(
          "[",
          ", ",
          "]"))
  }
}

/** The statement that creates the view; its query is resolved in the current catalog and database. */
case class ShowCreateView(view: PaimonView, override val output: Seq[Attribute]) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val columns = view.catalogTable.schema.fields.map(f =>
      s"  ${quoteIfNeeded(f.name)}" + f.getComment().fold("")(c => s" COMMENT ${literal(c)}"))
    val properties = view.definition.properties.toSeq.sorted.map { case (k, v) => s"  ${literal(k)} = ${literal(v)}" }
    val parts = Seq(s"CREATE VIEW ${view.viewName.quoted} (${columns.mkString("\n", ",\n", ")")}") ++
      view.definition.comment.map(c => s"COMMENT ${literal(c)}") ++
      Option.when(properties.nonEmpty)(s"TBLPROPERTIES (${properties.mkString("\n", ",\n", ")")}") ++
      Seq(s"WITH SCHEMA ${view.catalogTable.viewSchemaMode}", s"AS ${view.definition.query}")
    Seq(Row(parts.mkString("", "\n", "\n")))
  }

  private def literal(text: String): String = s"'${escapeSingleQuotedString(text)}'"
}

/** Names the catalog of a view in its qualified columns; some releases of Spark name the session catalog. */
object ViewAliases extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case SubqueryAlias(AliasIdentifier(name, PaimonGeneric.Name +: rest), view: View)
        if !view.isTempView && view.desc.identifier.catalog.exists(_ != PaimonGeneric.Name) =>
      SubqueryAlias(AliasIdentifier(name, view.desc.identifier.catalog.get +: rest), view)
  }
}
