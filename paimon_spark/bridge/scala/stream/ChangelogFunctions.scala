package org.apache.spark.sql.paimonbridge

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.util.{Map => JMap, TreeMap}

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, CodeGenerator, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.trees.BinaryLike
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.types._

/** Aggregates of a changelog: rows of the kinds `-U` and `-D` retract an earlier row with the same values. */
object ChangelogFunctions {
  private val Prefix = "changelog_"
  private val Adds = Seq("+I", "+U")
  private val Retracts = Seq("-U", "-D")

  private case class Function(name: String, usage: String, args: Range)(val build: Seq[Expression] => Expression)

  private val All = Seq(
    Function("kind", "_FUNC_(rowkind) - Returns '+U' if a group has rows, else '-D'.", 1 to 1) {
      case Seq(kind) => If(GreaterThan(count(kind), Literal(0L)), Literal("+U"), Literal("-D"))
    },
    Function(
      "count",
      "_FUNC_([value,] rowkind) - Returns the number of rows, or of the values that are not NULL.",
      1 to 2) {
      case Seq(kind) => count(kind)
      case Seq(value, kind) => countOf(value, kind)
    },
    Function("sum", "_FUNC_(value, rowkind) - Returns the sum of the values.", 2 to 2) {
      case Seq(value, kind) => unlessNone(value, kind, sum(value, kind))
    },
    Function("avg", "_FUNC_(value, rowkind) - Returns the mean of the values.", 2 to 2) {
      case Seq(value, kind) => unlessNone(value, kind, mean(value, kind))
    },
    Function("min", "_FUNC_(value, rowkind) - Returns the least of the values.", 2 to 2) {
      case Seq(value, kind) => ChangelogExtremum(value, sign(kind), largest = false)
    },
    Function("max", "_FUNC_(value, rowkind) - Returns the greatest of the values.", 2 to 2) {
      case Seq(value, kind) => ChangelogExtremum(value, sign(kind), largest = true)
    })

  def install(extensions: SparkSessionExtensions): Unit = All.foreach { f =>
    val name = Prefix + f.name
    val info = new ExpressionInfo(ChangelogFunctions.getClass.getName, null, name, f.usage, "")
    extensions.injectFunction((
      FunctionIdentifier(name),
      info,
      (args: Seq[Expression]) => {
        if (!f.args.contains(args.length)) throw QueryCompilationErrors.wrongNumArgsError(name, f.args, args.length)
        f.build(args)
      }))
  }

  /** 1 for a row that adds, -1 for a retraction. */
  private def sign(kind: Expression): Expression = CaseWhen(
    Seq(
      In(kind, Adds.map(Literal(_))) -> Literal(1L),
      In(kind, Retracts.map(Literal(_))) -> Literal(-1L)),
    Cast(
      RaiseError(Concat(Seq(
        Literal("[INVALID_ARGUMENT] A row has the kind "),
        Coalesce(Seq(Cast(kind, StringType), Literal("NULL"))),
        Literal(". The kinds are +I, -U, +U and -D.")))),
      LongType))

  private def total(value: Expression): Expression = Sum(value).toAggregateExpression()
  private def count(kind: Expression): Expression = total(sign(kind))
  private def countOf(value: Expression, kind: Expression): Expression =
    total(If(IsNull(value), Literal(0L), sign(kind)))

  private def sum(value: Expression, kind: Expression): Expression = {
    val wide = value.dataType match {
      case ByteType | ShortType | IntegerType => Cast(value, LongType)
      case FloatType | StringType | NullType => Cast(value, DoubleType)
      case _ => value
    }
    total(If(GreaterThan(sign(kind), Literal(0L)), wide, UnaryMinus(wide)))
  }

  private def mean(value: Expression, kind: Expression): Expression = value.dataType match {
    case d: DecimalType =>
      val exact = Divide(sum(value, kind), Cast(countOf(value, kind), DecimalType(20, 0)))
      Cast(exact, DecimalType.bounded(d.precision + 4, d.scale + 4))
    case _ => Divide(Cast(sum(value, kind), DoubleType), Cast(countOf(value, kind), DoubleType))
  }

  private def unlessNone(value: Expression, kind: Expression, result: Expression): Expression =
    NullWithoutRows(countOf(value, kind), result)

  /** The columns of a query that are NULL for a group without rows. */
  def emptied(query: LogicalPlan): Seq[String] = {
    var found = AttributeSet.empty
    query.foreachUp {
      case a: Aggregate => found = found ++ AttributeSet(derived(a.aggregateExpressions, found))
      case p: Project => found = found ++ AttributeSet(derived(p.projectList, found))
      case _ =>
    }
    query.output.filter(a => a.nullable && found.contains(a)).map(_.name)
  }

  private def derived(columns: Seq[NamedExpression], from: AttributeSet): Seq[Attribute] =
    columns.filter(c =>
      c.nullable && c.exists {
        case _: NullWithoutRows | _: ChangelogExtremum => true
        case a: Attribute => from.contains(a)
        case _ => false
      }).map(_.toAttribute)

  /** Refuses DISTINCT: a value that was added twice and retracted once is still there. */
  def check(plan: LogicalPlan): Unit =
    plan.collectWithSubqueries { case p => p }.foreach(_.expressions.foreach(_.foreach {
      case a: AggregateExpression if a.isDistinct =>
        a.aggregateFunction match {
          case e: ChangelogExtremum => throw new PaimonException(
              s"[UNSUPPORTED_FEATURE] ${e.prettyName}(DISTINCT …) is not supported: it would lose rows that take a " +
                "value back. Leave DISTINCT out: the result is the same without it.",
              "UNSUPPORTED_FEATURE")
          case _ =>
        }
      case _ =>
    }))
}

/** A value, or NULL where a number of rows is 0. */
case class NullWithoutRows(rows: Expression, value: Expression) extends Expression with BinaryLike[Expression] {
  override def left: Expression = rows
  override def right: Expression = value
  override def nullable: Boolean = true
  override def dataType: DataType = value.dataType

  override def eval(input: InternalRow): Any = if (rows.eval(input) == 0L) null else value.eval(input)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (number, result) = (rows.genCode(ctx), value.genCode(ctx))
    ev.copy(code = code"""
      ${number.code}
      boolean ${ev.isNull} = true;
      ${CodeGenerator.javaType(dataType)} ${ev.value} = ${CodeGenerator.defaultValue(dataType)};
      if (${number.isNull} || ${number.value} != 0L) {
        ${result.code}
        ${ev.isNull} = ${result.isNull};
        ${ev.value} = ${result.value};
      }""")
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): NullWithoutRows =
    copy(rows = newLeft, value = newRight)
}

/** The least or the greatest value that was added and not retracted. The state of a group counts the additions of each
  * value. A retraction may come first if the rows of a group come from several tasks. */
case class ChangelogExtremum(
    value: Expression,
    sign: Expression,
    largest: Boolean,
    override val mutableAggBufferOffset: Int = 0,
    override val inputAggBufferOffset: Int = 0)
    extends TypedImperativeAggregate[TreeMap[Any, Long]] with BinaryLike[Expression] {
  override def left: Expression = value
  override def right: Expression = sign
  override def nullable: Boolean = true
  override def dataType: DataType = value.dataType
  override def prettyName: String = if (largest) "changelog_max" else "changelog_min"

  override def checkInputDataTypes(): TypeCheckResult =
    TypeUtils.checkForOrderingExpr(value.dataType, prettyName)

  private lazy val ordering = TypeUtils.getInterpretedOrdering(dataType)
  @transient private lazy val packed = UnsafeProjection.create(Array[DataType](dataType, LongType))

  override def createAggregationBuffer(): TreeMap[Any, Long] = new TreeMap[Any, Long](ordering)

  override def update(buffer: TreeMap[Any, Long], input: InternalRow): TreeMap[Any, Long] = {
    val found = value.eval(input)
    val change = sign.eval(input).asInstanceOf[Long]
    if (found != null) add(buffer, InternalRow.copyValue(found), change)
    buffer
  }

  override def merge(buffer: TreeMap[Any, Long], other: TreeMap[Any, Long]): TreeMap[Any, Long] = {
    other.forEach((v, n) => add(buffer, v, n))
    buffer
  }

  private def add(buffer: TreeMap[Any, Long], v: Any, n: Long): Unit = {
    val sum = buffer.getOrDefault(v, 0L) + n
    if (sum == 0) buffer.remove(v) else buffer.put(v, sum)
  }

  override def eval(buffer: TreeMap[Any, Long]): Any = {
    val entries = (if (largest) buffer.descendingMap() else buffer).entrySet().iterator()
    while (entries.hasNext) {
      val entry: JMap.Entry[Any, Long] = entries.next()
      if (entry.getValue > 0) return entry.getKey
    }
    null
  }

  override def serialize(buffer: TreeMap[Any, Long]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    val pool = new Array[Byte](4 << 10)
    buffer.forEach { (v, n) =>
      val row = packed(InternalRow(v, n))
      out.writeInt(row.getSizeInBytes)
      row.writeToStream(out, pool)
    }
    bytes.toByteArray
  }

  override def deserialize(stored: Array[Byte]): TreeMap[Any, Long] = {
    val buffer = createAggregationBuffer()
    val in = new DataInputStream(new ByteArrayInputStream(stored))
    while (in.available() > 0) {
      val bytes = new Array[Byte](in.readInt())
      in.readFully(bytes)
      val row = new UnsafeRow(2)
      row.pointTo(bytes, bytes.length)
      buffer.put(row.get(0, dataType), row.getLong(1))
    }
    buffer
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): ChangelogExtremum =
    copy(value = newLeft, sign = newRight)
}
