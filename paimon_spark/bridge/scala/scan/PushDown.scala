package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{fromJavaDate, toJavaDate}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** The same value, kept from the file reader's own filters: a comparison with it is evaluated on rows only. Writers
  * built on Arrow leave NaN out of the statistics of floating point columns, and Spark's reader would skip the row
  * groups that hold it. */
case class NoPushdown(child: Expression) extends TaggingExpression {
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** What the filters of Spark's file readers get wrong is not given to them. */
object PushDown {
  private val MicrosPerMilli = 1000L

  /** A plan whose filters leave readers of `PaimonFileIndex` only comparisons that they answer exactly.
    *
    * A column of milliseconds is compared with values cut to milliseconds, which moves what lies between two of them.
    * ORC's filters take days as `java.sql.Date`, which lacks some. */
  def exact(plan: LogicalPlan): LogicalPlan = plan.transform {
    case f @ Filter(condition, child) =>
      val (millis, orc) = (reads(child)((_, index) => index.hasMillis), reads(child)((r, _) => isOrc(r)))
      if (millis || orc) f.copy(condition = without(condition, isMoved(millis, orc))) else f
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

  /** Whether a reader takes some value of a type for another one; which, if it is known. */
  private def isMoved(millis: Boolean, orc: Boolean)(dataType: DataType, value: Option[Any]): Boolean =
    (dataType, value) match {
      case (TimestampType | TimestampNTZType, Some(micros: Long)) => millis && micros % MicrosPerMilli != 0
      case (DateType, Some(days: Int)) => orc && fromJavaDate(toJavaDate(days)) != days
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

  /** What `body` does while Spark hands dates and times to file readers as they are. Its default goes through the
    * classes of `java.sql`, whose calendar lacks ten days of October 1582, and in some time zones others. */
  def withWholeCalendar[T](conf: SQLConf)(body: => T): T = {
    val exact = conf.clone()
    exact.setConf(SQLConf.DATETIME_JAVA8API_ENABLED, true)
    SQLConf.withExistingConf(exact)(body)
  }
}
