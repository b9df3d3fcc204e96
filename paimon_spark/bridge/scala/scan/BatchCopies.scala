package org.apache.spark.sql.execution.paimonbridge

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.execution.RowToColumnConverter
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types.{BinaryType, StringType, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.apache.spark.unsafe.types.UTF8String

/** Copies batches whose vectors are reused for later ones. Equal texts of a batch are copied once, as in the dictionary
  * of a data file. */
class BatchCopies(schema: StructType) {
  private val (texts, others) = schema.indices.partition(schema(_).dataType match {
    case _: StringType | BinaryType => true
    case _ => false
  })
  private val converter = new RowToColumnConverter(StructType(others.map(schema(_))))
  private val copied = new JHashMap[UTF8String, Integer]()

  def copy(batch: ColumnarBatch): ColumnarBatch = {
    val vectors = OnHeapColumnVector.allocateColumns(batch.numRows, schema)
    texts.foreach(i => copyTexts(batch.column(i), vectors(i), batch.numRows))
    if (others.nonEmpty) {
      val rows = new ColumnarBatch(others.map(batch.column).toArray, batch.numRows)
      val targets = others.map(i => vectors(i): WritableColumnVector).toArray
      (0 until batch.numRows).foreach(i => converter.convert(rows.getRow(i), targets))
    }
    new ColumnarBatch(vectors.map(v => v: ColumnVector), batch.numRows)
  }

  private def copyTexts(from: ColumnVector, to: WritableColumnVector, rows: Int): Unit = {
    val isBinary = from.dataType == BinaryType
    (0 until rows).foreach { i =>
      if (from.isNullAt(i)) to.putNull(i)
      else {
        val text = if (isBinary) UTF8String.fromBytes(from.getBinary(i)) else from.getUTF8String(i)
        val known = copied.get(text)
        val at = if (known != null) known.intValue
        else {
          val added = to.arrayData().appendBytes(text.numBytes, text.getBytes, 0)
          copied.put(text, added)
          added
        }
        to.putArray(i, at, text.numBytes)
      }
    }
    copied.clear()
  }
}
