package org.apache.spark.sql.paimonbridge

import java.math.BigDecimal
import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

/** A bucket function: takes the fields of a key in order, and returns a hash or, of `buckets`, the one of the key.
  * Generated code calls the methods `put…` by the names that `KeyColumn` has. Not thread-safe. */
trait KeyHasher {
  def reset(): Unit
  def putNull(i: Int, variablePart: Int): Unit
  def putByte(i: Int, v: Byte): Unit
  def putBoolean(i: Int, v: Boolean): Unit
  def putShort(i: Int, v: Short): Unit
  def putInt(i: Int, v: Int): Unit
  def putLong(i: Int, v: Long): Unit
  def putFloat(i: Int, v: Float): Unit
  def putDouble(i: Int, v: Double): Unit
  def putString(i: Int, v: UTF8String): Unit
  def putBytes(i: Int, v: Array[Byte]): Unit
  def putSmallDecimal(i: Int, v: Decimal): Unit
  def putLargeDecimal(i: Int, v: Decimal): Unit
  def putMillis(i: Int, micros: Long): Unit
  def putMicros(i: Int, micros: Long): Unit
  def hash(): Int
  def bucket(buckets: Int): Int
}

object KeyHasher {
  def of(function: String, arity: Int): KeyHasher = function match {
    case "default" => new RowHasher(arity)
    case "hive" => new HiveHasher
    case "mod" => new ModHasher
  }

  def unsupported(function: String, what: String): Nothing = throw new PaimonException(
    s"[UNSUPPORTED_FEATURE] The bucket function '$function' does not accept a column of type $what.",
    "UNSUPPORTED_FEATURE")
}

/** The function `default`: builds the binary row of a key and hashes it. */
final class RowHasher(arity: Int) extends KeyHasher {
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
  def bucket(buckets: Int): Int = Math.abs(hash() % buckets)
}

/** The function `hive`: 31 times the hash of the columns before, plus that of the next one. */
final class HiveHasher extends KeyHasher {
  private var h = 0

  private def add(x: Int): Unit = h = 31 * h + x

  private def addBytes(bytes: Array[Byte]): Unit = {
    var own = 0
    var i = 0
    while (i < bytes.length) { own = 31 * own + bytes(i); i += 1 }
    add(own)
  }

  private def addDecimal(v: BigDecimal): Unit =
    if (v.signum() == 0) add(0)
    else {
      val short = v.stripTrailingZeros()
      add((if (short.scale() < 0) short.setScale(0) else short).hashCode())
    }

  def reset(): Unit = h = 0
  def putNull(i: Int, variablePart: Int): Unit = add(0)
  def putByte(i: Int, v: Byte): Unit = add(v)
  def putBoolean(i: Int, v: Boolean): Unit = add(if (v) 1 else 0)
  def putShort(i: Int, v: Short): Unit = add(v)
  def putInt(i: Int, v: Int): Unit = add(v)
  def putLong(i: Int, v: Long): Unit = add(java.lang.Long.hashCode(v))
  def putFloat(i: Int, v: Float): Unit = add(if (v == 0f) 0 else java.lang.Float.floatToIntBits(v))
  def putDouble(i: Int, v: Double): Unit =
    add(if (v == 0d) 0 else java.lang.Long.hashCode(java.lang.Double.doubleToLongBits(v)))
  def putString(i: Int, v: UTF8String): Unit = addBytes(v.getBytes)
  def putBytes(i: Int, v: Array[Byte]): Unit = addBytes(v)
  def putSmallDecimal(i: Int, v: Decimal): Unit = addDecimal(v.toJavaBigDecimal)
  def putLargeDecimal(i: Int, v: Decimal): Unit = addDecimal(v.toJavaBigDecimal)
  def putMillis(i: Int, micros: Long): Unit = KeyHasher.unsupported("hive", "timestamp")
  def putMicros(i: Int, micros: Long): Unit = KeyHasher.unsupported("hive", "timestamp")
  def hash(): Int = h
  def bucket(buckets: Int): Int = (h & Int.MaxValue) % buckets
}

/** The function `mod`: the value of one INT or BIGINT column, floored modulo; null counts as 0. */
final class ModHasher extends KeyHasher {
  private var value = 0L

  def reset(): Unit = value = 0L
  def putNull(i: Int, variablePart: Int): Unit = ()
  def putInt(i: Int, v: Int): Unit = value = v
  def putLong(i: Int, v: Long): Unit = value = v
  def putByte(i: Int, v: Byte): Unit = KeyHasher.unsupported("mod", "tinyint")
  def putBoolean(i: Int, v: Boolean): Unit = KeyHasher.unsupported("mod", "boolean")
  def putShort(i: Int, v: Short): Unit = KeyHasher.unsupported("mod", "smallint")
  def putFloat(i: Int, v: Float): Unit = KeyHasher.unsupported("mod", "float")
  def putDouble(i: Int, v: Double): Unit = KeyHasher.unsupported("mod", "double")
  def putString(i: Int, v: UTF8String): Unit = KeyHasher.unsupported("mod", "string")
  def putBytes(i: Int, v: Array[Byte]): Unit = KeyHasher.unsupported("mod", "binary")
  def putSmallDecimal(i: Int, v: Decimal): Unit = KeyHasher.unsupported("mod", "decimal")
  def putLargeDecimal(i: Int, v: Decimal): Unit = KeyHasher.unsupported("mod", "decimal")
  def putMillis(i: Int, micros: Long): Unit = KeyHasher.unsupported("mod", "timestamp")
  def putMicros(i: Int, micros: Long): Unit = KeyHasher.unsupported("mod", "timestamp")
  def hash(): Int = java.lang.Long.hashCode(value)
  def bucket(buckets: Int): Int = Math.floorMod(value, buckets.toLong).toInt
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
        s"[UNSUPPORTED_FEATURE] A column of type ${other.catalogString} cannot be a bucket key.",
        "UNSUPPORTED_FEATURE")
  }
}

/** Hash of a key by a bucket function of the table format or, where the number of buckets is the last of `children`,
  * the bucket of the key. */
case class PaimonKeyHash(function: String, children: Seq[Expression], precisions: Seq[Int]) extends Expression {
  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false
  override def prettyName: String = if (total.nonEmpty) "paimon_bucket" else "paimon_key_hash"

  def keys: Seq[Expression] = children.take(precisions.size)
  private def total: Option[Expression] = children.drop(precisions.size).headOption
  def columns: Seq[KeyColumn] = keys.zip(precisions).map { case (c, p) => KeyColumn.of(c.dataType, p) }

  override def eval(input: InternalRow): Any = {
    val hasher = KeyHasher.of(function, keys.size)
    hasher.reset()
    columns.zip(keys).zipWithIndex.foreach { case ((column, child), i) =>
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
    total.fold(hasher.hash())(n => hasher.bucket(n.eval(input).asInstanceOf[Int]))
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val hasherClass = KeyHasher.of(function, keys.size).getClass.getName
    val arity = if (function == "default") keys.size.toString else ""
    val hasher = ctx.addMutableState(hasherClass, "keyHasher", v => s"$v = new $hasherClass($arity);")
    val parts = keys.zip(columns).zipWithIndex.map { case ((child, column), i) =>
      val gen = child.genCode(ctx)
      s"""
         |${gen.code}
         |if (${gen.isNull}) { $hasher.putNull($i, ${column.reserved}); }
         |else { $hasher.${column.method}($i, ${gen.value}); }
       """.stripMargin
    }
    val body = ctx.splitExpressionsWithCurrentInputs(parts, "keyHash", Nil)
    val n = total.map(_.genCode(ctx))
    val before = n.fold("")(_.code.toString)
    val end = n.fold(s"$hasher.hash()")(g => s"$hasher.bucket(${g.value})")
    ev.copy(
      code = code"""
      $hasher.reset();
      $body
      $before
      int ${ev.value} = $end;""",
      isNull = FalseLiteral)
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
    ev.copy(
      code = code"""
      ${l.code}
      ${r.code}
      int ${ev.value} = $ref[Math.floorMod(${l.value} + $own, $tasks)];""",
      isNull = FalseLiteral)
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
