// Plain HTTP readers: HTTP/1.1, cleartext HTTP/2 and curl, each in both protocols.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { connect } from "node:http2"

import { ConnectionLost, DurableCursor, PicoCursor, sseReader } from "./sse.mjs"

const transports = { "HTTP/1.1": overFetch, "HTTP/2": overHTTP2, curl: overCurl }
const protocols = { Pico: PicoCursor, "Durable Streams": DurableCursor }

export const httpReaders = Object.entries(transports).flatMap(([transport, open]) =>
  Object.entries(protocols).map(([protocol, Cursor]) => sseReader(`${protocol} over ${transport}`, Cursor, open)),
)

async function* overFetch(url, signal) {
  let response
  try {
    response = await fetch(url, { signal })
  } catch (cause) {
    throw new ConnectionLost(url, { cause })
  }
  await expectOK(response.status, () => response.text())
  try {
    yield* response.body.pipeThrough(new TextDecoderStream())
  } catch (cause) {
    throw new ConnectionLost(url, { cause })
  }
}

async function* overHTTP2(url, signal) {
  const { origin, pathname, search } = new URL(url)
  const session = connect(origin)
  session.on("error", () => {}) // the request fails with it
  try {
    const request = session.request({ ":path": pathname + search }, { signal })
    request.setEncoding("utf8")
    const status = await answered(request, url)
    await expectOK(status, async () => (await request.toArray()).join(""))
    try {
      yield* request
    } catch (cause) {
      throw new ConnectionLost(url, { cause })
    }
  } finally {
    session.destroy()
  }
}

async function answered(request, url) {
  try {
    const closed = once(request, "close").then(() => Promise.reject(new Error("closed without an answer")))
    const [headers] = await Promise.race([once(request, "response"), closed])
    return headers[":status"]
  } catch (cause) {
    throw new ConnectionLost(url, { cause })
  }
}

// curl's exit codes for a refused, cut, silent and reset connection.
const curlLost = new Set([7, 18, 52, 56])

async function* overCurl(url, signal) {
  const child = spawn("curl", ["-s", "-N", "--fail-with-body", url], { stdio: ["ignore", "pipe", "ignore"], signal })
  const exited = once(child, "exit")
  exited.catch(() => {}) // aborted
  let text = ""
  try {
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      text = chunk
      yield chunk
    }
    const [code] = await exited
    if (curlLost.has(code)) throw new ConnectionLost(`curl ${url}: exit code ${code}`)
    if (code !== 0) throw new Error(`curl ${url}: exit code ${code}: ${text}`)
  } finally {
    child.kill()
  }
}

async function expectOK(status, body) {
  if (status !== 200) throw new Error(`live read answered ${status}: ${await body()}`)
}
