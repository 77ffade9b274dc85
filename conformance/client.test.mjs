// The official TypeScript client creates, appends and tails through restarts of the server.

import { DurableStream, IdempotentProducer, stream as open } from "@durable-streams/client"
import { expect, onTestFinished, test } from "vitest"

import { clientReaders } from "./readers/client.mjs"
import { Server } from "./server.mjs"
import { patientFetch, storyTimeoutMs, throughRestarts } from "./story.mjs"

test("creates, appends, reads and closes", async () => {
  const server = await Server.start()
  onTestFinished(() => server.stop())

  const url = `${server.url}/v1/stream/client/first`
  const handle = await DurableStream.create({ url, contentType: "application/json" })
  await handle.append(JSON.stringify({ n: 0 }))
  await handle.append(JSON.stringify({ n: 1 }))
  await handle.close({ body: JSON.stringify({ n: 2 }) })

  const session = await open({ url, live: false })
  expect(await session.json()).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }])
  expect(session.streamClosed).toBe(true)
})

test("appends and tails through restarts", { timeout: storyTimeoutMs }, async () => {
  await throughRestarts(clientReaders, { write: writeWithProducer })
})

/** Ten numbers in flight at a time through the client's producer; a request that meets no server is sent again. */
async function* writeWithProducer(stream, signal) {
  let failure
  const handle = new DurableStream({ url: stream.durable, contentType: "application/json" })
  const producer = new IdempotentProducer(handle, "writer", {
    fetch: patientFetch,
    signal,
    maxBatchBytes: 1, // one number a request, so that requests overtake each other
    maxInFlight: 10,
    onError: (error) => (failure = error),
  })
  for (let count = 10; ; count += 10) {
    for (let n = count - 10; n < count; n++) producer.append(JSON.stringify({ n }))
    await producer.flush()
    if (failure) throw failure
    yield count
  }
}
