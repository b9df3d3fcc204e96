package org.apache.spark.sql.paimonbridge

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/** Fills the vectors of one Arrow batch after the other with rows. */
abstract class RowPacker(val root: VectorSchemaRoot) {
  def write(row: UnsafeRow): Unit

  /** Completes the batch. */
  def finish(): Unit

  /** Starts a batch in the same memory. */
  def reset(): Unit

  /** Releases the memory, because the next batch may be small. */
  def release(): Unit = root.getFieldVectors.forEach { vector =>
    vector.clear()
    vector.setInitialCapacity(RowPacker.FirstRows)
    vector.allocateNew()
  }
}

object RowPacker {
  private val FirstRows = 64

  def apply(schema: StructType, zone: String, large: Boolean): RowPacker = {
    val spark = ArrowWriter.create(schema, zone, true, large)
    val columns = spark.root.getFieldVectors.asScala.zip(schema).map { case (v, f) => PackedColumn(v, f.dataType) }
    val packer = if (columns.forall(_.isDefined)) new DirectPacker(spark.root, columns.flatten.toArray)
    else new SparkPacker(spark)
    packer.release()
    packer
  }
}

/** Packs columns of all types, through Arrow's checked access. */
private final class SparkPacker(writer: ArrowWriter) extends RowPacker(writer.root) {
  override def write(row: UnsafeRow): Unit = writer.write(row)
  override def finish(): Unit = writer.finish()
  override def reset(): Unit = writer.reset()
}

/** Writes the memory of the vectors itself: Arrow checks the bounds and the reference count of a buffer several times
  * for each value. */
private final class DirectPacker(root: VectorSchemaRoot, columns: Array[PackedColumn]) extends RowPacker(root) {
  private var rows = 0

  override def write(row: UnsafeRow): Unit = {
    var i = 0
    while (i < columns.length) {
      columns(i).write(row, i, rows)
      i += 1
    }
    rows += 1
  }

  override def finish(): Unit = {
    columns.foreach(_.finish(rows))
    root.setRowCount(rows)
  }

  override def reset(): Unit = rows = 0

  override def release(): Unit = {
    super.release()
    columns.foreach(_.locate())
  }
}

/** A column of a batch, whose vector grows as it is filled. */
private abstract class PackedColumn(vector: FieldVector) {
  private var validity = 0L
  private var capacity = 0

  protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit

  /** Notes where the memory of the vector is. */
  def locate(): Unit = {
    validity = vector.getValidityBufferAddress
    capacity = vector.getValueCapacity
  }

  final def write(row: UnsafeRow, ordinal: Int, at: Int): Unit = {
    while (at >= capacity) {
      vector.reAlloc()
      locate()
    }
    val isNull = row.isNullAt(ordinal)
    val address = validity + (at >> 3)
    val bit = if (isNull) 0 else 1 << (at & 7)
    Platform.putByte(null, address, (if ((at & 7) == 0) bit else Platform.getByte(null, address) | bit).toByte)
    if (isNull) putNull(at) else put(row, ordinal, at)
  }

  protected def putNull(at: Int): Unit = ()

  def finish(rows: Int): Unit = vector.setValueCount(rows)
}

private object PackedColumn {

  /** The column if its memory can be written directly. */
  def apply(vector: FieldVector, dataType: DataType): Option[PackedColumn] = (vector, dataType) match {
    case (v: TinyIntVector, ByteType) => Some(new Bytes1(v))
    case (v: SmallIntVector, ShortType) => Some(new Bytes2(v))
    case (v: IntVector, IntegerType) => Some(new Bytes4(v))
    case (v: DateDayVector, DateType) => Some(new Bytes4(v))
    case (v: Float4Vector, FloatType) => Some(new Bytes4(v))
    case (v: BigIntVector, LongType) => Some(new Bytes8(v))
    case (v: TimeStampMicroVector, TimestampNTZType) => Some(new Bytes8(v))
    case (v: TimeStampMicroTZVector, TimestampType) => Some(new Bytes8(v))
    case (v: Float8Vector, DoubleType) => Some(new Bytes8(v))
    case (v: DecimalVector, d: DecimalType) if d.precision <= Decimal.MAX_LONG_DIGITS => Some(new CompactDecimal(v))
    case (v: VarCharVector, StringType) => Some(new ByteStrings(v))
    case (v: VarBinaryVector, BinaryType) => Some(new ByteStrings(v))
    case _ => None
  }
}

private abstract class FixedColumn(vector: BaseFixedWidthVector) extends PackedColumn(vector) {
  protected var data = 0L

  override def locate(): Unit = {
    super.locate()
    data = vector.getDataBufferAddress
  }
}

private final class Bytes1(vector: BaseFixedWidthVector) extends FixedColumn(vector) {
  override protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit =
    Platform.putByte(null, data + at, row.getByte(ordinal))
}

private final class Bytes2(vector: BaseFixedWidthVector) extends FixedColumn(vector) {
  override protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit =
    Platform.putShort(null, data + 2L * at, row.getShort(ordinal))
}

private final class Bytes4(vector: BaseFixedWidthVector) extends FixedColumn(vector) {
  override protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit =
    Platform.putInt(null, data + 4L * at, row.getInt(ordinal))
}

private final class Bytes8(vector: BaseFixedWidthVector) extends FixedColumn(vector) {
  override protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit =
    Platform.putLong(null, data + 8L * at, row.getLong(ordinal))
}

/** A row stores the digits of such a decimal as a long. */
private final class CompactDecimal(vector: DecimalVector) extends FixedColumn(vector) {
  override protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit = {
    val digits = row.getLong(ordinal)
    Platform.putLong(null, data + 16L * at, digits)
    Platform.putLong(null, data + 16L * at + 8, digits >> 63)
  }
}

private final class ByteStrings(vector: BaseVariableWidthVector) extends PackedColumn(vector) {
  private var offsets = 0L
  private var data = 0L
  private var space = 0L
  private var end = 0

  override def locate(): Unit = {
    super.locate()
    offsets = vector.getOffsetBufferAddress
    data = vector.getDataBufferAddress
    space = vector.getDataBuffer.capacity()
  }

  override protected def put(row: UnsafeRow, ordinal: Int, at: Int): Unit = {
    val begin = if (at == 0) 0 else end
    val place = row.getLong(ordinal)
    val (from, size) = ((place >>> 32).toInt, place.toInt)
    if (begin.toLong + size > space) {
      vector.reallocDataBuffer(begin.toLong + size)
      locate()
    }
    Platform.copyMemory(row.getBaseObject, row.getBaseOffset + from, null, data + begin, size)
    close(at, begin, begin + size)
  }

  override protected def putNull(at: Int): Unit = {
    val begin = if (at == 0) 0 else end
    close(at, begin, begin)
  }

  private def close(at: Int, begin: Int, until: Int): Unit = {
    if (at == 0) Platform.putInt(null, offsets, begin)
    Platform.putInt(null, offsets + 4L * (at + 1), until)
    end = until
  }

  override def finish(rows: Int): Unit = {
    vector.setLastSet(rows - 1)
    super.finish(rows)
  }
}
