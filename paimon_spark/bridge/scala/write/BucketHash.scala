package org.apache.spark.sql.paimonbridge

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

/** Builds the binary row of a key and hashes it; fields must be added in order. Not thread-safe. */
final class KeyHasher(arity: Int) {
  private val nullBytes = ((arity + 71) / 64) * 8
  private val fixed = nullBytes + 8 * arity
  private var buffer = new Array[Byte](fixed + 64)
  private var end = fixed

  def reset(): Unit = {
    Arrays.fill(buffer, 0, end, 0.toByte)
    end = fixed
  }

  private def slot(i: Int): Long = Platform.BYTE_ARRAY_OFFSET + nullBytes + 8L * i

  private def reserve(bytes: Int): Int = {
    val padded = (bytes + 7) / 8 * 8
    val at = end
    if (at + padded > buffer.length) buffer = Arrays.copyOf(buffer, (at + padded) * 2)
    end = at + padded
    at
  }

  def putNull(i: Int, variablePart: Int): Unit = {
    buffer((i + 8) / 8) = (buffer((i + 8) / 8) | (1 << (i % 8))).toByte
    if (variablePart > 0) Platform.putLong(buffer, slot(i), reserve(variablePart).toLong << 32)
  }

  def putByte(i: Int, v: Byte): Unit = Platform.putByte(buffer, slot(i), v)
  def putBoolean(i: Int, v: Boolean): Unit = Platform.putByte(buffer, slot(i), if (v) 1 else 0)
  def putShort(i: Int, v: Short): Unit = Platform.putShort(buffer, slot(i), v)
  def putInt(i: Int, v: Int): Unit = Platform.putInt(buffer, slot(i), v)
  def putLong(i: Int, v: Long): Unit = Platform.putLong(buffer, slot(i), v)
  def putFloat(i: Int, v: Float): Unit = Platform.putFloat(buffer, slot(i), v)
  def putDouble(i: Int, v: Double): Unit = Platform.putDouble(buffer, slot(i), v)

  def putString(i: Int, v: UTF8String): Unit = putBytes(i, v.getBytes)

  def putBytes(i: Int, v: Array[Byte]): Unit =
    if (v.length <= 7) {
      System.arraycopy(v, 0, buffer, nullBytes + 8 * i, v.length)
      buffer(nullBytes + 8 * i + 7) = (0x80 | v.length).toByte
    } else {
      val at = reserve(v.length)
      System.arraycopy(v, 0, buffer, at, v.length)
      Platform.putLong(buffer, slot(i), (at.toLong << 32) | v.length)
    }

  def putSmallDecimal(i: Int, v: Decimal): Unit = putLong(i, v.toUnscaledLong)

  def putLargeDecimal(i: Int, v: Decimal): Unit = {
    val bytes = v.toJavaBigDecimal.unscaledValue().toByteArray
    val at = reserve(16)
    System.arraycopy(bytes, 0, buffer, at, bytes.length)
    Platform.putLong(buffer, slot(i), (at.toLong << 32) | bytes.length)
  }

  def putMillis(i: Int, micros: Long): Unit = putLong(i, Math.floorDiv(micros, 1000L))

  def putMicros(i: Int, micros: Long): Unit = {
    val at = reserve(8)
    Platform.putLong(buffer, Platform.BYTE_ARRAY_OFFSET + at, Math.floorDiv(micros, 1000L))
    Platform.putLong(buffer, slot(i), (at.toLong << 32) | (Math.floorMod(micros, 1000L) * 1000L))
  }

  def hash(): Int = Murmur3_x86_32.hashUnsafeWords(buffer, Platform.BYTE_ARRAY_OFFSET, end, 42)
}

/** How one key column is added: the hasher's method, and the bytes reserved for a null. */
case class KeyColumn(method: String, reserved: Int)

object KeyColumn {
  /** `precision` is the table's own for timestamps; Spark's type has none. */
  def of(dataType: DataType, precision: Int): KeyColumn = dataType match {
    case BooleanType => KeyColumn("putBoolean", 0)
    case ByteType => KeyColumn("putByte", 0)
    case ShortType => KeyColumn("putShort", 0)
    case IntegerType | DateType => KeyColumn("putInt", 0)
    case LongType => KeyColumn("putLong", 0)
    case FloatType => KeyColumn("putFloat", 0)
    case DoubleType => KeyColumn("putDouble", 0)
    case _: StringType => KeyColumn("putString", 0)
    case BinaryType => KeyColumn("putBytes", 0)
    case d: DecimalType => if (d.precision <= 18) KeyColumn("putSmallDecimal", 0) else KeyColumn("putLargeDecimal", 16)
    case TimestampType | TimestampNTZType =>
      if (precision <= 3) KeyColumn("putMillis", 0) else KeyColumn("putMicros", 8)
    case other => throw new PaimonException(
      s"[UNSUPPORTED_FEATURE] A column of type ${other.catalogString} cannot be a bucket key.", "UNSUPPORTED_FEATURE")
  }
}

/** Hash of a key as defined by the table format or, with `buckets` > 0, its bucket number. */
case class PaimonKeyHash(children: Seq[Expression], precisions: Seq[Int], buckets: Int) extends Expression {
  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false
  override def prettyName: String = if (buckets > 0) "paimon_bucket" else "paimon_key_hash"
  override def toString: String =
    s"$prettyName(${children.mkString(", ")}${if (buckets > 0) s", $buckets" else ""})"

  private def columns: Seq[KeyColumn] =
    children.zip(precisions).map { case (c, p) => KeyColumn.of(c.dataType, p) }

  private def finish(hash: Int): Int = if (buckets > 0) Math.abs(hash % buckets) else hash

  override def eval(input: InternalRow): Any = {
    val hasher = new KeyHasher(children.size)
    columns.zip(children).zipWithIndex.foreach { case ((column, child), i) =>
      (child.eval(input), column.method) match {
        case (null, _) => hasher.putNull(i, column.reserved)
        case (v: Boolean, _) => hasher.putBoolean(i, v)
        case (v: Byte, _) => hasher.putByte(i, v)
        case (v: Short, _) => hasher.putShort(i, v)
        case (v: Int, _) => hasher.putInt(i, v)
        case (v: Long, "putMillis") => hasher.putMillis(i, v)
        case (v: Long, "putMicros") => hasher.putMicros(i, v)
        case (v: Long, _) => hasher.putLong(i, v)
        case (v: Float, _) => hasher.putFloat(i, v)
        case (v: Double, _) => hasher.putDouble(i, v)
        case (v: UTF8String, _) => hasher.putString(i, v)
        case (v: Array[Byte], _) => hasher.putBytes(i, v)
        case (v: Decimal, "putSmallDecimal") => hasher.putSmallDecimal(i, v)
        case (v: Decimal, _) => hasher.putLargeDecimal(i, v)
      }
    }
    finish(hasher.hash())
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val hasherClass = classOf[KeyHasher].getName
    val hasher = ctx.addMutableState(hasherClass, "keyHasher", v => s"$v = new $hasherClass(${children.size});")
    val parts = children.zip(columns).zipWithIndex.map { case ((child, column), i) =>
      val gen = child.genCode(ctx)
      s"""
         |${gen.code}
         |if (${gen.isNull}) { $hasher.putNull($i, ${column.reserved}); }
         |else { $hasher.${column.method}($i, ${gen.value}); }
       """.stripMargin
    }
    val body = ctx.splitExpressionsWithCurrentInputs(parts, "keyHash", Nil)
    val end = if (buckets > 0) s"Math.abs($hasher.hash() % $buckets)" else s"$hasher.hash()"
    ev.copy(code = code"""
      $hasher.reset();
      $body
      int ${ev.value} = $end;""", isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression =
    copy(children = newChildren)
}

/** A value that Spark's hash partitioning sends to task `(spread + bucket) mod tasks`, without collisions of
  * buckets. With `classes` > 0, the right side is a key hash, taken modulo `classes`. */
case class TaskOf(left: Expression, right: Expression, classes: Int, tasks: Int) extends BinaryExpression {
  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false
  override def prettyName: String = "paimon_task"
  private lazy val table: Array[Int] = TaskOf.inverse(tasks)

  override def eval(input: InternalRow): Any = {
    val number = right.eval(input).asInstanceOf[Int]
    val own = if (classes > 0) Math.floorMod(number, classes) else number
    table(Math.floorMod(left.eval(input).asInstanceOf[Int] + own, tasks))
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val ref = ctx.addReferenceObj("taskTable", table, "int[]")
    val (l, r) = (left.genCode(ctx), right.genCode(ctx))
    val own = if (classes > 0) s"Math.floorMod(${r.value}, $classes)" else s"${r.value}"
    ev.copy(code = code"""
      ${l.code}
      ${r.code}
      int ${ev.value} = $ref[Math.floorMod(${l.value} + $own, $tasks)];""", isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(left = newLeft, right = newRight)
}

object TaskOf {
  /** For each task, the smallest number whose Spark hash selects it. */
  def inverse(tasks: Int): Array[Int] = {
    val found = Array.fill(tasks)(-1)
    var missing = tasks
    var candidate = 0
    while (missing > 0) {
      val task = Math.floorMod(Murmur3_x86_32.hashInt(candidate, 42), tasks)
      if (found(task) < 0) { found(task) = candidate; missing -= 1 }
      candidate += 1
    }
    found
  }
}
