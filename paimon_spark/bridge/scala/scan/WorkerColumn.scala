package org.apache.spark.sql.paimonbridge

import org.apache.arrow.vector._
import sun.misc.Unsafe

import org.apache.spark.sql.types.Decimal
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** A column of a batch from a Python worker. Its memory belongs to the reader of the stream, which fills the same
  * vectors again and closes them when the task ends: an operator that is done with the batch must not close them. */
private class WorkerColumn(vector: ValueVector) extends ArrowColumnVector(vector) {
  override def close(): Unit = ()
}

private object WorkerColumn {
  def apply(column: ColumnVector): WorkerColumn = column.asInstanceOf[ArrowColumnVector].getValueVector match {
    case v: DecimalVector if v.getPrecision <= Decimal.MAX_LONG_DIGITS => new CompactDecimals(v)
    case v @ (_: TinyIntVector | _: SmallIntVector | _: IntVector | _: BigIntVector | _: Float4Vector |
        _: Float8Vector | _: DateDayVector | _: TimeStampMicroVector | _: TimeStampMicroTZVector) =>
      new Numbers(v.asInstanceOf[BaseFixedWidthVector])
    case v: VarCharVector => new Strings(v)
    case v => new WorkerColumn(v)
  }
}

/** Reads the vector's memory itself: Arrow checks the bounds and the reference count of a buffer at each value. */
private abstract class DirectColumn(vector: FieldVector) extends WorkerColumn(vector) {
  private val noNulls = vector.getNullCount == 0
  private val validity = vector.getValidityBufferAddress

  final override def isNullAt(row: Int): Boolean =
    !noNulls && (Platform.getByte(null, validity + (row >> 3)) & (1 << (row & 7))) == 0
}

private final class Numbers(vector: BaseFixedWidthVector) extends DirectColumn(vector) {
  private val data = vector.getDataBufferAddress

  override def getByte(row: Int): Byte = Platform.getByte(null, data + row)
  override def getShort(row: Int): Short = Platform.getShort(null, data + 2L * row)
  override def getInt(row: Int): Int = Platform.getInt(null, data + 4L * row)
  override def getLong(row: Int): Long = Platform.getLong(null, data + 8L * row)
  override def getFloat(row: Int): Float = Platform.getFloat(null, data + 4L * row)
  override def getDouble(row: Int): Double = Platform.getDouble(null, data + 8L * row)
}

/** Decimals whose digits fit into the lower of their two words. */
private final class CompactDecimals(vector: DecimalVector) extends DirectColumn(vector) {
  private val data = vector.getDataBufferAddress

  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
    if (isNullAt(row)) null else Decimal.createUnsafe(Platform.getLong(null, data + 16L * row), precision, scale)
}

private final class Strings(vector: VarCharVector) extends DirectColumn(vector) {
  private val data = vector.getDataBufferAddress
  private val offsets = vector.getOffsetBufferAddress
  private val ascii = {
    val rows = vector.getValueCount
    rows > 0 && CharacterCounts.areBytes(data, Platform.getInt(null, offsets + 4L * rows))
  }

  override def getUTF8String(row: Int): UTF8String =
    if (isNullAt(row)) null
    else {
      val begin = Platform.getInt(null, offsets + 4L * row)
      val bytes = Platform.getInt(null, offsets + 4L * (row + 1)) - begin
      val text = UTF8String.fromAddress(null, data + begin, bytes)
      if (ascii) CharacterCounts.keep(text, bytes)
      text
    }
}

/** The number of characters that a string keeps once its bytes were counted one by one, which in ASCII is known. */
private object CharacterCounts {
  private val NotAscii = 0x8080808080808080L
  private val unsafe = {
    val field = classOf[Unsafe].getDeclaredField("theUnsafe")
    field.setAccessible(true)
    field.get(null).asInstanceOf[Unsafe]
  }

  /** The place of the kept number; -1 in a release of Spark whose strings keep none. */
  private val place =
    classOf[UTF8String].getDeclaredFields.find(f => f.getName == "numChars" && f.getType == Integer.TYPE)
      .fold(-1L)(unsafe.objectFieldOffset)

  /** Whether the counts are to be kept: all bytes are ASCII, and strings have a place for them. */
  def areBytes(address: Long, bytes: Int): Boolean = place >= 0 && {
    val end = address + bytes
    val last = end - 7
    var at = address
    while (at < last && (Platform.getLong(null, at) & NotAscii) == 0) at += 8
    while (at < end && Platform.getByte(null, at) >= 0) at += 1
    at == end
  }

  def keep(text: UTF8String, characters: Int): Unit = Platform.putInt(text, place, characters)
}
