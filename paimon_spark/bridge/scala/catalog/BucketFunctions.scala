package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.connector.catalog.functions.{BoundFunction, ScalarFunction, UnboundFunction}
import org.apache.spark.sql.types._

/** A bucket function of tables as an SQL function: the number of buckets, then the columns of the key. */
private[paimonbridge] class UnboundBucket(override val name: String, function: String) extends UnboundFunction {
  private val usage = s"Write $name(number of buckets, columns of the bucket key)."
  override def description(): String = s"$name: the bucket of a key by the bucket function '$function'. $usage"

  /** Spark reports this exception, and no other, as an error of the statement. */
  override def bind(inputType: StructType): BoundFunction =
    try bound(inputType.map(_.dataType))
    catch { case e: PaimonException => throw new UnsupportedOperationException(e.getMessage, e) }

  private def bound(types: Seq[DataType]): BoundFunction = types.headOption match {
    case Some(IntegerType | ShortType | ByteType) if types.length > 1 => new BoundBucket(name, function, types.tail)
    case _ => throw new PaimonException(
        s"[INVALID_ARGUMENT] The function $name takes an INT and at least one column, " +
          s"not (${types.map(_.sql).mkString(", ")}). $usage",
        "INVALID_ARGUMENT")
  }
}

private class BoundBucket(override val name: String, function: String, types: Seq[DataType])
    extends ScalarFunction[Integer] {
  private val precisions = types.map { case TimestampType | TimestampNTZType => BoundBucket.Micros; case _ => 0 }
  check()

  private val key = PaimonKeyHash(
    function,
    types.zipWithIndex.map { case (t, i) => BoundReference(i + 1, t, nullable = true) }
      :+ BoundReference(0, IntegerType, nullable = false),
    precisions)

  override def inputTypes(): Array[DataType] = (IntegerType +: types).toArray
  override def resultType(): DataType = IntegerType
  override def canonicalName(): String = s"paimon.$name(${types.map(_.catalogString).mkString(", ")})"

  override def produceResult(row: InternalRow): Integer =
    if (row.isNullAt(0)) null
    else if (row.getInt(0) < 1) throw new PaimonException(
      s"[INVALID_ARGUMENT] The function $name got ${row.getInt(0)} " +
        "as the number of buckets. Give a positive number.",
      "INVALID_ARGUMENT")
    else key.eval(row).asInstanceOf[Int]

  /** Rejects types that a table with this function does not accept for its bucket key. */
  private def check(): Unit = {
    types.zip(precisions).foreach { case (t, precision) => KeyColumn.of(t, precision) }
    function match {
      case "mod" if types.length != 1 || !Set[DataType](IntegerType, LongType)(types.head) =>
        KeyHasher.unsupported("mod", types.map(_.catalogString).mkString(", "))
      case "hive" => types.find(t => t == TimestampType || t == TimestampNTZType)
          .foreach(t => KeyHasher.unsupported("hive", t.catalogString))
      case _ =>
    }
  }
}

private object BoundBucket {
  val Micros = 6
}
