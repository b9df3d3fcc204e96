package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{ApplyFunctionExpression, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.functions.{BoundFunction, ScalarFunction, UnboundFunction}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** `max_pt('table')`: the greatest value of the first partition column among partitions with files. */
private[paimonbridge] object MaxPartition extends UnboundFunction {
  val Usage = "Write max_pt('table') with the name of a partitioned Paimon table."
  override val name: String = "max_pt"
  override def description(): String = s"$name: the greatest value of the first partition column, as text. $Usage"

  override def bind(inputType: StructType): BoundFunction = inputType.map(_.dataType) match {
    case Seq(_: StringType) => BoundMaxPartition
    case types => throw new UnsupportedOperationException(
        s"[INVALID_ARGUMENT] The function $name takes the name of a table, not " +
          s"(${types.map(_.sql).mkString(", ")}). $Usage")
  }
}

/** The function as Spark resolves it; [[MaxPartitions]] replaces it by its value. */
private object BoundMaxPartition extends ScalarFunction[UTF8String] {
  override def inputTypes(): Array[DataType] = Array(StringType)
  override def resultType(): DataType = StringType
  override def name(): String = MaxPartition.name
  override def canonicalName(): String = "paimon.max_pt(string)"
  override def isResultNullable: Boolean = false
  override def produceResult(row: InternalRow): UTF8String = throw MaxPartitions.refused("The argument of max_pt")
}

/** Replaces `max_pt` by its value while a query is analysed, so that the value prunes partitions. */
case class MaxPartitions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveExpressions {
    case ApplyFunctionExpression(BoundMaxPartition, Seq(argument)) => Literal(MaxPartitions.value(session, argument))
  }
}

private object MaxPartitions {
  def refused(what: String): PaimonException = new PaimonException(
    s"[INVALID_ARGUMENT] $what is not the name of a Paimon table. ${MaxPartition.Usage}",
    "INVALID_ARGUMENT")

  def value(session: SparkSession, argument: Expression): String = {
    val text = if (argument.resolved && argument.foldable) Option(argument.eval()).map(_.toString) else None
    val given = text.getOrElse(throw refused(s"The argument ${argument.sql} of max_pt"))
    val parser = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.sqlParser
    CreateLike.locate(CreateLike.manager(session), parser.parseMultipartIdentifier(given)) match {
      case (catalog: PaimonCatalog, ident) if ident.namespace().length == 1 =>
        Engine.json(
          "max_partition",
          Map("database" -> ident.namespace()(0), "name" -> ident.name()),
          catalog.ref,
          namespace = ident.namespace().toSeq,
          name = catalog.name() +: ident.namespace().toSeq :+ ident.name())
          .get("value").asText()
      case _ => throw refused(s"'$given', the argument of max_pt,")
    }
  }
}
