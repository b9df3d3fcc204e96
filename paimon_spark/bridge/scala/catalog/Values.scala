package org.apache.spark.sql.paimonbridge

import java.util.Base64

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.Row
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Single values as JSON text in Spark's internal representation: dates are days, timestamps microseconds. */
object Values {

  /** The text of a value, or None for an unsupported type. */
  def encode(value: Any, dataType: DataType): Option[Any] = (value, dataType) match {
    case (null, _) => Some(null)
    case (v, BooleanType) => Some(v.toString)
    case (v, ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType) =>
      Some(v.toString)
    case (v: Float, FloatType) => Some(v.toString)
    case (v: Double, DoubleType) => Some(v.toString)
    case (v: Decimal, _: DecimalType) => Some(v.toJavaBigDecimal.toPlainString)
    case (v: UTF8String, _: StringType) => Some(v.toString)
    case (v: Array[Byte], BinaryType) => Some(Base64.getEncoder.encodeToString(v))
    case _ => None
  }

  def decode(node: JsonNode, dataType: DataType): Any =
    if (node == null || node.isNull) null
    else dataType match {
      case BooleanType => node.asText().toBoolean
      case ByteType => node.asText().toByte
      case ShortType => node.asText().toShort
      case IntegerType | DateType => node.asText().toInt
      case LongType | TimestampType | TimestampNTZType => node.asText().toLong
      case FloatType => node.asText().toFloat
      case DoubleType => node.asText().toDouble
      case d: DecimalType => Decimal(BigDecimal(node.asText()), d.precision, d.scale)
      case BinaryType => Base64.getDecoder.decode(node.asText())
      case _: StringType => UTF8String.fromString(node.asText())
      case other => throw new IllegalArgumentException(s"No value of type ${other.catalogString} is expected here")
    }

  def row(values: Seq[JsonNode], schema: StructType): InternalRow =
    new GenericInternalRow(values.zip(schema.fields).map { case (v, f) => decode(v, f.dataType) }.toArray[Any])

  def externalRow(values: Seq[JsonNode], schema: StructType): Row =
    CatalystTypeConverters.createToScalaConverter(schema)(row(values, schema)).asInstanceOf[Row]
}
