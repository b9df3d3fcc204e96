package org.apache.spark.sql.paimonbridge

import java.io.{File, IOException}

import scala.collection.mutable

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.Logging

/** Tells the Python worker of a cancelled task to end at once.
  *
  * Spark interrupts the thread of the task, which then spins while it waits for the worker. Spark looks for such tasks
  * every 2 s, and ends their workers after 2 s more. A file in the first local directory of the executor, which
  * `task_watchdog.py` looks for, tells the worker. */
object CancelledTasks extends Logging {
  private val PollMillis = 50L
  private val running = mutable.Set.empty[TaskContext]
  private lazy val watch: Thread = {
    val thread = new Thread(() => while (true) { markCancelled(); Thread.sleep(PollMillis) }, "paimon-cancelled-tasks")
    thread.setDaemon(true)
    thread.start()
    thread
  }

  /** Looks after a task until it ends. */
  def follow(context: TaskContext): Unit = {
    watch
    val isNew = synchronized { notifyAll(); running.add(context) }
    if (isNew) context.addTaskCompletionListener[Unit](ended => synchronized { running -= ended; mark(ended).delete() })
  }

  private def markCancelled(): Unit = synchronized {
    while (running.isEmpty) wait()
    for (task <- running.toSeq if task.isInterrupted()) {
      running -= task
      try mark(task).createNewFile()
      catch { case e: IOException => logWarning(s"A Python worker cannot be told that its task was cancelled: $e") }
    }
  }

  private def mark(task: TaskContext): File =
    new File(SparkEnv.get.blockManager.diskBlockManager.localDirs.head, s"paimon-cancelled-${task.taskAttemptId()}")
}
