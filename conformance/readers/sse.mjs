// Server-sent events without a browser: the text of a response in, events out; and a reader that resumes.

import { setTimeout as sleep } from "node:timers/promises"

/** Thrown by a transport when the connection could not be made or broke: the reader tries again. */
export class ConnectionLost extends Error {}

/**
 * A reader (see ../story.mjs) that follows a stream in one protocol over one transport. `Cursor` knows the protocol's
 * events and positions; `transport(url, signal)` yields the text of the response.
 */
export function sseReader(name, Cursor, transport) {
  return {
    name,
    async tail(stream, see, signal) {
      const cursor = new Cursor(stream)
      while (!signal.aborted) {
        try {
          for await (const event of events(transport(cursor.resume(), signal))) cursor.take(event).forEach(see)
        } catch (error) {
          if (!(error instanceof ConnectionLost)) throw error
        }
        await sleep(20)
      }
    },
  }
}

/** Pico: a data event names the position after it in its id. */
export class PicoCursor {
  #stream
  #seq = "0"

  constructor(stream) {
    this.#stream = stream
  }

  resume() {
    return `${this.#stream.pico}?live=sse&seq=${this.#seq}`
  }

  take({ type, id, data }) {
    if (type !== "data") return []
    this.#seq = id
    return JSON.parse(data).map((record) => JSON.parse(record.body).n)
  }
}

/** Durable Streams: the control event after a data event names the position, so data counts when it has come. */
export class DurableCursor {
  #stream
  #offset = "-1"
  #held = []

  constructor(stream) {
    this.#stream = stream
  }

  resume() {
    this.#held = []
    return `${this.#stream.durable}?live=sse&offset=${this.#offset}`
  }

  take({ type, data }) {
    if (type === "data") {
      this.#held.push(...JSON.parse(data).map((message) => message.n))
      return []
    }
    this.#offset = JSON.parse(data).streamNextOffset
    return this.#held.splice(0)
  }
}

/** Parses the event-stream format of the HTML standard, as far as field names, comments and several data lines go. */
async function* events(chunks) {
  let rest = ""
  let event = newEvent()
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split(/\r\n|\n/)
    rest = lines.pop()
    for (const line of lines) {
      if (line !== "") {
        addField(event, line)
        continue
      }
      if (event.lines.length > 0) yield { type: event.type, id: event.id, data: event.lines.join("\n") }
      event = newEvent()
    }
  }
}

function newEvent() {
  return { type: "message", id: undefined, lines: [] }
}

function addField(event, line) {
  const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line)
  if (field === "event") event.type = value
  if (field === "id") event.id = value
  if (field === "data") event.lines.push(value)
}
