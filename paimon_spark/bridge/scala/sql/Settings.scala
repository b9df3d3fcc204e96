package org.apache.spark.sql.paimonbridge

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{StringType, StructType}

/** SET of a Paimon option: sets it, or shows its value. Both forms of a key denote the same option. */
case class PaimonSetCommand(key: String, value: Option[String], spellings: Seq[String]) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = DataTypesBridge.attributes(
    new StructType().add("key", StringType, nullable = false).add("value", StringType, nullable = false))

  override def run(session: SparkSession): Seq[Row] = {
    value.foreach { v =>
      spellings.foreach(session.conf.unset)
      session.conf.set(key, v)
    }
    Seq(Row(key, spellings.flatMap(session.conf.getOption).headOption.getOrElse("<undefined>")))
  }
}

/** RESET of a Paimon option. */
case class PaimonResetCommand(spellings: Seq[String]) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    spellings.foreach(session.conf.unset)
    Nil
  }
}

object Settings {
  private val Opening = (Calls.Before + "(?:re)?set\\s+['\"`]?(?:spark\\.)?paimon\\..*").r.pattern

  /** Returns the command for a text that sets, shows or resets a Paimon option, else None. */
  def claim(given: String): Option[LeafRunnableCommand] =
    if (!Opening.matcher(given).matches()) None
    else
      try {
        val text = new VariableSubstitution().substitute(given)
        val answer = Engine.json("claim_setting", Map("text" -> text), CatalogRef.ofTexts)
        val spellings = Json.strings(answer.get("spellings"))
        if (!answer.get("claimed").asBoolean()) None
        else if (answer.get("reset").asBoolean()) Some(PaimonResetCommand(spellings))
        else
          Some(PaimonSetCommand(answer.get("key").asText(), Json.optional(answer, "value").map(_.asText()), spellings))
      } catch { case error: PaimonException => Some(FailedStatement(error)) }
}
