package org.apache.spark.sql.paimonbridge

import scala.util.control.NonFatal

import org.apache.spark.QueryContextType
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** An error of Spark's analyzer, without the plan that Spark appends to it. */
class WithoutPlan(found: AnalysisException) extends AnalysisException(
      message = ClearErrors.told(found),
      line = found.line,
      startPosition = found.startPosition,
      errorClass = found.errorClass,
      messageParameters = found.messageParameters,
      context = found.context)

/** Makes Spark check statements on Paimon tables one step earlier, so that errors are reported without the plan.
  *
  * Only statements that will be rejected are affected, and only for errors that no later step can resolve. A subquery
  * is analyzed separately first, and unresolved references in it may refer to the outer query; those in a view cannot.
  */
case class ClearErrors(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (isWhole && isDoubtful(plan) && ClearErrors.concernsOurs(plan)) check(plan)
    plan
  }

  private def isWhole: Boolean = AnalysisContext.get.outerPlan.isEmpty

  private def isDoubtful(plan: LogicalPlan): Boolean =
    (!plan.resolved || plan.isInstanceOf[AlterTableCommand]) && !plan.exists(_.isInstanceOf[UnresolvedHint])

  private def check(plan: LogicalPlan): Unit =
    try
      session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.analyzer.checkAnalysis(plan.clone())
    catch {
      case e: AnalysisException if Option(e.getCondition).exists(c => ClearErrors.Final.exists(c.startsWith)) =>
        throw new WithoutPlan(e)
      case NonFatal(_) =>
    }
}

object ClearErrors {

  /** The message of an error; one in the text of a view names the view, too. */
  private[paimonbridge] def told(error: AnalysisException): String = {
    val view = error.context.find(c => c.contextType() == QueryContextType.SQL && c.objectType() == "VIEW")
    view.map(_.objectName()).fold(error.message) { name =>
      val said =
        s" The view $name reads it: CREATE OR REPLACE VIEW $name replaces the view, " +
          s"and SHOW CREATE TABLE $name shows it."
      val at = error.message.lastIndexOf(" SQLSTATE:")
      if (at < 0) error.message + said else error.message.take(at) + said + error.message.drop(at)
    }
  }

  /** Errors that no later analysis step can resolve. */
  private val Final = Seq("UNRESOLVED_", "DATATYPE_MISMATCH", "FIELD_", "AMBIGUOUS_", "NOT_SUPPORTED_")

  /** Whether a plan reads, changes or creates a Paimon table. */
  def concernsOurs(plan: LogicalPlan): Boolean = plan.collectWithSubqueries {
    case i: InsertIntoStatement => ours(i.table)
    case w: V2WriteCommand => ours(w.table)
    case other => ours(other)
  }.contains(true)

  private def ours(plan: LogicalPlan): Boolean = plan match {
    case r: DataSourceV2Relation => r.table.isInstanceOf[PaimonTable]
    case t: ResolvedTable => t.table.isInstanceOf[PaimonTable]
    case i: ResolvedIdentifier => i.catalog.isInstanceOf[PaimonCatalog]
    case _ => false
  }
}
