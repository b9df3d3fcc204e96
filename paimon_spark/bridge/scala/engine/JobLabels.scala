package org.apache.spark.sql.paimonbridge

import org.apache.spark.SparkContext

/** Tags, description and interruption of the jobs that a thread starts within a block of the engine. One method begins
  * such a block, and one ends it, because each call from Python is a round trip. Blocks may be nested. */
private object JobLabels {
  private val Description = SparkContext.SPARK_JOB_DESCRIPTION
  private val Interrupts = SparkContext.SPARK_JOB_INTERRUPT_ON_CANCEL
  private case class Before(tags: Set[String], description: String, interrupts: String)
  private val blocks = ThreadLocal.withInitial[List[Before]](() => Nil)

  /** Begins a block. A `description` of null, and `interrupts` = false, leave those of the thread. */
  def enter(sc: SparkContext, tags: Set[String], description: String, interrupts: Boolean): Unit = {
    val added = tags -- sc.getJobTags()
    blocks.set(Before(added, sc.getLocalProperty(Description), sc.getLocalProperty(Interrupts)) :: blocks.get())
    added.foreach(sc.addJobTag)
    if (description != null) sc.setLocalProperty(Description, description)
    if (interrupts) sc.setLocalProperty(Interrupts, "true")
  }

  /** Ends the block that this thread began last. */
  def leave(sc: SparkContext): Unit = {
    val before :: outer = blocks.get(): @unchecked
    blocks.set(outer)
    before.tags.foreach(sc.removeJobTag)
    sc.setLocalProperty(Description, before.description)
    sc.setLocalProperty(Interrupts, before.interrupts)
  }
}
