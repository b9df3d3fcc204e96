package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.{Block, CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

/** Builds the body of one of Paimon's binary rows and hashes it (storage spec, sections 8.1 and 10). */
final class KeyHasher(arity: Int) extends Serializable {
  private val fixed = ((arity + 63 + 8) / 64) * 8 + 8 * arity
  private val slots = fixed - 8 * arity
  private var row = new Array[Byte](fixed + 64)
  private var end = fixed

  def reset(): Unit = {
    java.util.Arrays.fill(row, 0, end, 0.toByte)
    end = fixed
  }

  private def slot(i: Int): Long = Platform.BYTE_ARRAY_OFFSET + slots + 8L * i

  def setNull(i: Int): Unit = row((8 + i) / 8) = (row((8 + i) / 8) | (1 << ((8 + i) % 8))).toByte

  /** A null DECIMAL(>18) or TIMESTAMP(>3) keeps its place in the variable part. */
  def setNullReserving(i: Int, bytes: Int): Unit = {
    setNull(i)
    Platform.putLong(row, slot(i), reserve(bytes).toLong << 32)
  }

  def setByte(i: Int, v: Byte): Unit = Platform.putByte(row, slot(i), v)
  def setBoolean(i: Int, v: Boolean): Unit = Platform.putBoolean(row, slot(i), v)
  def setShort(i: Int, v: Short): Unit = Platform.putShort(row, slot(i), v)
  def setInt(i: Int, v: Int): Unit = Platform.putInt(row, slot(i), v)
  def setLong(i: Int, v: Long): Unit = Platform.putLong(row, slot(i), v)
  def setFloat(i: Int, v: Float): Unit = Platform.putFloat(row, slot(i), v)
  def setDouble(i: Int, v: Double): Unit = Platform.putDouble(row, slot(i), v)
  def setMillis(i: Int, micros: Long): Unit = setLong(i, Math.floorDiv(micros, 1000L))

  def setMicros(i: Int, micros: Long): Unit = {
    val nanoOfMilli = Math.floorMod(micros, 1000L) * 1000L
    val at = reserve(8)
    Platform.putLong(row, Platform.BYTE_ARRAY_OFFSET + at, Math.floorDiv(micros, 1000L))
    Platform.putLong(row, slot(i), (at.toLong << 32) | nanoOfMilli)
  }

  def setDecimal(i: Int, v: Decimal, precision: Int): Unit =
    if (precision <= Decimal.MAX_LONG_DIGITS) setLong(i, v.toUnscaledLong)
    else {
      val digits = v.toJavaBigDecimal.unscaledValue().toByteArray
      val at = reserve(16)
      System.arraycopy(digits, 0, row, at, digits.length)
      Platform.putLong(row, slot(i), (at.toLong << 32) | digits.length)
    }

  def setString(i: Int, v: UTF8String): Unit = setBytes(i, v.getBytes)

  def setBytes(i: Int, v: Array[Byte]): Unit =
    if (v.length <= 7) {
      System.arraycopy(v, 0, row, slots + 8 * i, v.length)
      row(slots + 8 * i + 7) = (0x80 | v.length).toByte
    } else {
      val at = reserve((v.length + 7) / 8 * 8)
      System.arraycopy(v, 0, row, at, v.length)
      Platform.putLong(row, slot(i), (at.toLong << 32) | v.length)
    }

  private def reserve(bytes: Int): Int = {
    val at = end
    end += bytes
    if (end > row.length) row = java.util.Arrays.copyOf(row, Math.max(end, row.length * 2))
    at
  }

  def hash(): Int = Murmur3_x86_32.hashUnsafeWords(row, Platform.BYTE_ARRAY_OFFSET, end, 42)
}

/**
 * Hash of a key as Paimon computes it, an INT; with `buckets` > 0 the bucket `|hash % buckets|` instead.
 * `precisions` holds, per key column, the precision of a Paimon TIMESTAMP or DECIMAL and 0 for other types.
 */
case class KeyHash(children: Seq[Expression], precisions: Seq[Int], buckets: Int) extends Expression {
  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false
  override def foldable: Boolean = false
  override def prettyName: String = if (buckets > 0) "paimon_bucket" else "paimon_key_hash"

  @transient private lazy val hasher = new KeyHasher(children.length)

  private def reservation(i: Int): Int = children(i).dataType match {
    case _: DecimalType if precisions(i) > Decimal.MAX_LONG_DIGITS => 16
    case TimestampType | TimestampNTZType if precisions(i) > 3 => 8
    case _ => 0
  }

  override def eval(input: InternalRow): Any = {
    hasher.reset()
    var i = 0
    while (i < children.length) {
      put(i, children(i).eval(input))
      i += 1
    }
    if (buckets > 0) Math.abs(hasher.hash() % buckets) else hasher.hash()
  }

  private def put(i: Int, value: Any): Unit = {
    if (value == null) {
      if (reservation(i) > 0) hasher.setNullReserving(i, reservation(i)) else hasher.setNull(i)
    } else children(i).dataType match {
      case BooleanType => hasher.setBoolean(i, value.asInstanceOf[Boolean])
      case ByteType => hasher.setByte(i, value.asInstanceOf[Byte])
      case ShortType => hasher.setShort(i, value.asInstanceOf[Short])
      case IntegerType | DateType => hasher.setInt(i, value.asInstanceOf[Int])
      case LongType => hasher.setLong(i, value.asInstanceOf[Long])
      case FloatType => hasher.setFloat(i, value.asInstanceOf[Float])
      case DoubleType => hasher.setDouble(i, value.asInstanceOf[Double])
      case _: DecimalType => hasher.setDecimal(i, value.asInstanceOf[Decimal], precisions(i))
      case BinaryType => hasher.setBytes(i, value.asInstanceOf[Array[Byte]])
      case TimestampType | TimestampNTZType if precisions(i) > 3 => hasher.setMicros(i, value.asInstanceOf[Long])
      case TimestampType | TimestampNTZType => hasher.setMillis(i, value.asInstanceOf[Long])
      case _ => hasher.setString(i, value.asInstanceOf[UTF8String])
    }
  }

  private def setter(i: Int, hasher: String, value: String): String = children(i).dataType match {
    case BooleanType => s"$hasher.setBoolean($i, $value);"
    case ByteType => s"$hasher.setByte($i, $value);"
    case ShortType => s"$hasher.setShort($i, $value);"
    case IntegerType | DateType => s"$hasher.setInt($i, $value);"
    case LongType => s"$hasher.setLong($i, $value);"
    case FloatType => s"$hasher.setFloat($i, $value);"
    case DoubleType => s"$hasher.setDouble($i, $value);"
    case _: DecimalType => s"$hasher.setDecimal($i, $value, ${precisions(i)});"
    case BinaryType => s"$hasher.setBytes($i, $value);"
    case TimestampType | TimestampNTZType if precisions(i) > 3 => s"$hasher.setMicros($i, $value);"
    case TimestampType | TimestampNTZType => s"$hasher.setMillis($i, $value);"
    case _ => s"$hasher.setString($i, $value);"
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val kind = classOf[KeyHasher].getName
    val hasher = ctx.addMutableState(kind, "keyHasher", v => s"$v = new $kind(${children.length});")
    val steps = children.zipWithIndex.map { case (child, i) =>
      val code = child.genCode(ctx)
      val whenNull =
        if (reservation(i) > 0) s"$hasher.setNullReserving($i, ${reservation(i)});" else s"$hasher.setNull($i);"
      s"${code.code}\nif (${code.isNull}) { $whenNull } else { ${setter(i, hasher, code.value.toString)} }"
    }
    val body = ctx.splitExpressionsWithCurrentInputs(steps, "paimonKeyHash")
    val result = if (buckets > 0) s"Math.abs($hasher.hash() % $buckets)" else s"$hasher.hash()"
    val block: Block = code"""
      $hasher.reset();
      $body
      int ${ev.value} = $result;"""
    ev.copy(code = block, isNull = org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression =
    copy(children = newChildren)
}
