// SPDX-License-Identifier: Apache-2.0
// Tests are named by the method of the SDK they show; what was shown becomes the table in docs/guides/e2b.md.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { Sandbox } from 'e2b'

export { assert }
export const slack = Number(process.env.CAY_TEST_SLACK || '1')
export const api = process.env.E2B_API_URL
export const key = process.env.E2B_API_KEY
const shown = []

// state: what a user can expect: 'works', or how it refuses.
export function method(name, title, fn, state = 'works') {
  const names = Array.isArray(name) ? name : [name]
  test(`${names[0]}: ${title}`, { timeout: 60000 * slack }, async (t) => {
    const rows = names.map((n) => ({ method: n, title, state, ok: false }))
    shown.push(...rows)
    await fn(t)
    for (const row of rows) row.ok = true
  })
}

process.on('exit', () => {
  const dir = process.env.CAY_E2B_RESULTS
  if (!dir) return
  const name = `${path.basename(process.argv[1])}-${process.env.CAY_E2B_KIND || ''}.json`
  writeFileSync(path.join(dir, name), JSON.stringify(shown))
})

// Awaits something that must become true; never a fixed pause.
export async function until(what, look, ms = 20000) {
  const end = Date.now() + ms * slack
  for (;;) {
    const value = await look()
    if (value) return value
    if (Date.now() > end) assert.fail(`not within ${ms * slack} ms: ${what}`)
    await new Promise((r) => setTimeout(r, 20))
  }
}

export async function rest(verb, where, body) {
  const answer = await fetch(api + where, {
    method: verb,
    headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const text = await answer.text()
  return { status: answer.status, body: text ? JSON.parse(text) : null }
}

// GET / of a host that no resolver here knows: where it leads is the daemon.
export function visit(host, headers = {}) {
  const { hostname, port } = new URL(api)
  return new Promise((done, fail) => {
    http.get({ hostname, port, path: '/', agent: false, headers: { ...headers, Host: host } }, async (answer) => {
      let text = ''
      for await (const piece of answer) text += piece
      done({ status: answer.statusCode, body: JSON.parse(text) })
    }).on('error', fail)
  })
}

async function pooled() {
  return until('a sandbox from the pool', async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 600000 })
    const seen = await rest('GET', `/v1/sandboxes/${sandbox.sandboxId}`)
    if (seen.body.boot_path === 'pool') return sandbox
    await sandbox.kill()
    return null
  }, 60000)
}

async function cold(more = {}) {
  const made = await rest('POST', '/v1/sandboxes', { timeout_sec: 600, pool: { mode: 'bypass' }, ...more })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  assert.equal(made.body.boot_path, 'cold')
  return Sandbox.connect(made.body.id, { timeoutMs: 600000 })
}

async function forked() {
  const source = await Sandbox.create({ timeoutMs: 600000 })
  const [child] = await source.fork({ timeoutMs: 600000 })
  await source.kill()
  assert.ok(child instanceof Sandbox, String(child))
  return child
}

export const kinds = { pooled, cold, forked }
export const makeCold = cold

export async function rejects(promise, type, pattern) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.constructor.name, type.name, `${error.constructor.name}: ${error.message}`)
    if (pattern) assert.match(error.message, pattern)
    return true
  })
}
