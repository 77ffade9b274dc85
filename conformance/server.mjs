// One `picomq serve` process on a data folder of its own, that can be killed and started again in place.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"

const binary = process.env.PICOMQ_BIN ?? fileURLToPath(new URL("../bin/picomq", import.meta.url))

/** How long a start (log replay included) and a drain may take before a test fails. */
const startMs = 120_000
const stopMs = 120_000

/** Where servers listen: outside of what a kernel gives to connections, which could take the port of a killed one. */
const firstPort = 20_000
const ports = 12_000

/** How many ports are tried for a server: any may be taken. */
const portsTried = 5

/** The last bytes of the server's log kept for an error message. */
const keptLog = 64 * 1024

export class Server {
  /** Base URL of both protocols, the same after every restart. */
  url
  /** Base URL of the admin listener, another one after every restart. */
  adminUrl

  #process
  #data
  #flags
  #log = ""

  /** Starts a server on an empty data folder and a free port; resolves when it is ready. */
  static async start({ flags = [] } = {}) {
    const server = new Server()
    server.#flags = flags
    server.#data = await mkdtemp(join(tmpdir(), "picomq-conformance-"))
    for (let tried = 1; ; tried++) {
      try {
        await server.#launch(`127.0.0.1:${firstPort + Math.floor(Math.random() * ports)}`)
        return server
      } catch (error) {
        if (tried === portsTried || !error.message.includes("address already in use")) throw error
      }
    }
  }

  /** SIGKILL: no drain, no flush, no goodbye. */
  async kill() {
    await this.#end("SIGKILL")
  }

  /** Starts again on the same port and data; resolves when it is ready. */
  async restart() {
    await this.#launch(new URL(this.url).host)
  }

  /** SIGTERM, which must end with exit code 0; then the data folder is removed. */
  async stop() {
    try {
      const [code, signal] = await this.#end("SIGTERM")
      if (code !== 0) throw new Error(`picomq answered SIGTERM with ${signal ?? `exit code ${code}`}, not 0\n${this.#log}`)
    } finally {
      await rm(this.#data, { recursive: true, force: true })
    }
  }

  async #launch(listen) {
    const args = ["serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data", this.#data, ...this.#flags]
    const child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"] })
    this.#process = child
    child.stderr.setEncoding("utf8").on("data", (text) => {
      this.#log = (this.#log + text).slice(-keptLog)
    })
    const failed = once(child, "exit").then(([code, signal]) => {
      throw new Error(`picomq ended (${signal ?? `exit code ${code}`}) before it was ready\n${this.#log}`)
    })
    const late = sleep(startMs, undefined, { ref: false }).then(() => {
      throw new Error(`picomq was not ready after ${startMs} ms\n${this.#log}`)
    })
    failed.catch(() => {}) // after the start, an exit is what kill and stop ask for
    late.catch(() => {})
    await Promise.race([this.#ready(child), failed, late])
  }

  async #ready(child) {
    for await (const line of createInterface({ input: child.stdout })) {
      const [, what, url] = /^(listening|admin) on (http:\S+)$/.exec(line) ?? []
      if (what === "listening") this.url = url
      if (what === "admin") {
        this.adminUrl = url
        break
      }
    }
    child.stdout.resume()
    while (!(await answersReady(this.adminUrl))) await sleep(20)
  }

  async #end(signal) {
    const child = this.#process
    if (child.exitCode !== null || child.signalCode !== null) return [child.exitCode, child.signalCode]
    const exited = once(child, "exit")
    child.kill(signal)
    const giveUp = setTimeout(() => child.kill("SIGKILL"), stopMs)
    try {
      return await exited
    } finally {
      clearTimeout(giveUp)
    }
  }
}

async function answersReady(adminUrl) {
  try {
    return (await fetch(`${adminUrl}/ready`)).ok
  } catch {
    return false // not listening yet
  }
}
