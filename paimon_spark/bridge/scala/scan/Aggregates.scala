package org.apache.spark.sql.paimonbridge

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  And,
  Attribute,
  Expression,
  GenericInternalRow,
  NamedExpression,
  UnsafeProjection
}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.expressions.aggregate._
import org.apache.spark.sql.connector.read.{LocalScan, Scan}
import org.apache.spark.sql.execution.{FilterExec, LeafExecNode, ProjectExec, SparkPlan}
import org.apache.spark.sql.types._

/** Aggregates that the engine may answer from metadata, and the columns from which Spark computes them otherwise. */
case class MetadataQuery(
    aggregates: Seq[Seq[String]],
    groupBy: Seq[String],
    columns: StructType,
    schema: StructType,
    shown: String) {
  def answer(request: Map[String, Any], ask: Map[String, Any] => JsonNode): MetadataAnswer =
    new MetadataAnswer(this, request, ask(request ++ Map("aggregates" -> aggregates, "group_by" -> groupBy)))
}

/** The engine's answer: rows, or the plan of a read. */
class MetadataAnswer(val query: MetadataQuery, val request: Map[String, Any], answer: JsonNode) {
  val rows: Option[Seq[InternalRow]] =
    Json.optional(answer, "rows").map(Json.items(_).map(row => Values.row(Json.items(row), query.schema)).toSeq)
  def plan: Option[JsonNode] = Json.optional(answer, "plan")
  def scan(table: PaimonTable): Option[Scan] = rows.map(r =>
    new AggregateScan(query.schema, r.toArray, s"${table.name} ${answer.get("info").asText()}, ${query.shown}"))
}

object MetadataAnswer {

  /** The request for an aggregation of plain columns by partition columns; None for all others. */
  def query(table: PaimonTable, aggregation: Aggregation): Option[MetadataQuery] = {
    val plain = CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.schema)
    val calls = aggregation.aggregateExpressions().toSeq.map(call(table, plain, _))
    val groups =
      aggregation.groupByExpressions().toSeq.map(Predicates.Column.unapply(_).filter(table.partitionKeys.contains))
    if (!table.isData || calls.exists(_.isEmpty) || groups.exists(_.isEmpty)) None
    else {
      val (found, keys) = (calls.flatten, groups.flatten)
      val read = (keys ++ found.map(_._1(1))).toSet
      val shown =
        Seq("PushedAggregation" -> aggregation.aggregateExpressions().map(_.toString).toSeq, "PushedGroupBy" -> keys)
      Some(MetadataQuery(
        found.map(_._1),
        keys,
        StructType(plain.filter(f => read(f.name))),
        StructType(keys.map(plain(_)) ++ found.map(_._2)),
        shown.filter(_._2.nonEmpty).map { case (k, v) => s"$k=${v.mkString("[", ", ", "]")}" }.mkString(", ")))
    }
  }

  /** Function and column of an aggregate, and the field of its results. */
  private def call(
      table: PaimonTable,
      schema: StructType,
      function: AggregateFunc): Option[(Seq[String], StructField)] = {
    def of(name: String, column: Any, ofType: Option[DataType]) = column match {
      case Predicates.Column(c) if schema.fieldNames.contains(c) =>
        Some((Seq(name, c), StructField(function.toString, ofType.getOrElse(schema(c).dataType))))
      case _ => None
    }
    function match {
      case _: CountStar => Some((Seq("count_rows", ""), StructField(function.toString, LongType, nullable = false)))
      case c: Count if !c.isDistinct => of("count", c.column(), Some(LongType))
      case c: Count =>
        of("count_distinct", c.column(), Some(LongType)).filter(found => table.partitionKeys.contains(found._1(1)))
      case m: Min => of("min", m.column(), None)
      case m: Max => of("max", m.column(), None)
      case _ => None
    }
  }
}

/** Aggregates from metadata. */
class AggregateScan(override val readSchema: StructType, override val rows: Array[InternalRow], val info: String)
    extends LocalScan {
  override def description(): String = s"PaimonMetadata $info"
}

/** Rows that are known while a query is planned; they take no job. EXPLAIN shows their source.
  *
  * It generates no code: a stage of generated code would start a job. */
case class PaimonMetadataExec(info: String, output: Seq[Attribute], rows: Seq[InternalRow]) extends LeafExecNode {
  override def nodeName: String = "PaimonMetadata"
  override def simpleString(maxFields: Int): String = s"PaimonMetadata $info"
  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\nRead: $info\n"
  @transient private lazy val unsafe: Array[InternalRow] = {
    val copy = UnsafeProjection.create(output, output)
    rows.map(copy(_).copy(): InternalRow).toArray
  }
  @transient private lazy val rdd: RDD[InternalRow] = session.sparkContext.parallelize(unsafe.toIndexedSeq, 1)
  override protected def doExecute(): RDD[InternalRow] = rdd
  override def executeCollect(): Array[InternalRow] = unsafe
  override def executeTake(limit: Int): Array[InternalRow] = unsafe.take(limit)
  override def executeTail(limit: Int): Array[InternalRow] = unsafe.takeRight(limit)
}

object PaimonMetadataExec {

  /** The rows of a scan with the filters and the projection of the query. Columns are chosen here; anything that may
    * fail, or wait for another query, is left to Spark. */
  def of(
      scan: AggregateScan,
      output: Seq[Attribute],
      filters: Seq[Expression],
      project: Seq[NamedExpression]): SparkPlan = {
    def place(e: Expression): Int = e match {
      case Alias(child, _) => place(child)
      case a: Attribute => output.indexWhere(_.exprId == a.exprId)
      case _ => -1
    }
    def rows(columns: Seq[NamedExpression]): PaimonMetadataExec = {
      val places = columns.map(place)
      val values = scan.rows.map(row =>
        new GenericInternalRow(
          places.map(i => row.get(i, output(i).dataType)).toArray): InternalRow).toSeq
      PaimonMetadataExec(scan.info, columns.map(_.toAttribute), values)
    }
    val plain = filters.isEmpty && project.forall(place(_) >= 0)
    if (plain) rows(project)
    else ProjectExec(project, filters.reduceOption(And).fold[SparkPlan](rows(output))(FilterExec(_, rows(output))))
  }
}
