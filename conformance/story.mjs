// The story that every kind of reader must live through: somebody writes the numbers 0, 1, 2, … to a stream, readers
// follow it, the server is killed and started again under all of them, and each reader has seen each number once, in
// order.
//
// A reader is { name, tail(stream, see, signal) }: it calls see(number) for every record until the signal aborts, and
// gets over a lost connection by itself, resuming from the last position it was told.
//
// A stream is { pico, durable, inherited }: one stream under the URLs of both protocols, and how many numbers it begins
// with.

import { setTimeout as sleep } from "node:timers/promises"

import { expect, onTestFinished } from "vitest"

import { Server } from "./server.mjs"

/** How often the server is killed while everybody writes and reads. */
const kills = 2

/** How many records every reader must see between two kills. */
const stretch = 30

/** Time between two appends, so that a slow reader meets many of them while it is away. */
const pauseMs = 5

/** Time that one test of this story may take on a busy machine; a browser alone waits three seconds before it reconnects. */
export const storyTimeoutMs = 600_000

/**
 * Runs the story. `create(stream)` creates the stream and resolves to how many numbers it begins with; `write(stream,
 * signal)` goes on from there and yields how many there are, as often as more have been acknowledged.
 */
export async function throughRestarts(readers, { create = createEmpty, write = writeWithPico } = {}) {
  const server = await Server.start()
  onTestFinished(() => server.stop())
  const name = "/conformance/numbers"
  const stream = { pico: server.url + name, durable: `${server.url}/v1/stream${name}` }
  stream.inherited = await create(stream)

  const readings = readers.map((reader) => new Reading(reader, stream))
  onTestFinished(() => Promise.all(readings.map((reading) => reading.stop())))
  const writing = new Writing(write, stream)
  onTestFinished(() => writing.abandon())
  const everyoneSees = (count) => Promise.race([Promise.all(readings.map((r) => r.sees(count))), writing.failed])

  for (let i = 0; i < kills; i++) {
    await everyoneSees(writing.acknowledged + stretch)
    await server.kill()
    await server.restart()
  }
  await everyoneSees(writing.acknowledged + stretch)
  await everyoneSees(await writing.stop())
  for (const reading of readings) {
    await reading.stop()
    expect(reading.numbers, reading.name).toEqual(Array.from({ length: writing.acknowledged }, (_, i) => i))
  }
}

/**
 * fetch, repeated until the server answers. An append that carries producer headers may be repeated blindly: if the
 * lost answer was an acknowledgement, the server says so again and writes nothing.
 */
export async function patientFetch(url, options) {
  for (;;) {
    try {
      return await fetch(url, options)
    } catch (error) {
      if (options?.signal?.aborted) throw error
      await sleep(20)
    }
  }
}

async function createEmpty(stream) {
  const response = await fetch(stream.pico, { method: "PUT", headers: { "Content-Type": "application/json" } })
  expect(response.status, await response.text()).toBe(201)
  return 0
}

async function* writeWithPico(stream, signal) {
  for (let n = stream.inherited; ; n++) {
    const response = await patientFetch(stream.pico, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        "Pico-Producer-Id": "writer",
        "Pico-Producer-Epoch": "0",
        "Pico-Producer-Seq": String(n - stream.inherited),
      },
      body: JSON.stringify({ n }),
      signal,
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`append of ${n}: status ${response.status}: ${text}`)
    yield n + 1
  }
}

/** A writer at work until it is stopped. */
class Writing {
  /** How many numbers the server has acknowledged. */
  acknowledged = 0
  /** Rejects when the writer fails, else stays pending. */
  failed
  #stopped = false
  #aborter = new AbortController()
  #done

  constructor(write, stream) {
    this.#done = this.#write(write(stream, this.#aborter.signal))
    this.failed = this.#done.then(() => new Promise(() => {}))
    this.failed.catch(() => {})
  }

  /** Ends the writing after the number at hand and resolves to how many numbers were acknowledged in all. */
  async stop() {
    this.#stopped = true
    await this.#done
    return this.acknowledged
  }

  /** Ends the writing wherever it is, be it waiting for a server that will not come back. */
  async abandon() {
    this.#aborter.abort()
    await this.#done.catch(() => {})
  }

  async #write(numbers) {
    for await (this.acknowledged of numbers) {
      if (this.#stopped) return
      await sleep(pauseMs)
    }
  }
}

/** A reader at work, and what it has seen. */
class Reading {
  name
  numbers = []
  #aborter = new AbortController()
  #waiting = [] // { count, resolve }
  #failed
  #done

  constructor(reader, stream) {
    this.name = reader.name
    this.#failed = new Promise((_, reject) => {
      this.fail = (why) => reject(new Error(`${reader.name}: ${why}`))
    })
    this.#failed.catch(() => {}) // sees() is who tells
    this.#done = reader.tail(stream, (number) => this.#see(number), this.#aborter.signal).catch((error) => {
      if (!this.#aborter.signal.aborted) this.fail(error.stack)
    })
  }

  /** Resolves once the reader has seen `count` numbers; rejects at the first gap or repeat. */
  sees(count) {
    if (this.numbers.length >= count) return Promise.resolve()
    const seen = new Promise((resolve) => this.#waiting.push({ count, resolve }))
    return Promise.race([seen, this.#failed])
  }

  async stop() {
    this.#aborter.abort()
    await this.#done
  }

  #see(number) {
    const expected = this.numbers.length
    if (number !== expected) this.fail(`saw ${number} where ${expected} was next`)
    this.numbers.push(number)
    for (const { count, resolve } of this.#waiting) if (count <= this.numbers.length) resolve()
    this.#waiting = this.#waiting.filter(({ count }) => count > this.numbers.length)
  }
}
