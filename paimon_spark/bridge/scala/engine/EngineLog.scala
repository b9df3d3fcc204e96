package org.apache.spark.sql.paimonbridge

import java.nio.charset.StandardCharsets
import java.nio.file.{FileAlreadyExistsException, Files, LinkOption, Path, Paths}
import java.nio.file.attribute.{FileAttribute, PosixFilePermission, PosixFilePermissions}
import java.util.{Set => JSet}

import scala.util.control.NonFatal

import org.apache.spark.SparkConf

/** The log file of an engine; other users can neither read it nor choose its location. */
private object EngineLog {

  /** Creates the log file of this JVM's engines if necessary. */
  def open(conf: SparkConf): Path = {
    val dir = conf.getOption("spark.paimon.log.dir").map(d => Files.createDirectories(Paths.get(d))).getOrElse(ownDir())
    val file = dir.resolve(s"engine-${ProcessHandle.current().pid()}.log")
    try Files.createFile(file, mode("rw-------"))
    catch { case _: FileAlreadyExistsException => file }
  }

  /** The tail of the log from byte `from` on: earlier engines of this JVM write to the same file. */
  def lastWords(log: Path, from: Long): String =
    try {
      val text = Files.readAllBytes(log).drop(from.toInt)
      new String(text, StandardCharsets.UTF_8).linesIterator.toSeq.takeRight(5).mkString(" | ")
    } catch { case NonFatal(_) => "" }

  /** The default file, or a new one if another user owns a file of that name. */
  private def ownDir(): Path = {
    val usual = Paths.get(System.getProperty("java.io.tmpdir"), "paimon-spark-" + System.getProperty("user.name"))
    try Files.createDirectory(usual, mode("rwx------"))
    catch {
      case _: FileAlreadyExistsException if isOwn(usual) =>
        Files.setPosixFilePermissions(usual, PosixFilePermissions.fromString("rwx------"))
      case _: FileAlreadyExistsException => Files.createTempDirectory("paimon-spark-")
    }
  }

  private def isOwn(dir: Path): Boolean = {
    val probe = Files.createTempFile("paimon-spark-", ".probe")
    try Files.isDirectory(dir, LinkOption.NOFOLLOW_LINKS) && Files.getOwner(dir) == Files.getOwner(probe)
    finally Files.delete(probe)
  }

  private def mode(text: String): FileAttribute[JSet[PosixFilePermission]] =
    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(text))
}
