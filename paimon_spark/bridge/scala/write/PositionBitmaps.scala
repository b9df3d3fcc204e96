package org.apache.spark.sql.paimonbridge

import java.nio.ByteBuffer

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The rows of `child`, each with the file, position and deletion vector of a stored row, as one bitmap of positions
  * for each file and task. */
case class PositionBitmaps(output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

object PositionBitmaps {

  /** `POSITIONS` of `paimon_spark.core.columns`. */
  private val Positions = "_KEY__positions_"

  def of(child: LogicalPlan): PositionBitmaps = {
    val Seq(file, _, vector) = child.output
    PositionBitmaps(
      Seq(
        AttributeReference(file.name, StringType, nullable = false)(),
        AttributeReference(vector.name, LongType)(),
        AttributeReference(Positions, BinaryType, nullable = false)()),
      child)
  }
}

/** Runs `PositionBitmaps`. */
case class PositionBitmapsExec(output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  @transient override lazy val references: AttributeSet = AttributeSet(child.output)
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override def nodeName: String = "PaimonPositions"
  override protected def doExecute(): RDD[InternalRow] =
    child.execute().mapPartitionsInternal(new FoundPositions().of(_))
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** Collects the positions of the rows of one task. Rows of one file usually follow each other. */
private final class FoundPositions {
  private type File = (UTF8String, Option[Long])
  private val found = mutable.LinkedHashMap[File, RoaringBitmap]()
  private var current: File = _
  private var bitmap: RoaringBitmap = _

  def of(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    rows.foreach(add)
    val result = UnsafeProjection.create(Array[DataType](StringType, LongType, BinaryType))
    found.iterator.map { case ((path, vector), positions) =>
      result(InternalRow(path, vector.getOrElse(null), FoundPositions.serialized(positions)))
    }
  }

  private def add(row: InternalRow): Unit = {
    if (row.isNullAt(0) || row.isNullAt(1)) throw SparkException.internalError("A row to delete has no position.")
    val path = row.getUTF8String(0)
    if (current == null || path != current._1 || !sees(row)) {
      current = (path.clone(), if (row.isNullAt(2)) None else Some(row.getLong(2)))
      bitmap = found.getOrElseUpdate(current, new RoaringBitmap)
    }
    val position = row.getLong(1)
    if (position >>> 32 != 0) throw SparkException.internalError(s"The position $position does not fit into a bitmap.")
    bitmap.add(position.toInt)
  }

  private def sees(row: InternalRow): Boolean = current._2 match {
    case None => row.isNullAt(2)
    case Some(vector) => !row.isNullAt(2) && row.getLong(2) == vector
  }
}

private object FoundPositions {
  private def serialized(positions: RoaringBitmap): Array[Byte] = {
    positions.runOptimize()
    val out = ByteBuffer.allocate(positions.serializedSizeInBytes())
    positions.serialize(out)
    out.array()
  }
}
