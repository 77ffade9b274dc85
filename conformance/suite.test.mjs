// The public Durable Streams suite, unchanged, against the real binary.

import { runConformanceTests } from "@durable-streams/server-conformance-tests"
import { afterAll, expect } from "vitest"

import { leftOutSize, suiteSize } from "./left-out.mjs"
import { Server } from "./server.mjs"

// Short, so that the tests that wait for it to pass are.
const longPollTimeoutMs = 500

const server = await Server.start({ flags: ["--long-poll-timeout", `${longPollTimeoutMs}ms`] })

afterAll(() => server.stop())

afterAll(({}, file) => {
  const modes = [...tests(file)].map((test) => test.mode)
  const ran = modes.filter((mode) => mode === "run").length
  console.log(`official suite: ran ${ran} of ${modes.length} tests, left out ${modes.length - ran} by name`)
  expect({ ran, leftOut: modes.length - ran }).toEqual({ ran: suiteSize - leftOutSize, leftOut: leftOutSize })
})

runConformanceTests({
  baseUrl: server.url,
  longPollTimeoutMs,
  subscriptions: true, // so that left-out.mjs alone decides
})

function* tests(task) {
  if (task.type === "test") yield task
  else for (const child of task.tasks) yield* tests(child)
}
