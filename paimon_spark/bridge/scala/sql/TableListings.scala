package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ShowTablesExtended}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.{quoteIfNeeded, StringUtils}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.ShowTablesExec
import org.apache.spark.sql.types.StructType

/** SHOW TABLES of a Paimon catalog. Spark's command would build a serializer for its rows, which takes longer than the
  * listing of a thousand tables. */
class PaimonShowTablesExec(
    output: Seq[Attribute],
    catalog: PaimonCatalog,
    namespace: Seq[String],
    pattern: Option[String])
    extends ShowTablesExec(output, catalog, namespace, pattern) {
  override def nodeName: String = "ShowTables"
  override protected def toCatalystRow(values: Any*): InternalRow =
    InternalRow.fromSeq(values.map(CatalystTypeConverters.convertToCatalyst))
}

/** SHOW TABLE EXTENDED of Paimon catalogs: Spark's own command loads the tables one by one and calls views tables. */
object TableListings extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case s: ShowTablesExtended => s.namespace match {
        case n: ResolvedNamespace if n.namespace.length == 1 =>
          n.catalog match {
            case _: PaimonGenericCatalog => plan
            case ours: PaimonCatalog => ShowPaimonTables(ours, n.namespace.head, s.pattern, s.output)
            case _ => plan
          }
        case _ => plan
      }
    case other => other
  }
}

case class ShowPaimonTables(
    catalog: PaimonCatalog,
    database: String,
    pattern: String,
    override val output: Seq[Attribute])
    extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val names = StringUtils.filterPattern(catalog.listTables(Array(database)).map(_.name()).toSeq, pattern)
    val own = names.zip(catalog.describeAll(Array(database), names)).collect {
      case (name, found) if !found.isNull =>
        Row(quoteIfNeeded(database), name, false, information(name, found))
    }
    val views = CreateLike.manager(session).v1SessionCatalog
    own ++ views.listLocalTempViews(pattern).map(v =>
      Row(v.database.getOrElse(""), v.table, true, views.getTempViewOrPermanentTableMetadata(v).simpleString + "\n"))
  }

  /** The lines of Spark's own command, which clients parse. */
  private def information(name: String, found: JsonNode): String = {
    val head = Seq("Catalog" -> catalog.name(), "Namespace" -> quoteIfNeeded(database), "Table" -> name)
    val rest = found.get("kind").asText() match {
      case "unreadable" => Seq("Type" -> "MANAGED", "Provider" -> "paimon", "Error" -> found.get("message").asText())
      case "view" => ofView(PaimonView.of(ViewName(catalog.name(), Identifier.of(Array(database), name)), found))
      case _ => ofTable(PaimonTable.of(catalog.ref, found))
    }
    (head ++ rest).map { case (k, v) => s"$k: $v" }.mkString("", "\n", "\n\n")
  }

  private def ofView(view: PaimonView): Seq[(String, String)] =
    Seq("Type" -> "VIEW", "Provider" -> "paimon") ++ view.definition.comment.map("Comment" -> _) ++
      Seq("View Text" -> view.definition.query, "Schema" -> tree(view.catalogTable.schema))

  private def ofTable(table: PaimonTable): Seq[(String, String)] = {
    val all = table.properties.asScala.toMap
    val shown = (all -- ShowPaimonTables.Lines).toSeq.sorted.map { case (k, v) => s"$k=$v" }.mkString("[", ",", "]")
    Seq("Type" -> "MANAGED", "Provider" -> "paimon") ++ all.get("comment").map("Comment" -> _) ++
      all.get("location").map("Location" -> _) ++ all.get("owner").map("Owner" -> _) ++
      Seq("Table Properties" -> shown) ++
      Option.when(table.partitionKeys.nonEmpty)("Partition Columns" -> table.partitionKeys.map(quoteIfNeeded).mkString(
        "[",
        ", ",
        "]")) ++
      Seq("Schema" -> tree(table.schema))
  }

  private def tree(schema: StructType): String = schema.treeString.stripSuffix("\n")
}

private object ShowPaimonTables {

  /** Properties with a line of their own. */
  val Lines = Set("comment", "location", "owner", "provider")
}
