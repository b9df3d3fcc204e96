package org.apache.spark.sql.paimonbridge

import java.io.IOException
import java.net.{InetAddress, Socket}
import java.security.{MessageDigest, SecureRandom}
import java.util.HexFormat
import java.util.concurrent.TimeUnit
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec
import javax.net.SocketFactory

import py4j.{GatewayServer, JavaServer, Py4JPythonClient, PythonClient}

/** The JVM's end of the connections to one engine: commands of the engine come in by a secret, requests go out only to who
  * proves that it is the engine. py4j's own secret for the way out travels in the clear to whoever listens, is lost when
  * the port of the callbacks becomes known, and shows nothing about the other side. */
private class Gateway {
  /** What the engine says when it connects. */
  val secret: String = Gateway.newSecret()
  /** What both sides prove to know on connections that the JVM opens; it never travels. */
  val greeting: String = Gateway.newSecret()

  private val client = new EngineClient(null, 0, GatewayServer.defaultAddress(), null, greeting)
  private val server = new JavaServer(null, 0, 0, 0, null, client, secret)
  client.setGateway(server.getGateway)
  client.setJavaServer(server)

  def start(): Unit = server.start()
  def port: Int = server.getListeningPort
  def shutdown(): Unit = server.shutdown(true)
}

private object Gateway {
  def newSecret(): String = HexFormat.of().formatHex(newBytes())

  def newBytes(): Array[Byte] = {
    val bytes = new Array[Byte](Greeting.Size)
    new SecureRandom().nextBytes(bytes)
    bytes
  }
}

/** Opens the connections to the engine. */
private class EngineClient(gateway: py4j.Gateway, port: Int, address: InetAddress, server: py4j.Py4JJavaServer,
    greeting: String)
  extends PythonClient(gateway, null, port, address, 30, TimeUnit.SECONDS, SocketFactory.getDefault, server, true, 0) {

  /** py4j calls this when the engine tells its port. */
  override def copyWith(address: InetAddress, port: Int): Py4JPythonClient =
    new EngineClient(getGateway, port, address, getJavaServer, greeting)

  override protected def startClientSocket(): Socket = {
    val socket = super.startClientSocket()
    try { Greeting.exchange(socket, greeting); socket }
    catch { case e: Throwable => socket.close(); throw e }
  }
}

/** Both sides show that they know a secret, each with a number of the other's choice, and neither says it. */
private object Greeting {
  val Size = 32
  private val TimeoutMillis = 20000

  def exchange(socket: Socket, secret: String): Unit = {
    val mine = Gateway.newBytes()
    socket.setSoTimeout(TimeoutMillis)
    val (out, in) = (socket.getOutputStream, socket.getInputStream)
    out.write(mine)
    out.flush()
    val (theirs, proof) = (in.readNBytes(Size), in.readNBytes(Size))
    if (!MessageDigest.isEqual(proof, prove(secret, "engine", mine, theirs)))
      throw new IOException("Not the engine listens on the engine's port")
    out.write(prove(secret, "jvm", theirs, mine))
    out.flush()
    socket.setSoTimeout(0)
  }

  private def prove(secret: String, who: String, numbers: Array[Byte]*): Array[Byte] = {
    val mac = Mac.getInstance("HmacSHA256")
    mac.init(new SecretKeySpec(secret.getBytes("US-ASCII"), "HmacSHA256"))
    mac.update(who.getBytes("US-ASCII"))
    numbers.foreach(mac.update(_))
    mac.doFinal()
  }
}
