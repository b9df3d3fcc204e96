package org.apache.spark.sql.execution.paimonbridge

import org.apache.spark.sql.execution.RowToColumnConverter
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Copies batches whose vectors are reused for later ones. */
class BatchCopies(schema: StructType) {
  private val converter = new RowToColumnConverter(schema)

  def copy(batch: ColumnarBatch): ColumnarBatch = {
    val vectors = OnHeapColumnVector.allocateColumns(batch.numRows, schema)
    val targets = vectors.map(v => v: WritableColumnVector)
    (0 until batch.numRows).foreach(i => converter.convert(batch.getRow(i), targets))
    new ColumnarBatch(vectors.map(v => v: ColumnVector), batch.numRows)
  }
}
