package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{fromJavaDate, toJavaDate}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A value that is hidden from the file reader's filters: a comparison with it is evaluated on rows only. Writers
  * built on Arrow exclude NaN from the statistics of floating point columns, and Spark's reader would skip row
  * groups that contain it. */
case class NoPushdown(child: Expression) extends TaggingExpression {
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** Prevents pushdown of filters that Spark's file readers evaluate incorrectly. */
object PushDown {
  private val MicrosPerMilli = 1000L

  /** Returns a plan in which readers of `PaimonFileIndex` get only comparisons that they evaluate exactly.
    *
    * A column of milliseconds is compared with values truncated to milliseconds, which is wrong for values between
    * two of them. ORC's filters convert days to `java.sql.Date`, which cannot represent some. All filters convert
    * texts to Java's, which cannot represent those that are not valid UTF-8. */
  def exact(plan: LogicalPlan): LogicalPlan = plan.transform {
    case f @ Filter(condition, child) =>
      val (millis, orc) = (reads(child)((_, index) => index.hasMillis), reads(child)((r, _) => isOrc(r)))
      f.copy(condition = without(condition, isMoved(millis, orc)))
  }

  private def reads(plan: LogicalPlan)(test: (HadoopFsRelation, PaimonFileIndex) => Boolean): Boolean =
    plan.collectLeaves().exists {
      case scan: LogicalRelation => scan.relation match {
          case files: HadoopFsRelation => files.location match {
              case index: PaimonFileIndex => test(files, index)
              case _ => false
            }
          case _ => false
        }
      case _ => false
    }

  private def isOrc(files: HadoopFsRelation): Boolean = files.fileFormat.isInstanceOf[OrcFileFormat]

  /** Whether a reader converts a value of a type to another one; any value of the type, if the value is unknown. */
  private def isMoved(millis: Boolean, orc: Boolean)(dataType: DataType, value: Option[Any]): Boolean =
    (dataType, value) match {
      case (TimestampType | TimestampNTZType, Some(micros: Long)) => millis && micros % MicrosPerMilli != 0
      case (DateType, Some(days: Int)) => orc && fromJavaDate(toJavaDate(days)) != days
      case (_: StringType, Some(text: UTF8String)) => !text.isValid
      case (TimestampType | TimestampNTZType, None) => millis
      case (DateType, None) => orc
      case _ => false
    }

  private def without(condition: Expression, isMoved: (DataType, Option[Any]) => Boolean): Expression =
    condition.transformUp {
      case value: Literal if isMoved(value.dataType, Some(value.value)) => NoPushdown(value)
      case in @ InSet(value, set) if set.exists(v => isMoved(value.dataType, Some(v))) =>
        in.copy(child = NoPushdown(value))
      case answer: ScalarSubquery if isMoved(answer.dataType, None) => NoPushdown(answer)
    }

  /** Runs `body` with dates and times passed to file readers unchanged. Spark's default converts them to `java.sql`
    * classes, whose calendar lacks ten days of October 1582 and, in some time zones, others. */
  def withWholeCalendar[T](conf: SQLConf)(body: => T): T = {
    val exact = conf.clone()
    exact.setConf(SQLConf.DATETIME_JAVA8API_ENABLED, true)
    SQLConf.withExistingConf(exact)(body)
  }
}
