// The official suite against three nodes on one Postgres and one bucket, behind a balancer that sends each request to
// another of them: whatever a test does next is answered by a node that did not do what came before.

import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll } from "vitest"

import { Balancer } from "./balancer.mjs"
import { runSuite, suiteFlags } from "./official.mjs"
import { Server } from "./server.mjs"

// Of a database that nothing else uses: scripts/with-postgres starts a new one for each run of the tests.
const postgres = process.env.PICOMQ_TEST_POSTGRES
if (!postgres) throw new Error("PICOMQ_TEST_POSTGRES is not set: run the tests with `make conformance`")

const bucket = await mkdtemp(join(tmpdir(), "picomq-conformance-bucket-"))
const flags = [...suiteFlags, "--meta-url", postgres, "--storage", pathToFileURL(bucket).href]
const nodes = await Promise.all([1, 2, 3].map(() => Server.start({ flags })))
const balancer = await Balancer.start(nodes.map((node) => node.url))

afterAll(async () => {
  await balancer.stop()
  await Promise.all(nodes.map((node) => node.stop()))
  await rm(bucket, { recursive: true, force: true })
})

runSuite("three nodes behind a balancer", balancer.url)
