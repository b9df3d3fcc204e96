package org.apache.spark.sql.paimonbridge

import java.io.FileNotFoundException

import org.apache.hadoop.fs.{FileSystem, Path}

/** Paimon tables and views in a directory that is about to be replaced. */
object TablesWithin {
  private val Schema = """schema-\d+""".r

  /** The path of a table that is the directory or below it, or of a directory of views, or null. A
    * listing of all files is one request for a thousand of them on object stores. */
  def first(store: FileSystem, directory: Path): String = {
    val files =
      try store.listFiles(directory, true)
      catch { case _: FileNotFoundException => return null }
    while (files.hasNext) {
      val file = files.next().getPath
      val parent = file.getParent
      if (parent.getName == "schema" && Schema.pattern.matcher(file.getName).matches())
        return parent.getParent.toUri.getPath
      if (parent.getName == ".views" && file.getName.endsWith(".json")) return parent.toUri.getPath
    }
    null
  }
}
