package org.apache.spark.sql.hive.thriftserver.paimonbridge

import java.sql.{DatabaseMetaData, Types}

import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumnsUtils.CURRENT_DEFAULT_COLUMN_METADATA_KEY
import org.apache.spark.sql.types._

/** Columns as rows of DatabaseMetaData.getColumns. */
private object JdbcColumn {
  def row(table: Listed, field: StructField, ordinal: Int): Array[AnyRef] = {
    val dataType = CharVarcharUtils.getRawType(field.metadata).getOrElse(field.dataType)
    val default =
      if (field.metadata.contains(CURRENT_DEFAULT_COLUMN_METADATA_KEY))
        field.metadata.getString(CURRENT_DEFAULT_COLUMN_METADATA_KEY)
      else null
    val nullable = if (field.nullable) DatabaseMetaData.columnNullable else DatabaseMetaData.columnNoNulls
    Array[AnyRef](
      table.catalog,
      table.schema,
      table.name,
      field.name,
      Int.box(code(dataType)),
      dataType.sql,
      boxed(size(dataType)),
      null,
      boxed(digits(dataType)),
      boxed(radix(dataType)),
      Int.box(nullable),
      field.getComment().getOrElse(""),
      default,
      null,
      null,
      null,
      Int.box(ordinal),
      if (field.nullable) "YES" else "NO",
      null,
      null,
      null,
      null,
      "NO")
  }

  /** A pattern that matches exactly one name; null and the empty name match all. */
  def exact(name: String): String = if (name == null) null else name.replaceAll("([%_*\\\\])", "\\\\$1")

  private def boxed(n: Option[Int]): AnyRef = n.map(Int.box).orNull

  private def code(t: DataType): Int = t match {
    case NullType => Types.NULL
    case BooleanType => Types.BOOLEAN
    case ByteType => Types.TINYINT
    case ShortType => Types.SMALLINT
    case IntegerType => Types.INTEGER
    case LongType => Types.BIGINT
    case FloatType => Types.FLOAT
    case DoubleType => Types.DOUBLE
    case _: DecimalType => Types.DECIMAL
    case _: CharType => Types.CHAR
    case _: VarcharType | _: StringType => Types.VARCHAR
    case BinaryType => Types.BINARY
    case DateType => Types.DATE
    case TimestampType | TimestampNTZType => Types.TIMESTAMP
    case _: ArrayType => Types.ARRAY
    case _: MapType => Types.JAVA_OBJECT
    case _: StructType => Types.STRUCT
    case _ => Types.OTHER
  }

  private def size(t: DataType): Option[Int] = t match {
    case d: DecimalType => Some(d.precision)
    case c: CharType => Some(c.length)
    case v: VarcharType => Some(v.length)
    case BooleanType | _: NumericType | DateType | TimestampType | TimestampNTZType => Some(t.defaultSize)
    case _ => None
  }

  private def digits(t: DataType): Option[Int] = t match {
    case BooleanType | _: IntegralType => Some(0)
    case FloatType => Some(7)
    case DoubleType => Some(15)
    case d: DecimalType => Some(d.scale)
    case TimestampType | TimestampNTZType => Some(6)
    case _ => None
  }

  private def radix(t: DataType): Option[Int] = t match {
    case _: NumericType => Some(10)
    case _ => None
  }
}
