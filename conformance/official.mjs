// The public Durable Streams suite, unchanged, against whatever listens at a URL.

import { runConformanceTests } from "@durable-streams/server-conformance-tests"
import { afterAll, expect } from "vitest"

import { leftOutSize, suiteSize } from "./left-out.mjs"

// Short, so that the tests that wait for it to pass are.
const longPollTimeoutMs = 500

// As long as a busy machine may take for a test: it only ends one that hangs.
const patienceMs = 120_000

/** The flags that a server under test needs. */
export const suiteFlags = ["--long-poll-timeout", `${longPollTimeoutMs}ms`]

/** Declares every test of the suite in the calling file, and one check that exactly the intended ones ran. */
export function runSuite(name, baseUrl) {
  afterAll(({}, file) => {
    const modes = [...tests(file)].map((test) => test.mode)
    const ran = modes.filter((mode) => mode === "run").length
    console.log(`official suite, ${name}: ran ${ran} of ${modes.length} tests, left out ${modes.length - ran} by name`)
    expect({ ran, leftOut: modes.length - ran }).toEqual({ ran: suiteSize - leftOutSize, leftOut: leftOutSize })
  })
  runConformanceTests({
    baseUrl,
    longPollTimeoutMs: patienceMs, // the suite only adds a second to it, as the limit of a test
    subscriptions: true, // so that left-out.mjs alone decides
  })
}

function* tests(task) {
  if (task.type === "test") yield task
  else for (const child of task.tasks) yield* tests(child)
}
