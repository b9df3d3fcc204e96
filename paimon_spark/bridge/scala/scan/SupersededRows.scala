package org.apache.spark.sql.paimonbridge

import java.io.ObjectOutputStream
import java.nio.ByteBuffer
import java.util.{LinkedHashMap => JLinkedHashMap}
import java.util.concurrent.ExecutionException

import scala.collection.mutable

import org.roaringbitmap.buffer.ImmutableRoaringBitmap

import org.apache.spark.{SparkContext, SparkException}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.trees.BinaryLike
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.{BaseSubqueryExec, ExecSubqueryExpression, LeafExecNode, SubqueryExec}
import org.apache.spark.sql.types.{BinaryType, BooleanType, DataType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** Positions of superseded rows, as a serialized roaring bitmap per file path. */
final class SupersededRows(splits: Seq[String]) extends Serializable {
  import SupersededRows.Bitmaps

  @transient private lazy val found = mutable.Map[String, Bitmaps]()
  @transient private var job: Option[SubqueryExec] = None
  private var shipped: Broadcast[Bitmaps] = _

  /** The keys of the splits whose superseded rows are not known yet, as JSON. */
  def missing(): String = Json.text(unknown)

  /** The splits whose rows neither this query nor another one has found. */
  private def unknown: Seq[String] = synchronized {
    splits.filterNot(found.contains).filterNot { s =>
      val known = SupersededRows.cached(s)
      known.foreach(found(s) = _)
      known.isDefined
    }
  }

  /** Adds positions that are found without a job: JSON arrays of split key, file path and bitmap in base64, one a line,
    * and for each split one array of its key alone. The lines, or `@file` with them. */
  def know(lines: String): Unit = add(JvmFrames.lines(lines)(_.map { line =>
    val known = Json.items(Json.parse(line))
    val texts = known.take(2).map(t => UTF8String.fromString(t.asText()))
    InternalRow(texts.head, texts.lift(1).orNull, known.lift(2).map(_.binaryValue()).orNull)
  }.toArray))

  /** `frame` finds the missing positions when a query needs them: rows of split key, file path and bitmap, and for
    * each split one row without path and bitmap. */
  def findBy(frame: Dataset[Row]): SupersededRows = {
    job = Some(frame.sparkSession.withActive(SubqueryExec("superseded rows", frame.queryExecution.executedPlan)))
    this
  }

  /** `ask` returns the engine's rows for the missing splits, as those of `findBy`; for rows that no job finds. */
  def askEngine(session: SparkSession, ask: Seq[String] => Array[Byte]): Unit = if (job.isEmpty && unknown.nonEmpty)
    job = Some(session.withActive(
      SubqueryExec("superseded rows", PaimonEngineExec(() => Some(unknown).filter(_.nonEmpty).map(ask)))))

  /** The filter as executed by Spark: a subquery expression, unless all superseded rows are known. */
  def planned(test: NotSuperseded): Expression =
    job.filter(_ => unknown.nonEmpty).fold[Expression](test)(NotSupersededSubquery(test.file, test.position, this, _))

  def add(rows: Array[InternalRow]): Unit = synchronized {
    val bySplit = mutable.Map[String, Map[String, Array[Byte]]]()
    rows.foreach { row =>
      val split = row.getUTF8String(0).toString
      val before = bySplit.getOrElse(split, Map.empty[String, Array[Byte]])
      bySplit(split) = if (row.isNullAt(1)) before else before + (row.getUTF8String(1).toString -> row.getBinary(2))
    }
    bySplit.foreach { case (split, bitmaps) =>
      found(split) = bitmaps
      SupersededRows.keep(split, bitmaps)
    }
  }

  /** Broadcasts the positions that tasks need; once, on the driver. */
  def ship(): Unit = synchronized {
    if (shipped == null) {
      val all: Bitmaps = splits.flatMap(s =>
        found.getOrElse(
          s,
          throw new IllegalStateException(
            s"The superseded rows of split $s are missing"))).toMap
      shipped = SparkContext.getOrCreate().broadcast(all)
    }
  }

  /** Serialization implies the broadcast, whether code is generated on the driver, on an executor, or not at all. */
  private def writeObject(out: ObjectOutputStream): Unit = {
    ship()
    out.defaultWriteObject()
  }

  def cursor(): SupersededRowsCursor = new SupersededRowsCursor(shipped.value)

  override def equals(other: Any): Boolean = other match {
    case that: SupersededRows => that.identity == identity
    case _ => false
  }
  override def hashCode(): Int = identity.hashCode
  private def identity: Seq[String] = splits
}

/** The superseded rows that the engine finds when the query runs; None if they are known by then. */
case class PaimonEngineExec(ask: () => Option[Array[Byte]]) extends LeafExecNode {
  override val output: Seq[Attribute] = DataTypesBridge.attributes(SupersededRows.Schema)
  override protected def stringArgs: Iterator[Any] = Iterator.empty
  override def executeCollect(): Array[InternalRow] =
    session.withActive(ask()).fold(Array.empty[InternalRow])(LocalBatches(_, output, Nil, output).rows())
  override protected def doExecute(): RDD[InternalRow] = sparkContext.parallelize(executeCollect().toSeq, 1)
}

object SupersededRows {

  /** The columns of `SUPERSEDED` of the engine. */
  val Schema: StructType = new StructType().add("split", StringType).add("file", StringType).add("rows", BinaryType)
  type Bitmaps = Map[String, Array[Byte]]

  private val Limit = math.max(16L << 20, Runtime.getRuntime.maxMemory() / 32)
  private val known = new JLinkedHashMap[String, Bitmaps](16, 0.75f, true)
  private var held = 0L

  private def cached(split: String): Option[Bitmaps] = known.synchronized(Option(known.get(split)))

  private def weight(bitmaps: Bitmaps): Long = 200L + bitmaps.map { case (k, v) => 100L + 2 * k.length + v.length }.sum

  private def keep(split: String, bitmaps: Bitmaps): Unit = if (weight(bitmaps) <= Limit) known.synchronized {
    if (known.put(split, bitmaps) == null) held += weight(bitmaps)
    val oldest = known.entrySet().iterator()
    while (held > Limit && oldest.hasNext) {
      held -= weight(oldest.next().getValue)
      oldest.remove()
    }
  }
}

/** Finds superseded rows while a task reads file after file. */
final class SupersededRowsCursor(bitmaps: Map[String, Array[Byte]]) {
  private var seen: UTF8String = _
  private var file: UTF8String = _
  private var bits: Array[Long] = Array.empty

  /** Whether the row at a position of a file is superseded. Most readers use one object for all rows of a file, so
    * texts are compared only if the object changes. */
  def contains(in: UTF8String, position: Long): Boolean = {
    if (in ne seen) {
      if (in != file) turnTo(in)
      seen = in
    }
    val word = position >> 6
    word < bits.length && (bits(word.toInt) & (1L << position)) != 0
  }

  private def turnTo(next: UTF8String): Unit = {
    file = next.clone()
    bits = bitmaps.get(file.toString).fold(Array.empty[Long])(SupersededRowsCursor.words)
  }
}

object SupersededRowsCursor {
  private def words(stored: Array[Byte]): Array[Long] = {
    val bitmap = new ImmutableRoaringBitmap(ByteBuffer.wrap(stored))
    val out = new Array[Long](if (bitmap.isEmpty) 0 else (bitmap.last() >>> 6) + 1)
    bitmap.forEach(((position: Int) => out(position >>> 6) |= 1L << position): org.roaringbitmap.IntConsumer)
    out
  }
}

/** Whether the row at a position of a file is not superseded. */
trait NotSupersededTest extends Expression with BinaryLike[Expression] {
  def file: Expression
  def position: Expression
  def superseded: SupersededRows
  override def left: Expression = file
  override def right: Expression = position
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def prettyName: String = "paimon_not_superseded"
  override def toString: String = s"$prettyName($position)"

  @transient private lazy val cursor: SupersededRowsCursor = superseded.cursor()

  override def eval(input: InternalRow): Any =
    !cursor.contains(file.eval(input).asInstanceOf[UTF8String], position.eval(input).asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val rows = ctx.addReferenceObj("supersededRows", superseded)
    val lookup = ctx.addMutableState(classOf[SupersededRowsCursor].getName, "superseded", v => s"$v = $rows.cursor();")
    val (f, p) = (file.genCode(ctx), position.genCode(ctx))
    ev.copy(
      code = code"""
      ${f.code}
      ${p.code}
      boolean ${ev.value} = !$lookup.contains(${f.value}, ${p.value});""",
      isNull = FalseLiteral)
  }
}

/** The filter in logical plans, and in physical ones if all superseded rows are known at planning time. */
case class NotSuperseded(file: Expression, position: Expression, superseded: SupersededRows) extends NotSupersededTest {
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): NotSuperseded =
    copy(file = newLeft, position = newRight)
}

/** The failure of a job awaited by another thread, without Spark's wrapping exceptions. */
private object Awaited {
  def unapply(e: SparkException): Option[Throwable] = Option(e.getCause).collect {
    case waited: ExecutionException if waited.getCause != null => waited.getCause
  }
}

/** The filter if a job has to find superseded rows first: a subquery of the plan, which Spark runs before its stage. */
case class NotSupersededSubquery(
    file: Expression,
    position: Expression,
    superseded: SupersededRows,
    plan: BaseSubqueryExec,
    exprId: ExprId = NamedExpression.newExprId)
    extends ExecSubqueryExpression with NotSupersededTest {
  override def withNewPlan(query: BaseSubqueryExec): NotSupersededSubquery = copy(plan = query)
  override def updateResult(): Unit =
    try superseded.add(plan.executeCollect())
    catch { case Awaited(failure) => throw failure }
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): NotSupersededSubquery =
    copy(file = newLeft, position = newRight)
  override lazy val canonicalized: Expression = NotSuperseded(file.canonicalized, position.canonicalized, superseded)

  /** Tasks receive the result without the subquery. */
  private def writeReplace(): AnyRef = NotSuperseded(file, position, superseded)
  override def toString: String = s"$prettyName($position, superseded rows#${exprId.id})"
}
