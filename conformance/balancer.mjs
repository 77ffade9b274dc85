// A balancer as plain as there can be: every request goes to the next of its nodes, and nothing is buffered or repeated.

import { once } from "node:events"
import { Agent, createServer, request } from "node:http"
import { pipeline } from "node:stream"

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
    const upstream = request({
      agent: this.#agent,
      host: node.hostname,
      port: node.port,
      method: incoming.method,
      path: incoming.url, // as it came: not normalized
      headers: incoming.rawHeaders,
    })
    upstream.on("response", (answer) => {
      outgoing.writeHead(answer.statusCode, answer.statusMessage, answer.rawHeaders)
      outgoing.flushHeaders()
      pipeline(answer, outgoing, () => {}) // either side may end an event stream at any time
    })
    upstream.on("error", (error) => {
      if (outgoing.headersSent) outgoing.destroy(error)
      else outgoing.writeHead(502).end(`the balancer got no answer from ${node.host}: ${error.message}`)
    })
    outgoing.on("close", () => upstream.destroy())
    pipeline(incoming, upstream, () => {})
  }
}
