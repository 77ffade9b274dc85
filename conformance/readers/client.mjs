// The official TypeScript client, in both of its live modes.

import { setTimeout as sleep } from "node:timers/promises"

import { FetchError, stream as open } from "@durable-streams/client"

export const clientReaders = [reader("long-poll"), reader("sse")]

/** A reader (see ../story.mjs) that opens a new session from the last offset whenever one ends. */
function reader(live) {
  return {
    name: `TypeScript client, ${live}`,
    async tail(stream, see, signal) {
      let offset = "-1"
      while (!signal.aborted) {
        try {
          const session = await open({ url: stream.durable, offset, live, signal })
          session.subscribeJson((batch) => {
            batch.items.forEach((message) => see(message.n))
            offset = batch.offset
          })
          await session.closed
        } catch (error) {
          if (error instanceof FetchError) throw error // an answer, and not the one wanted
        }
        await sleep(20)
      }
    },
  }
}
