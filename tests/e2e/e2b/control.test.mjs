// SPDX-License-Identifier: Apache-2.0
// The control plane: sandboxes made, found, paused, forked, ended, and what the server does not have.
import { after } from 'node:test'
import {
  AuthenticationError, InvalidArgumentError, NotEnoughSpaceError, Sandbox, SandboxError,
  SandboxNotFoundError, Secret, Template, TimeoutError, Volume,
} from 'e2b'
import { api, assert, key, makeCold, method, rejects, rest, until, visit } from './harness.mjs'

const left = []
const create = async (...args) => {
  const sandbox = await Sandbox.create(...args)
  left.push(sandbox)
  return sandbox
}
after(async () => { await Promise.all(left.map((s) => s.kill().catch(() => {}))) })

async function all(paginator) {
  const items = []
  while (paginator.hasNext) items.push(...await paginator.nextItems())
  return items
}

const mark = `m${Date.now()}-${process.pid}`

method('Sandbox.create', 'metadata, environment, timeout', async () => {
  const sandbox = await create('base', { metadata: { mark, who: 'a & b' }, envs: { GREETING: 'hi' }, timeoutMs: 120000 })
  assert.match(sandbox.sandboxId, /^[a-z0-9]+$/)
  assert.equal((await sandbox.commands.run('echo $GREETING')).stdout, 'hi\n')
  const info = await sandbox.getInfo()
  assert.deepEqual(info.metadata, { mark, who: 'a & b' })
  assert.ok(info.endAt - info.startedAt > 110000 && info.endAt - info.startedAt < 130000)
})

method('Sandbox.create', 'a template that does not exist', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), /404: template 'no-such-template' not found/)
})

method('Sandbox.create', 'a wrong key', async () => {
  await rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
})

method(['sandbox.getInfo', 'Sandbox.getInfo', 'Sandbox.getFullInfo'], 'by handle and by id', async () => {
  const sandbox = await create({ timeoutMs: 120000 })
  const info = await Sandbox.getInfo(sandbox.sandboxId)
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.equal(info.templateId, 'base')
  assert.equal(info.state, 'running')
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 1)
  assert.deepEqual(info.lifecycle, { onTimeout: 'kill', autoResume: false })
  assert.equal((await Sandbox.getFullInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId)
  assert.equal((await sandbox.getInfo()).envdVersion, info.envdVersion)
  await rejects(Sandbox.getInfo('nothere'), SandboxNotFoundError)
})

method(['Sandbox.list', 'paginator.nextItems'], 'by metadata, state, template; in pages and in order', async () => {
  const tag = `${mark}-list`
  const made = []
  for (let i = 0; i < 3; i++) made.push((await create({ metadata: { tag, 'odd.key:1': 'é/&=+ %' } })).sandboxId)
  const query = { metadata: { tag, 'odd.key:1': 'é/&=+ %' } }
  assert.deepEqual((await all(Sandbox.list({ query, limit: 2 }))).map((s) => s.sandboxId), [...made].reverse())
  assert.deepEqual((await all(Sandbox.list({ query, limit: 1, order: 'asc' }))).map((s) => s.sandboxId), made)
  await Sandbox.pause(made[0])
  assert.deepEqual((await all(Sandbox.list({ query: { ...query, state: ['paused'] } }))).map((s) => [s.sandboxId, s.state]),
    [[made[0], 'paused']])
  assert.equal((await all(Sandbox.list({ query: { ...query, state: ['running'] } }))).length, 2)
  assert.equal((await all(Sandbox.list({ query: { ...query, template: 'base' } }))).length, 3)
  assert.equal((await all(Sandbox.list({ query: { ...query, startedAfter: new Date(Date.now() + 60000) } }))).length, 0)
  assert.equal((await all(Sandbox.list({ query: { metadata: { tag: 'another' } } }))).length, 0)
})

method(['Sandbox.connect', 'sandbox.connect'], 'again by id; the timeout is only ever extended', async () => {
  const sandbox = await create({ timeoutMs: 300000 })
  await sandbox.files.write('kept', 'yes')
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 1000 })
  assert.equal(await again.files.read('kept'), 'yes')
  const soon = await again.getInfo()
  assert.ok(soon.endAt - Date.now() > 200000)
  await sandbox.connect({ timeoutMs: 3600000 })
  assert.ok((await sandbox.getInfo()).endAt - Date.now() > 3000000)
  await rejects(Sandbox.connect('nothere'), SandboxNotFoundError)
})

method(['sandbox.setTimeout', 'Sandbox.setTimeout'], 'shorter and longer; then it ends', async () => {
  const sandbox = await create({ timeoutMs: 600000 })
  await sandbox.setTimeout(60000)
  const info = await sandbox.getInfo()
  assert.ok(info.endAt - Date.now() < 61000)
  await Sandbox.setTimeout(sandbox.sandboxId, 1000)
  await until('it ended by itself', async () => !(await sandbox.isRunning()))
  await rejects(sandbox.commands.run('true'), SandboxNotFoundError).catch(() =>
    rejects(sandbox.commands.run('true'), TimeoutError))
  await rejects(Sandbox.setTimeout('nothere', 1000), SandboxNotFoundError)
})

method(['sandbox.kill', 'Sandbox.kill', 'sandbox.isRunning'], 'true once, then false', async () => {
  const sandbox = await create()
  assert.equal(await sandbox.isRunning(), true)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
  assert.equal(await Sandbox.kill('nothere'), false)
})

method('sandbox.kill', 'a running command receives the error that its sandbox was killed', async () => {
  const sandbox = await create()
  const handle = await sandbox.commands.run('sleep 600', { background: true })
  const end = handle.wait()
  const outcome = assert.rejects(end, (e) => {
    assert.ok(e instanceof TimeoutError, `${e.constructor.name}: ${e.message}`)
    assert.match(e.message, /killed or reached its end of life/)
    return true
  })
  await sandbox.kill()
  await outcome
})

method(['sandbox.pause', 'Sandbox.pause', 'sandbox.betaPause', 'Sandbox.betaPause'], 'processes and memory stay', async () => {
  const sandbox = await create({ timeoutMs: 300000 })
  const handle = await sandbox.commands.run('sleep 600', { background: true })
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.pause(), false)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  assert.equal(await sandbox.isRunning(), false)
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.ok((await again.commands.list()).some((p) => p.pid === handle.pid))
  assert.equal(await again.betaPause(), true)
  assert.equal(await Sandbox.betaPause(sandbox.sandboxId), false)
  await rejects(Sandbox.pause('nothere'), SandboxNotFoundError)
})

method('sandbox.pause', 'without memory: files stay, processes do not', async () => {
  const sandbox = await create({ timeoutMs: 300000 })
  await sandbox.files.write('stays', '1')
  await sandbox.commands.run('sleep 600', { background: true })
  assert.equal(await sandbox.pause({ keepMemory: false }), true)
  await sandbox.connect({ onResume: 'reboot' })
  assert.equal(await sandbox.files.read('stays'), '1')
  assert.deepEqual(await sandbox.commands.list(), [])
})

method('Sandbox.create', 'paused at its timeout, woken by the next call', async () => {
  const sandbox = await create({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await sandbox.files.write('w', 'awake')
  await until('it is paused', async () => (await sandbox.getInfo()).state === 'paused')
  assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  assert.equal(await sandbox.files.read('w'), 'awake')
})

method(['sandbox.createSnapshot', 'Sandbox.createSnapshot', 'sandbox.listSnapshots', 'Sandbox.listSnapshots',
  'Sandbox.deleteSnapshot', 'snapshotPaginator.nextItems'], 'named, listed, started from, deleted', async () => {
  const sandbox = await create({ timeoutMs: 300000 })
  await sandbox.files.write('snapped', 'then')
  const named = await sandbox.createSnapshot({ name: `snap-${mark}` })
  assert.deepEqual(named.names, [`snap-${mark}`])
  await sandbox.files.write('snapped', 'now')
  const plain = await Sandbox.createSnapshot(sandbox.sandboxId)
  const ids = (await all(sandbox.listSnapshots({ limit: 1 }))).map((s) => s.snapshotId)
  assert.deepEqual(ids, [plain.snapshotId, named.snapshotId])
  assert.deepEqual((await all(Sandbox.listSnapshots({ name: `snap-${mark}` }))).map((s) => s.snapshotId), [named.snapshotId])
  for (const id of [named.snapshotId, `snap-${mark}`]) {
    const child = await create(id)
    assert.equal(await child.files.read('snapped'), 'then')
    await child.kill()
  }
  assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(plain.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), false)
  await rejects(Sandbox.createSnapshot('nothere'), SandboxNotFoundError)
})

method(['sandbox.fork', 'Sandbox.fork'], 'several children with the same files', async () => {
  const sandbox = await create({ timeoutMs: 300000 })
  await sandbox.files.write('shared', 'before')
  const children = await sandbox.fork({ count: 2, timeoutMs: 60000 })
  assert.equal(children.length, 2)
  for (const child of children) {
    assert.ok(child instanceof Sandbox, String(child))
    left.push(child)
    assert.equal(await child.files.read('shared'), 'before')
    await child.files.write('shared', child.sandboxId)
  }
  assert.equal(await sandbox.files.read('shared'), 'before')
  const [one] = await Sandbox.fork(sandbox.sandboxId)
  left.push(one)
  assert.equal((await one.commands.run('cat shared')).stdout, 'before')
  await rejects(Sandbox.fork('nothere'), SandboxNotFoundError)
})

method(['sandbox.getMetrics', 'Sandbox.getMetrics'], 'memory, disk, processor', async () => {
  const sandbox = await create()
  const [first] = await until('a first sample', async () => {
    const metrics = await sandbox.getMetrics()
    return metrics.length ? metrics : null
  })
  assert.equal(first.cpuCount, 1)
  assert.ok(first.memUsed > 0 && first.memTotal >= first.memUsed)
  assert.ok(first.diskTotal > first.diskUsed)
  assert.deepEqual(await Sandbox.getMetrics(sandbox.sandboxId, { start: new Date(Date.now() + 3600000) }), [])
  await rejects(Sandbox.getMetrics('nothere'), SandboxNotFoundError)
})

method('files.write', 'a full disk is reported', async () => {
  const sandbox = await makeCold({ disk_size_mb: 32 })
  left.push(sandbox)
  await rejects(sandbox.files.write('big', new Blob([new Uint8Array(64 * 1024 * 1024)])), NotEnoughSpaceError)
  await rejects(sandbox.files.write('big', new Uint8Array(64 * 1024 * 1024).buffer, { gzip: true }), NotEnoughSpaceError)
  await sandbox.files.write('small', 'fits')
  assert.equal(await sandbox.files.read('small'), 'fits')
})

// Says back the headers it got; without any of its own packages.
const echo = `import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({k.lower(): v for k, v in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('127.0.0.1', 3000), H).serve_forever()`

async function serve(sandbox) {
  await sandbox.files.write('echo.py', echo)
  await sandbox.commands.run('python3 echo.py', { background: true })
  return until('it listens', async () => {
    const answer = await visit(sandbox.getHost(3000))
    return answer.body.message?.includes('port is not open') ? null : answer
  })
}

method('sandbox.getHost', 'public, also for a fork; a closed port and an ended sandbox have different errors', async () => {
  const sandbox = await create()
  assert.ok(sandbox.getHost(3000).startsWith(`3000-${sandbox.sandboxId}.`))
  const first = await serve(sandbox)
  assert.equal(first.status, 200)
  assert.equal(first.body.host, sandbox.getHost(3000))
  assert.equal((await sandbox.getInfo()).network.allowPublicTraffic, true)
  assert.deepEqual(await visit(sandbox.getHost(3001)), {
    status: 502,
    body: { sandboxId: sandbox.sandboxId, message: 'The sandbox is running but port is not open', port: 3001, code: 502 },
  })
  const byHeader = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '3000' }
  assert.equal((await visit(new URL(api).host, byHeader)).status, 200)
  assert.equal((await visit(sandbox.getHost(22))).status, 403)
  const [child] = await sandbox.fork()
  left.push(child)
  assert.equal((await serve(child)).status, 200)
  const [again] = (await rest('GET', `/v1/sandboxes/${child.sandboxId}/previews`)).body.data
  assert.deepEqual([again.port, again.visibility], [0, 'public'])
  await sandbox.kill()
  assert.deepEqual(await visit(sandbox.getHost(3000)), {
    status: 502, body: { sandboxId: sandbox.sandboxId, message: 'The sandbox was not found', code: 502 },
  })
})

method('sandbox.getHost', 'without public traffic: only with its token, which the server does not receive', async () => {
  const sandbox = await create({ network: { allowPublicTraffic: false } })
  const refused = await serve(sandbox)
  assert.deepEqual([refused.status, refused.body.code, refused.body.sandboxId], [403, 403, sandbox.sandboxId])
  assert.equal((await sandbox.getInfo()).network.allowPublicTraffic, false)
  const token = { 'e2b-traffic-access-token': sandbox.trafficAccessToken }
  const [child] = await sandbox.fork()
  left.push(child)
  await serve(child)
  for (const [one, own] of [[sandbox, token], [child, { 'e2b-traffic-access-token': child.trafficAccessToken }]]) {
    const answer = await until('it answers', async () => {
      const got = await visit(one.getHost(3000), own)
      return got.status === 502 ? null : got
    })
    assert.equal(answer.status, 200)
    assert.ok(!JSON.stringify(answer.body).includes(own['e2b-traffic-access-token']))
    assert.equal((await visit(one.getHost(3000), { 'e2b-traffic-access-token': '0'.repeat(64) })).status, 403)
  }
  assert.equal((await visit(child.getHost(3000), token)).status, 403)
  await assert.rejects(Sandbox.create({ network: { allowPublicTraffic: 'no' } }), /400/)
})

method('Sandbox.create', 'maskRequestHost: servers see their own local name', async () => {
  const sandbox = await create({ network: { maskRequestHost: 'localhost:${PORT}' } })
  const [child] = await sandbox.fork()
  left.push(child)
  for (const one of [sandbox, child]) {
    const answer = await serve(one)
    assert.equal(answer.status, 200)
    assert.equal(answer.body.host, 'localhost:3000')
    assert.equal((await one.getInfo()).network.maskRequestHost, 'localhost:${PORT}')
  }
  await assert.rejects(Sandbox.create({ network: { maskRequestHost: 'example.com' } }), /501.*localhost:\$\{PORT\}/s)
})

method('Sandbox.create', 'mcp: runs the gateway of the template, if there is one', async () => {
  const servers = { browserbase: { apiKey: 'k' } }
  await assert.rejects(Sandbox.create({ mcp: servers }), /404.*mcp-gateway/s)
  const maker = await create()
  const script = '#!/bin/sh\nmkdir -p /etc/mcp-gateway\nprintf %s "$GATEWAY_ACCESS_TOKEN" >/etc/mcp-gateway/.token\nprintf %s "$2" >/etc/mcp-gateway/config\n'
  await maker.files.write('/usr/local/bin/mcp-gateway', script, { user: 'root' })
  await maker.commands.run('chmod 755 /usr/local/bin/mcp-gateway', { user: 'root' })
  const snapshot = await maker.createSnapshot({ name: `gateway${Date.now()}` })
  const sandbox = await Sandbox.create(snapshot.snapshotId, { mcp: servers })
  left.push(sandbox)
  assert.deepEqual(JSON.parse(await sandbox.files.read('/etc/mcp-gateway/config', { user: 'root' })), servers)
  assert.equal(await sandbox.files.read('/etc/mcp-gateway/.token', { user: 'root' }), await sandbox.getMcpToken())
})

method(['sandbox.getMcpUrl', 'sandbox.getMcpToken'], 'formed by the client; the token is a file of the template', async () => {
  const sandbox = await create()
  assert.ok(sandbox.getMcpUrl().endsWith('/mcp'))
  await sandbox.files.write('/etc/mcp-gateway/.token', 'tok', { user: 'root' })
  assert.equal(await sandbox.getMcpToken(), 'tok')
})

method('envd', 'without its token nothing inside can be reached', async () => {
  const sandbox = await create()
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }
  for (const more of [{}, { 'X-Access-Token': '0'.repeat(64) }]) {
    const answer = await fetch(`${api}/files?path=/etc/hostname`, { headers: { ...headers, ...more } })
    assert.equal(answer.status, 401)
  }
  const rpc = await fetch(`${api}/process.Process/List`, {
    method: 'POST', body: '{}', headers: { ...headers, 'Content-Type': 'application/json' },
  })
  assert.equal(rpc.status, 401)
  const half = await fetch(`${api}/health`, { headers: { 'E2b-Sandbox-Id': sandbox.sandboxId } })
  assert.equal(half.status, 400)
})

method('legacy paths', 'what older clients call', async () => {
  const call = async (verb, where, body) => {
    const answer = await fetch(api + where, {
      method: verb, headers: { 'X-API-KEY': key, 'Content-Type': 'application/json' },
      body: body && JSON.stringify(body),
    })
    const text = await answer.text()
    return [answer.status, text && JSON.parse(text)]
  }
  const [made, session] = await call('POST', '/sandboxes', { templateID: 'base', timeout: 60 })
  assert.equal(made, 201)
  left.push({ kill: () => Sandbox.kill(session.sandboxID) })
  assert.ok((await call('GET', '/sandboxes'))[1].some((s) => s.sandboxID === session.sandboxID))
  assert.equal((await call('POST', `/sandboxes/${session.sandboxID}/refreshes`, { duration: 100 }))[0], 204)
  assert.equal((await call('POST', `/sandboxes/${session.sandboxID}/connect`, { timeout: 60 }))[0], 200)
  assert.equal((await call('POST', `/sandboxes/${session.sandboxID}/resume`, {}))[0], 409)
  assert.equal((await call('POST', `/sandboxes/${session.sandboxID}/pause`, {}))[0], 204)
  assert.equal((await call('POST', `/sandboxes/${session.sandboxID}/resume`, { timeout: 60 }))[0], 201)
  const [logged, logs] = await until('its logs', async () => {
    const got = await call('GET', `/v2/sandboxes/${session.sandboxID}/logs`)
    return got[1].logs.length ? got : null
  })
  assert.equal(logged, 200)
  assert.ok(logs.logs[0].message)
  assert.ok(Array.isArray((await call('GET', `/sandboxes/${session.sandboxID}/logs`))[1].logs))
  assert.ok((await call('GET', `/sandboxes/metrics?sandbox_ids=${session.sandboxID}`))[1].sandboxes)
  assert.ok((await call('GET', '/v2/templates'))[1].some((t) => t.templateID === 'base'))
  assert.equal((await call('GET', '/templates/base'))[1].templateID, 'base')
  assert.equal((await call('DELETE', '/templates/base'))[0], 403)
  assert.equal((await call('GET', '/sandboxes/nothere'))[1].code, 404)
  assert.equal((await call('PATCH', '/sandboxes'))[0], 405)
})

// ---- templates

method(['Template.exists', 'Template.aliasExists'], 'by name, with tag or without', async () => {
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.exists('base:default'), true)
  assert.equal(await Template.aliasExists('base'), true)
  assert.equal(await Template.exists('no-such-template'), false)
})

method('Template.getTags', 'one tag: the current version', async () => {
  const [tag] = await Template.getTags('base')
  assert.equal(tag.tag, 'default')
  assert.match(tag.buildId, /^[0-9a-f-]{36}$/)
})

const refused = 'refused (501)'
method(['Template.assignTags', 'Template.removeTags'], 'refused', async () => {
  await assert.rejects(Template.assignTags('base:default', 'v1'), /501/)
  await assert.rejects(Template.removeTags('base', 'v1'), /501/)
}, refused)

method(['Template.build', 'Template.buildInBackground', 'Template.getBuildStatus', 'Template.toJSON', 'Template.toDockerfile'],
  'templates are built from recipes on the host, not by clients', async () => {
    const template = Template().fromTemplate('base').runCmd('true')
    assert.ok(await Template.toJSON(template))
    await assert.rejects(Template.build(template, `built-${mark}`), /501/)
    await assert.rejects(Template.buildInBackground(template, `built-${mark}`), /501/)
    await assert.rejects(Template.getBuildStatus({ templateId: 'base', buildId: 'x' }), /501/)
  }, refused)

method(['sandbox.updateNetwork', 'Sandbox.updateNetwork'], 'what it may reach, replaced as a whole', async () => {
  const sandbox = await create({ allowInternetAccess: false })
  assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
  await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'], allowOut: ['example.com', '*.example.org', '192.0.2.0/24'] })
  const some = await sandbox.getInfo()
  assert.deepEqual(some.network.allowOut, ['example.com', '*.example.org', '192.0.2.0/24'])
  assert.deepEqual(some.network.denyOut, ['0.0.0.0/0'])
  await Sandbox.updateNetwork(sandbox.sandboxId, { denyOut: ['198.51.100.0/24'] })
  const open = await sandbox.getInfo()
  assert.equal(open.allowInternetAccess, true)
  assert.deepEqual(open.network.denyOut, ['198.51.100.0/24'])
  await sandbox.updateNetwork({ allowInternetAccess: false })
  assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
  assert.equal((await sandbox.commands.run('echo still here')).stdout, 'still here\n')
  await assert.rejects(sandbox.updateNetwork({ denyOut: ['not a network'] }), /400/)
  await rejects(Sandbox.updateNetwork('nothere', {}), SandboxNotFoundError)
})

method('Sandbox.create', 'the network: open, closed, or what is asked for; rules for headers are refused', async () => {
  const open = await create()
  assert.equal((await open.getInfo()).allowInternetAccess, true)
  const some = await create({ network: { denyOut: ['0.0.0.0/0'], allowOut: ['example.com'] } })
  assert.deepEqual((await some.getInfo()).network.allowOut, ['example.com'])
  const none = await create({ allowInternetAccess: false })
  const result = await none.commands.run('ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1')
  assert.equal(result.stdout.trim(), 'lo')
  await assert.rejects(Sandbox.create({ network: { rules: { 'example.com': [{ transform: { headers: { A: 'b' } } }] } } }), /501/)
})

// ---- what the product has under other names, or not at all

method(['Secret.create', 'Secret.list', 'Secret.getInfo', 'Secret.update', 'Secret.destroy', 'Secret.exists',
  'secretPaginator.nextItems'], 'created, found by name and id, given a new value, deleted; the value is never returned', async () => {
  const name = `S_${process.pid}_${Date.now()}`
  const made = await Secret.create(name, 'a value that is secret')
  assert.equal(made.name, name)
  const seen = await Secret.getInfo(name)
  assert.deepEqual({ ...seen }, { ...made })
  assert.ok(!JSON.stringify(seen).includes('a value that is secret'))
  const changed = await Secret.update(made.secretId, 'another value, also secret')
  assert.equal(changed.version, made.version + 1)
  assert.ok((await all(Secret.list({ limit: 1 }))).some((s) => s.secretId === made.secretId))
  assert.equal(await Secret.exists(name), true)
  await assert.rejects(Secret.create(`${name}_M`, 'with metadata', { metadata: { a: 'b' } }), /501/)
  assert.equal(await Secret.destroy(name), true)
  assert.equal(await Secret.destroy(name), false)
  assert.equal(await Secret.exists(name), false)
})

method(['Secret.fill', 'Secret.iamToken'], 'placeholders that the client forms; header rules, which use them, are refused', async () => {
  assert.match(Secret.fill('NAME'), /NAME/)
  await assert.rejects(Sandbox.create({ network: { rules: { 'example.com': [{ transform: { headers: { A: Secret.fill('NAME') } } }] } } }), /501/)
}, refused)

method(['Volume.create', 'Volume.list', 'Volume.getInfo', 'Volume.connect', 'Volume.destroy'], 'refused', async () => {
  await assert.rejects(Volume.create('name'), /501/)
  await assert.rejects(Volume.list(), /501/)
  await assert.rejects(Volume.getInfo('id'), /501/)
}, refused)
