// A balancer as plain as there can be: every request goes to the next of its nodes, and nothing is buffered or repeated.

import { once } from "node:events"
import { Agent, createServer, request } from "node:http"
import { pipeline } from "node:stream"

/** Bytes of a body above which a node is asked before it is sent. */
const largeBody = 256 * 1024

export class Balancer {
  /** Base URL of what it balances. */
  url

  #server
  #agent = new Agent({ keepAlive: true })
  #nodes
  #next = 0

  /** Starts on a free port before nodes, which are base URLs. */
  static async start(nodes) {
    const balancer = new Balancer()
    balancer.#nodes = nodes
    balancer.#server = createServer((incoming, outgoing) => balancer.#forward(incoming, outgoing))
    balancer.#server.listen(0, "127.0.0.1")
    await once(balancer.#server, "listening")
    balancer.url = `http://127.0.0.1:${balancer.#server.address().port}`
    return balancer
  }

  async stop() {
    const closed = once(this.#server, "close")
    this.#server.close()
    this.#server.closeAllConnections()
    this.#agent.destroy()
    await closed
  }

  #forward(incoming, outgoing) {
    const node = new URL(this.#nodes[this.#next++ % this.#nodes.length])
    // Whether a node takes a large body is asked first: one that does not ends the connection while it is being sent,
    // and its answer may be lost with it.
    const asks = Number(incoming.headers["content-length"] ?? 0) > largeBody
    const upstream = request({
      agent: this.#agent,
      host: node.hostname,
      port: node.port,
      method: incoming.method,
      path: incoming.url, // as it came: not normalized
      headers: asks ? [...incoming.rawHeaders, "Expect", "100-continue"] : incoming.rawHeaders,
    })
    upstream.on("response", (answer) => {
      incoming.unpipe(upstream).resume() // a node that refuses a large body does not wait for its end
      outgoing.writeHead(answer.statusCode, answer.statusMessage, endToEnd(answer.rawHeaders))
      outgoing.flushHeaders()
      pipeline(answer, outgoing, () => {}) // either side may end an event stream at any time
    })
    upstream.on("error", (error) => {
      if (outgoing.headersSent) return // the answer is whole, or ends early itself
      outgoing.writeHead(502).end(`the balancer got no answer from ${node.host}: ${error.message}`)
    })
    outgoing.on("close", () => upstream.destroy())
    incoming.on("error", () => {}) // outgoing closes with it
    // Not a pipeline, which would break the client's connection when the node ends its own.
    if (asks) upstream.on("continue", () => incoming.pipe(upstream)).flushHeaders()
    else incoming.pipe(upstream)
  }
}

/** Headers, name after value after name, without what is said of the node's connection: the client has another one. */
function endToEnd(headers) {
  return headers.filter((_, i) => headers[i - (i % 2)].toLowerCase() !== "connection")
}
