// SPDX-License-Identifier: Apache-2.0
// What other clients than the JavaScript SDK send: the wire itself.
import { after, before } from 'node:test'
import { gzipSync } from 'node:zlib'
import { Sandbox } from 'e2b'
import { api, assert, method, until } from './harness.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 600000 }) })
after(async () => { await sandbox?.kill() })

const headers = (more) => ({
  'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': sandbox.envdAccessToken, ...more,
})

async function unary(name, body, more) {
  const answer = await fetch(`${api}/${name}`, {
    method: 'POST', body: JSON.stringify(body), headers: headers({ 'Content-Type': 'application/json', ...more }),
  })
  return [answer.status, await answer.json()]
}

function envelope(message, flag = 0) {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head[0] = flag
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

function open(bytes) {
  const list = []
  for (let at = 0; at < bytes.length;) {
    const n = bytes.readUInt32BE(at + 1)
    list.push([bytes[at], JSON.parse(bytes.subarray(at + 5, at + 5 + n))])
    at += 5 + n
  }
  return list
}

async function stream(name, body, more) {
  const answer = await fetch(`${api}/${name}`, {
    method: 'POST', body, headers: headers({ 'Content-Type': 'application/connect+json', ...more }),
  })
  return [answer.status, open(Buffer.from(await answer.arrayBuffer()))]
}

method('envd', 'Start as a stream of envelopes that ends', async () => {
  const [status, list] = await stream('process.Process/Start', envelope({
    process: { cmd: '/bin/sh', args: ['-c', 'echo $X; exit 4'], envs: { X: 'y' }, cwd: '/tmp' }, stdin: false,
  }))
  assert.equal(status, 200)
  assert.ok(list[0][1].event.start.pid > 0)
  const out = list.filter(([, m]) => m.event?.data).map(([, m]) => Buffer.from(m.event.data.stdout, 'base64')).join('')
  assert.equal(out, 'y\n')
  assert.deepEqual(list.at(-2)[1].event.end, { exitCode: 4, exited: true, status: 'exit status 4', error: 'exit status 4' })
  assert.deepEqual(list.at(-1), [2, {}])
})

method('commands.run', 'a hundred megabytes of output, complete', async () => {
  const size = 100_000_000
  let seen = 0
  const result = await sandbox.commands.run(`head -c ${size} /dev/zero | tr '\\0' x`, {
    timeoutMs: 0, onStdout: (text) => { seen += text.length },
  })
  assert.equal(result.exitCode, 0)
  assert.equal(seen, size)
  assert.equal(result.stdout.length, size)
})

// One that reads nothing: its process is not stopped by it, and what it missed is an error, not silence.
method('envd', 'output that was overwritten ends Connect with data_loss', async () => {
  const handle = await sandbox.commands.run('read go; head -c 60000000 /dev/zero; echo end; read stay', {
    background: true, stdin: true, timeoutMs: 0,
  })
  const answer = await fetch(`${api}/process.Process/Connect`, {
    method: 'POST', body: envelope({ process: { pid: handle.pid } }), headers: headers({ 'Content-Type': 'application/connect+json' }),
  })
  await handle.disconnect()
  await sandbox.commands.sendStdin(handle.pid, 'go\n')
  await until('all of it is written', async () =>
    (await sandbox.commands.run(`test -e /proc/${handle.pid} && ls /proc/${handle.pid}/task/*/children | xargs cat | wc -w`)).stdout.trim() === '0')
  await new Promise((r) => setTimeout(r, 1000))
  const list = open(Buffer.from(await answer.arrayBuffer()))
  assert.equal(list.at(-1)[0], 2)
  assert.equal(list.at(-1)[1].error.code, 'data_loss')
  assert.match(list.at(-1)[1].error.message, /^output lost: \d+ bytes were overwritten before they were read \(pid \d+, stdout, offset \d+\)$/)
  await sandbox.commands.kill(handle.pid)
})

method('envd', 'errors of a stream stand in its last envelope', async () => {
  const [status, list] = await stream('process.Process/Connect', envelope({ process: { pid: 999999 } }))
  assert.equal(status, 200)
  assert.deepEqual(list, [[2, { error: { code: 'not_found', message: 'process with pid 999999 not found' } }]])
  for (const body of [Buffer.from([1, 0, 0, 0, 2, 123, 125]), Buffer.from([0, 0, 0]), Buffer.from('nonsense'), Buffer.alloc(0)]) {
    const [, refusal] = await stream('process.Process/Start', body)
    assert.equal(refusal.at(-1)[1].error.code, 'invalid_argument')
  }
  const [wrong] = await unary('process.Process/Start', {})
  assert.equal(wrong, 415)
})

method('envd', 'a quiet stream is kept alive', async () => {
  const [, list] = await stream('process.Process/Start',
    envelope({ process: { cmd: '/bin/sleep', args: ['3'] } }), { 'Keepalive-Ping-Interval': '1' })
  assert.ok(list.some(([, m]) => m.event?.keepalive))
})

method('envd', 'tags name processes; signals, StreamInput', async () => {
  const tag = 'a-tag'
  const run = stream('process.Process/Start', envelope({ process: { cmd: '/bin/cat' }, tag }))
  await until('it is listed', async () => (await unary('process.Process/List', {}))[1].processes.some((p) => p.tag === tag))
  const [status, answer] = await stream('process.Process/StreamInput', Buffer.concat([
    envelope({ start: { process: { tag } } }),
    envelope({ data: { input: { stdin: Buffer.from('one ').toString('base64') } } }),
    envelope({ keepalive: {} }),
    envelope({ data: { input: { stdin: Buffer.from('two').toString('base64') } } }),
  ]))
  assert.equal(status, 200)
  assert.deepEqual(answer, [[0, {}], [2, {}]])
  assert.deepEqual(await unary('process.Process/CloseStdin', { process: { tag } }), [200, {}])
  const [, list] = await run
  assert.equal(list.filter(([, m]) => m.event?.data).map(([, m]) => Buffer.from(m.event.data.stdout, 'base64')).join(''), 'one two')
  const [, none] = await stream('process.Process/StreamInput', envelope({ start: { process: { tag: 'no-tag' } } }))
  assert.equal(none.at(-1)[1].error.code, 'not_found')
  const [bad, refusal] = await unary('process.Process/SendSignal', { process: { pid: 1 }, signal: 'SIGNAL_NOPE' })
  assert.deepEqual([bad, refusal.code], [400, 'invalid_argument'])
})

method('envd', 'watchers that are asked', async () => {
  await sandbox.files.makeDir('polled/deep')
  const [made, { watcherId }] = await unary('filesystem.Filesystem/CreateWatcher', { path: 'polled', recursive: true, includeEntry: true })
  assert.equal(made, 200)
  await sandbox.files.write('polled/deep/f', '1')
  const events = []
  await until('the event', async () => {
    const [status, body] = await unary('filesystem.Filesystem/GetWatcherEvents', { watcherId })
    assert.equal(status, 200)
    events.push(...body.events)
    return events.some((e) => e.name === 'deep/f' && e.type === 'EVENT_TYPE_CREATE' && e.entry?.path === '/home/user/polled/deep/f')
  })
  assert.deepEqual(await unary('filesystem.Filesystem/RemoveWatcher', { watcherId }), [200, {}])
  assert.equal((await unary('filesystem.Filesystem/GetWatcherEvents', { watcherId }))[0], 404)
  assert.equal((await unary('filesystem.Filesystem/CreateWatcher', { path: 'nope' }))[0], 404)
})

method('envd', 'health, metrics, environment; internal calls of the platform do not exist', async () => {
  assert.equal((await fetch(`${api}/health`, { headers: headers() })).status, 204)
  const metrics = await (await fetch(`${api}/metrics`, { headers: headers() })).json()
  assert.ok(metrics.mem_used > 0 && metrics.cpu_count >= 1)
  const busy = await sandbox.commands.run('while :; do :; done', { background: true })
  await until('the load', async () => {
    const { cpu_used_pct: used } = await (await fetch(`${api}/metrics`, { headers: headers() })).json()
    assert.ok(used >= 0 && used <= 100 * metrics.cpu_count)
    return used > 0
  })
  await busy.kill()
  const envs = await (await fetch(`${api}/envs`, { headers: headers() })).json()
  assert.ok(envs.PATH)
  assert.equal((await fetch(`${api}/init`, { method: 'POST', headers: headers() })).status, 404)
  const gone = await fetch(`${api}/health`, { headers: { ...headers(), 'E2b-Sandbox-Id': 'nothere' } })
  assert.equal(gone.status, 502)
  assert.equal((await gone.json()).code, 502)
  const page = await fetch(`${api}/files`, { method: 'OPTIONS', headers: headers({ Origin: 'http://example.com' }) })
  assert.equal(page.headers.get('access-control-allow-origin'), '*')
})

method('envd', 'by host as well as by headers', async () => {
  const { request } = await import('node:http')
  const url = new URL(api)
  const status = await new Promise((resolve, reject) => {
    const req = request({
      host: url.hostname, port: url.port, path: '/files?path=/etc/passwd',
      headers: { Host: `49983-${sandbox.sandboxId}.sandboxes.example.com`, 'X-Access-Token': sandbox.envdAccessToken },
    }, (answer) => { answer.resume(); answer.on('end', () => resolve(answer.statusCode)) })
    req.on('error', reject)
    req.end()
  })
  assert.equal(status, 200)
})

method('envd', 'forms: several files, a compressed one, malformed ones', async () => {
  const boundary = 'x'.repeat(70)
  const part = (name, filename, text) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${filename}"\r\n\r\n${text}\r\n`
  const form = `${part('file', 'm/a \\"q\\".txt', 'A\r\n--x')}${part('other', 'no', 'ignored')}${part('file', '/tmp/m-b', '')}--${boundary}--\r\n`
  const type = { 'Content-Type': `multipart/form-data; boundary="${boundary}"` }
  const post = (body, more, query = '') => fetch(`${api}/files${query}`, { method: 'POST', body, headers: headers(more) })
  const plain = await (await post(form, type)).json()
  assert.deepEqual(plain.map((f) => f.path), ['/home/user/m/a "q".txt', '/tmp/m-b'])
  assert.equal(await sandbox.files.read('m/a "q".txt'), 'A\r\n--x')
  const zipped = await (await post(gzipSync(form), { ...type, 'Content-Encoding': 'gzip' })).json()
  assert.equal(zipped.length, 2)
  for (const [body, more] of [
    ['nonsense', type], [form.slice(0, -80), type], [form, { 'Content-Type': 'multipart/form-data' }],
    [form, { 'Content-Type': 'text/plain' }], ['no gzip', { ...type, 'Content-Encoding': 'gzip' }],
    [gzipSync(form).subarray(0, 40), { ...type, 'Content-Encoding': 'gzip' }], [form, { ...type, 'Content-Encoding': 'br' }],
  ]) assert.equal((await post(body, more)).status, 400)
  assert.equal((await post('x', { 'Content-Type': 'application/octet-stream' })).status, 400)
  const odd = await post('x', { 'Content-Type': 'application/octet-stream', 'X-Metadata-Big': 'v'.repeat(5000) }, '?path=big')
  assert.equal(odd.status, 400)
})
