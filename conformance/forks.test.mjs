// Every kind of reader follows a fork, across the place where its own records begin, while its source is written to,
// deleted, and the server killed.

import { expect, test } from "vitest"

import { browserReader } from "./readers/browser.mjs"
import { clientReaders } from "./readers/client.mjs"
import { httpReaders } from "./readers/http.mjs"
import { storyTimeoutMs, throughRestarts } from "./story.mjs"

/** How many numbers the fork has of its source, in batches that the fork cuts in two. */
const inherited = 25
const batch = 10

test("all readers see a fork as one stream", { timeout: storyTimeoutMs }, async () => {
  await throughRestarts([browserReader, ...clientReaders, ...httpReaders], { create: createFork })
})

async function createFork(stream) {
  const source = `${stream.durable}-source`
  const json = { "Content-Type": "application/json" }
  await request(201, source, { method: "PUT", headers: json })
  for (let first = 0; first < inherited; first += batch) {
    await request(204, source, { method: "POST", headers: json, body: numbersFrom(first) })
  }
  await request(201, stream.durable, {
    method: "PUT",
    headers: {
      "Stream-Forked-From": new URL(source).pathname,
      "Stream-Fork-Offset": "0000000000000000_0000000000000000",
      "Stream-Fork-Sub-Offset": String(inherited),
    },
  })
  await request(204, source, { method: "POST", headers: json, body: numbersFrom(1000) }) // for nobody's eyes
  await request(204, source, { method: "DELETE" })
  await request(410, source)
  return inherited
}

function numbersFrom(first) {
  return JSON.stringify(Array.from({ length: batch }, (_, i) => ({ n: first + i })))
}

async function request(status, url, options) {
  const response = await fetch(url, options)
  expect(response.status, `${options?.method ?? "GET"} ${url}: ${await response.text()}`).toBe(status)
}
