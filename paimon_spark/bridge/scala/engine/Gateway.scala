package org.apache.spark.sql.paimonbridge

import java.io.IOException
import java.net.{InetAddress, Socket}
import java.security.{MessageDigest, SecureRandom}
import java.util.{HashMap => JHashMap, HexFormat}
import java.util.concurrent.TimeUnit
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec
import javax.net.SocketFactory

import py4j.{GatewayServer, JavaServer, Py4JClientConnection, Py4JPythonClient, PythonClient}

/** The JVM side of the connections to one engine. Incoming commands require a secret; outgoing requests are sent
  * only to a process that proves to be the engine. py4j's own secret for outgoing connections is sent in the clear
  * to any listener, is lost when the callback port becomes known, and does not authenticate the other side. */
private class Gateway {

  /** The secret that the engine presents when it connects. */
  val secret: String = Gateway.newSecret()

  /** The secret that both sides prove to know on connections opened by the JVM; it is never transmitted. */
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
private class EngineClient(
    gateway: py4j.Gateway,
    port: Int,
    address: InetAddress,
    server: py4j.Py4JJavaServer,
    greeting: String)
    extends PythonClient(
      gateway,
      null,
      port,
      address,
      30,
      TimeUnit.SECONDS,
      SocketFactory.getDefault,
      server,
      true,
      0) {

  private val owners = new JHashMap[Thread, Py4JClientConnection]()

  /** The connection of this thread. py4j keeps those of threads that have ended, each with a thread of the engine. */
  override protected def getConnection(): Py4JClientConnection = {
    closeEnded()
    val own = super.getConnection()
    owners.synchronized(owners.put(Thread.currentThread(), own))
    own
  }

  private def closeEnded(): Unit = owners.synchronized {
    owners.entrySet().removeIf { owned =>
      val ended = !owned.getKey.isAlive
      if (ended) {
        connections.remove(owned.getValue)
        owned.getValue.shutdown()
      }
      ended
    }
  }

  /** Called by py4j when the engine reports its port. */
  override def copyWith(address: InetAddress, port: Int): Py4JPythonClient =
    new EngineClient(getGateway, port, address, getJavaServer, greeting)

  override protected def startClientSocket(): Socket = {
    val socket = super.startClientSocket()
    socket.setTcpNoDelay(true) // the first request would wait 40 ms until the greeting is acknowledged
    try { Greeting.exchange(socket, greeting); socket }
    catch { case e: Throwable => socket.close(); throw e }
  }
}

/** Mutual authentication by challenge and response: both sides prove to know a secret without transmitting it. */
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
      throw new IOException("Another process listens on the port of the engine")
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
