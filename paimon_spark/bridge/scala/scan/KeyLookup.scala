package org.apache.spark.sql.paimonbridge

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.paimonbridge.BatchCopies
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Finds rows by key in batches whose rows are in the order of unique keys, if the wanted keys ascend, too. With
  * `copies`, wanted keys may begin again from lower ones: batches are then kept. */
abstract class KeyLookup(batches: Iterator[ColumnarBatch], copies: Option[BatchCopies]) {
  private val kept = mutable.ArrayBuffer[ColumnarBatch]()
  private var number = 0
  private var batch: ColumnarBatch = _
  private var size = 0
  private var at = 0

  /** Whether the row has a key less than (negative), equal to or greater than (positive) the wanted one. */
  protected def compare(batch: ColumnarBatch, row: Int): Int

  /** Moves to the row with the key; false if there is none. A key has no null. */
  def seek(key: InternalRow): Boolean

  /** The found row. */
  final def row: Int = at
  final def column(ordinal: Int): ColumnVector = batch.column(ordinal)
  final def found: InternalRow = batch.getRow(at)

  protected final def find(): Boolean = {
    if (copies.isDefined && isPast) {
      number = 0
      size = 0
      at = 0
    }
    while (at < size || next()) {
      at = firstNotLess()
      if (at < size) return compare(batch, at) == 0
    }
    false
  }

  /** Whether the wanted key may be before the current row. */
  private def isPast: Boolean =
    if (at > 0) compare(batch, at - 1) >= 0
    else number > 1 && compare(kept(number - 2), kept(number - 2).numRows - 1) >= 0

  private def next(): Boolean = {
    val turned = if (number < kept.length) Some(kept(number))
    else batches.find(_.numRows > 0).map { read =>
      copies.foreach(kept += _.copy(read))
      if (copies.isDefined) kept.last else read
    }
    turned.foreach { found =>
      batch = found
      size = found.numRows
      at = 0
      number += 1
    }
    turned.isDefined
  }

  /** The first row from the current one on whose key is not less than the wanted one; often it is near. */
  private def firstNotLess(): Int = {
    var low = at
    var step = 1
    while (low + step <= size && compare(batch, low + step - 1) < 0) {
      low += step
      step <<= 1
    }
    var high = math.min(low + step - 1, size)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (compare(batch, middle) < 0) low = middle + 1 else high = middle
    }
    low
  }
}

/** By a key of one whole number, or of a type that is stored as one. */
final class LongLookup(batches: Iterator[ColumnarBatch], copies: Option[BatchCopies], ordinal: Int, dataType: DataType)
    extends KeyLookup(batches, copies) {
  private val bytes = dataType.defaultSize
  private var wanted: Long = _

  def seek(key: Long): Boolean = {
    wanted = key
    find()
  }
  override def seek(key: InternalRow): Boolean = seek(bytes match {
    case 8 => key.getLong(0)
    case 4 => key.getInt(0).toLong
    case 2 => key.getShort(0).toLong
    case 1 => key.getByte(0).toLong
  })
  override protected def compare(batch: ColumnarBatch, row: Int): Int = {
    val column = batch.column(ordinal)
    java.lang.Long.compare(
      if (bytes == 8) column.getLong(row)
      else if (bytes == 4) column.getInt(row)
      else if (bytes == 2) column.getShort(row)
      else column.getByte(row),
      wanted)
  }
}

/** By a key of other types, or of several columns. */
final class RowLookup(
    batches: Iterator[ColumnarBatch],
    copies: Option[BatchCopies],
    ordinals: Array[Int],
    order: BaseOrdering) extends KeyLookup(batches, copies) {
  private var wanted: InternalRow = _
  private var seen: ColumnarBatch = _
  private var keys: ColumnarBatch = _

  override def seek(key: InternalRow): Boolean = {
    wanted = key
    find()
  }
  override protected def compare(batch: ColumnarBatch, row: Int): Int = {
    if (batch ne seen) {
      keys = new ColumnarBatch(ordinals.map(batch.column), batch.numRows)
      seen = batch
    }
    order.compare(keys.getRow(row), wanted)
  }
}

/** Opens lookups in batches of columns `schema`, of which those at `ordinals` are the key. */
case class KeyLookups(schema: StructType, ordinals: Seq[Int], keep: Boolean) {
  private def types: Seq[DataType] = ordinals.map(schema(_).dataType)

  /** Whether the key is one whole number. */
  def isLong: Boolean = types match {
    case Seq(ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType) => true
    case _ => false
  }

  def open(batches: Iterator[_]): KeyLookup = {
    val read = batches.asInstanceOf[Iterator[ColumnarBatch]]
    val copies = if (keep) Some(new BatchCopies(schema)) else None
    if (isLong) new LongLookup(read, copies, ordinals.head, types.head)
    else {
      val order = types.zipWithIndex.map { case (t, i) => SortOrder(BoundReference(i, t, nullable = false), Ascending) }
      new RowLookup(read, copies, ordinals.toArray, RowOrdering.create(order, Nil))
    }
  }
}
