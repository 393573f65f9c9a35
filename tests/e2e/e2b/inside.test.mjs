// SPDX-License-Identifier: Apache-2.0
// Everything inside one sandbox; run once for each way in which a sandbox can come about.
import { after, before } from 'node:test'
import { createHash, randomBytes } from 'node:crypto'
import {
  AuthenticationError, CommandExitError, FileNotFoundError, InvalidArgumentError, NotFoundError,
  TimeoutError,
} from 'e2b'
import { assert, kinds, method, rejects, until } from './harness.mjs'

const kind = process.env.CAY_E2B_KIND || 'pooled'
let sandbox

before(async () => { sandbox = await kinds[kind]() })
after(async () => { await sandbox?.kill() })

// ---- commands

method('commands.run', 'stdout, stderr, exit code, user, home, environment', async () => {
  const out = []
  const result = await sandbox.commands.run('echo out; echo err >&2; whoami; pwd; echo $E2B_SANDBOX_ID $X', {
    envs: { X: 'set' }, onStdout: (s) => out.push(s),
  })
  assert.equal(result.exitCode, 0)
  assert.equal(result.error, undefined)
  assert.equal(result.stderr, 'err\n')
  assert.equal(result.stdout, `out\nuser\n/home/user\n${sandbox.sandboxId} set\n`)
  assert.equal(out.join(''), result.stdout)
})

method('commands.run', 'a failure carries its exit code and output', async () => {
  await assert.rejects(sandbox.commands.run('echo no; exit 3'), (e) => {
    assert.ok(e instanceof CommandExitError)
    assert.equal(e.exitCode, 3)
    assert.equal(e.stdout, 'no\n')
    assert.equal(e.message, 'exit status 3')
    return true
  })
})

method('commands.run', 'as another user, in another directory', async () => {
  const result = await sandbox.commands.run('id -un; pwd', { user: 'root', cwd: '/var/tmp' })
  assert.equal(result.stdout, 'root\n/var/tmp\n')
  assert.equal((await sandbox.commands.run('pwd', { user: 'root' })).stdout, '/root\n')
})

method('commands.run', 'an invalid user and a missing directory are refused', async () => {
  await rejects(sandbox.commands.run('id', { user: 'nobody-here' }), AuthenticationError, /invalid username: 'nobody-here'/)
  await rejects(sandbox.commands.run('id', { cwd: '/nope' }), InvalidArgumentError, /cwd '\/nope' does not exist/)
})

method('commands.run', 'a timeout ends the command', async () => {
  await rejects(sandbox.commands.run('sleep 77.25', { timeoutMs: 500 }), TimeoutError, /timeoutMs/)
  await until('the process is dead', async () => {
    const left = await sandbox.commands.run('pgrep -f "^sleep 77[.]25" || true')
    return left.stdout === ''
  })
})

method('commands.run', 'bytes that are not text, and a megabyte of output', async () => {
  const result = await sandbox.commands.run('head -c 1000000 /dev/zero | tr "\\0" x')
  assert.equal(result.stdout.length, 1000000)
  assert.equal((await sandbox.commands.run("printf 'a\\xffb'")).stdout, 'a\ufffdb')
  assert.equal((await sandbox.commands.run('printf "%s" "żółć €"')).stdout, 'żółć €')
})

method('commands.run', 'many at once', async () => {
  const results = await Promise.all(Array.from({ length: 12 }, (_, i) => sandbox.commands.run(`echo ${i}`)))
  assert.deepEqual(results.map((r) => r.stdout.trim()), Array.from({ length: 12 }, (_, i) => String(i)))
})

method(['commands.run', 'commandHandle.wait', 'commandHandle.kill'], 'in the background; killed', async () => {
  const handle = await sandbox.commands.run('sleep 600', { background: true })
  assert.ok(handle.pid > 0)
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait(), (e) => {
    assert.ok(e instanceof CommandExitError)
    assert.equal(e.message, 'signal: killed')
    return true
  })
  assert.equal(await handle.kill(), false)
})

method('commands.list', 'what runs, with its command line', async () => {
  const handle = await sandbox.commands.run('sleep 601', { background: true })
  const found = (await sandbox.commands.list()).find((p) => p.pid === handle.pid)
  assert.equal(found.cmd, '/bin/bash')
  assert.deepEqual(found.args, ['-l', '-c', 'sleep 601'])
  await handle.kill()
  await until('it is not listed any more', async () =>
    !(await sandbox.commands.list()).some((p) => p.pid === handle.pid))
})

method(['commands.sendStdin', 'commands.closeStdin'], 'input until its end', async () => {
  const handle = await sandbox.commands.run('cat; echo done', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'one\n')
  await sandbox.commands.sendStdin(handle.pid, 'two\n')
  await sandbox.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'one\ntwo\ndone\n')
})

method(['commandHandle.sendStdin', 'commandHandle.closeStdin'], 'input through the handle', async () => {
  const handle = await sandbox.commands.run('wc -c', { background: true, stdin: true })
  await handle.sendStdin('12345')
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout.trim(), '5')
})

method(['commands.connect', 'commandHandle.disconnect'], 'leave a command and come back', async () => {
  const first = await sandbox.commands.run('while read line; do echo "got $line"; done', { background: true, stdin: true })
  await first.disconnect()
  const second = await sandbox.commands.connect(first.pid)
  assert.equal(second.pid, first.pid)
  await sandbox.commands.sendStdin(first.pid, 'hello\n')
  await sandbox.commands.closeStdin(first.pid)
  assert.equal((await second.wait()).stdout, 'got hello\n')
})

method('commands.connect', 'to a process that does not exist', async () => {
  await rejects(sandbox.commands.connect(999999), NotFoundError, /process with pid 999999 not found/)
})

method('commands.kill', 'true once, then false', async () => {
  const handle = await sandbox.commands.run('sleep 602', { background: true })
  assert.equal(await sandbox.commands.kill(handle.pid), true)
  await handle.wait().catch(() => {})
  assert.equal(await sandbox.commands.kill(handle.pid), false)
  assert.equal(await sandbox.commands.kill(999999), false)
})

// ---- pty

function screen() {
  const decoder = new TextDecoder()
  const s = { text: '', onData: (bytes) => { s.text += decoder.decode(bytes, { stream: true }) } }
  return s
}
const bytes = (text) => new TextEncoder().encode(text)

method(['pty.create', 'pty.sendInput', 'pty.resize'], 'a shell in a terminal that changes its size', async () => {
  const s = screen()
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: s.onData, envs: { PS1: '> ' }, cwd: '/tmp' })
  await sandbox.pty.sendInput(pty.pid, bytes('stty size; pwd; echo $TERM\n'))
  await until('the first size', () => /24 80[\s\S]*\/tmp[\s\S]*xterm-256color/.test(s.text))
  await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await sandbox.pty.sendInput(pty.pid, bytes('stty size; exit 0\n'))
  assert.equal((await pty.wait()).exitCode, 0)
  assert.match(s.text, /30 100/)
})

method(['pty.connect', 'pty.kill'], 'a second connection to a terminal; its end', async () => {
  const s = screen()
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await pty.disconnect()
  const again = await sandbox.pty.connect(pty.pid, { onData: s.onData })
  await sandbox.pty.sendInput(pty.pid, bytes('echo $((40+2))\n'))
  await until('the answer', () => s.text.includes('42'))
  assert.equal(await sandbox.pty.kill(pty.pid), true)
  await again.wait().catch(() => {})
  assert.equal(await sandbox.pty.kill(pty.pid), false)
})

// ---- files

method(['files.write', 'files.read'], 'text, relative to the home directory; parents are created', async () => {
  const info = await sandbox.files.write('deep/er/a.txt', 'hello')
  assert.deepEqual({ path: info.path, name: info.name, type: info.type },
    { path: '/home/user/deep/er/a.txt', name: 'a.txt', type: 'file' })
  assert.equal(await sandbox.files.read('/home/user/deep/er/a.txt'), 'hello')
  assert.equal(await sandbox.files.read('~/deep/er/a.txt'), 'hello')
  const owner = await sandbox.commands.run('stat -c "%U:%G %a" deep deep/er/a.txt')
  assert.equal(owner.stdout, 'user:user 755\nuser:user 644\n')
})

method('files.read', 'as text, bytes, blob and stream; also when empty', async () => {
  const data = randomBytes(300000)
  await sandbox.files.write('f.bin', new Blob([data]))
  assert.ok(Buffer.from(await sandbox.files.read('f.bin', { format: 'bytes' })).equals(data))
  const blob = await sandbox.files.read('f.bin', { format: 'blob' })
  assert.ok(Buffer.from(await blob.arrayBuffer()).equals(data))
  const parts = []
  for await (const part of await sandbox.files.read('f.bin', { format: 'stream' })) parts.push(part)
  assert.ok(Buffer.concat(parts).equals(data))
  await sandbox.files.write('empty', '')
  assert.equal(await sandbox.files.read('empty'), '')
  assert.equal((await sandbox.files.read('empty', { format: 'bytes' })).length, 0)
})

method('files.read', 'a missing file, a directory, an unknown user', async () => {
  await rejects(sandbox.files.read('nope'), FileNotFoundError, /path '\/home\/user\/nope' does not exist/)
  await rejects(sandbox.files.read('/etc'), InvalidArgumentError, /path '\/etc' is a directory/)
  await rejects(sandbox.files.read('/etc/hostname', { user: 'nobody-here' }), AuthenticationError, /invalid username/)
})

method('files.write', 'as another user', async () => {
  await sandbox.files.write('/root/r.txt', 'r', { user: 'root' })
  assert.equal((await sandbox.files.getInfo('/root/r.txt')).owner, 'root')
  assert.equal((await sandbox.files.write('rel.txt', 'x', { user: 'root' })).path, '/root/rel.txt')
  await rejects(sandbox.files.write('x', 'x', { user: 'nobody-here' }), AuthenticationError, /invalid username: 'nobody-here'/)
})

method('files.write', 'compressed, streamed, and with bytes of every kind', async () => {
  const data = Buffer.from(Array.from({ length: 200000 }, (_, i) => (i * 7) & 255))
  await sandbox.files.write('zipped', data.buffer, { gzip: true })
  assert.ok(Buffer.from(await sandbox.files.read('zipped', { format: 'bytes', gzip: true })).equals(data))
  const stream = new ReadableStream({
    start(controller) {
      for (let i = 0; i < data.length; i += 50000) controller.enqueue(data.subarray(i, i + 50000))
      controller.close()
    },
  })
  await sandbox.files.write('streamed', stream)
  assert.ok(Buffer.from(await sandbox.files.read('streamed', { format: 'bytes' })).equals(data))
  await sandbox.files.write('octets', data.buffer, { useOctetStream: true })
  const sum = await sandbox.commands.run('sha256sum zipped streamed octets | cut -c1-64 | sort -u')
  assert.equal(sum.stdout.trim(), createHash('sha256').update(data).digest('hex'))
})

method('files.write', 'a large file arrives whole', async () => {
  const data = randomBytes(24 * 1024 * 1024)
  await sandbox.files.write('large', new Blob([data]))
  const sum = await sandbox.commands.run('sha256sum large')
  assert.equal(sum.stdout.slice(0, 64), createHash('sha256').update(data).digest('hex'))
  const back = createHash('sha256').update(await sandbox.files.read('large', { format: 'bytes' })).digest('hex')
  assert.equal(back, sum.stdout.slice(0, 64))
  await sandbox.files.remove('large')
})

method('files.write', 'metadata stays with the file until it is written again', async () => {
  const info = await sandbox.files.write('marked', 'm', { metadata: { Author: 'me', note: 'a=b c' } })
  assert.deepEqual(info.metadata, { author: 'me', note: 'a=b c' })
  assert.deepEqual((await sandbox.files.getInfo('marked')).metadata, { author: 'me', note: 'a=b c' })
  const xattr = await sandbox.commands.run('python3 -c "import os; print(os.getxattr(\'marked\', \'user.e2b.author\').decode())"')
  assert.equal(xattr.stdout, 'me\n')
  await sandbox.files.write('marked', 'again')
  assert.equal((await sandbox.files.getInfo('marked')).metadata, undefined)
})

method('files.writeFiles', 'several at once', async () => {
  const infos = await sandbox.files.writeFiles([
    { path: 'many/1.txt', data: 'one' }, { path: '/tmp/many-2.txt', data: 'two' }, { path: 'many/3.txt', data: '' },
  ])
  assert.deepEqual(infos.map((i) => i.path), ['/home/user/many/1.txt', '/tmp/many-2.txt', '/home/user/many/3.txt'])
  assert.equal(await sandbox.files.read('/tmp/many-2.txt'), 'two')
  assert.deepEqual(await sandbox.files.writeFiles([]), [])
})

method('files.list', 'one level and several; links show their targets', async () => {
  await sandbox.commands.run('mkdir -p tree/a/b && echo x > tree/a/b/c && ln -s a tree/link && ln -s /nope tree/dead')
  const one = await sandbox.files.list('tree')
  assert.deepEqual(one.map((e) => [e.name, e.type]).sort(), [['a', 'dir'], ['link', 'dir']])
  const link = one.find((e) => e.name === 'link')
  assert.equal(link.symlinkTarget, '/home/user/tree/a')
  assert.equal(link.permissions, 'Lrwxrwxrwx')
  const deep = await sandbox.files.list('tree', { depth: 3 })
  assert.deepEqual(deep.map((e) => e.path).sort(),
    ['/home/user/tree/a', '/home/user/tree/a/b', '/home/user/tree/a/b/c', '/home/user/tree/link'])
  await rejects(sandbox.files.list('tree/nope'), FileNotFoundError)
  await rejects(sandbox.files.list('tree/a/b/c'), InvalidArgumentError, /not a directory/)
  await rejects(sandbox.files.list('tree', { depth: 0 }), InvalidArgumentError)
})

method('files.makeDir', 'true if created, false if it existed', async () => {
  assert.equal(await sandbox.files.makeDir('new/dir'), true)
  assert.equal(await sandbox.files.makeDir('new/dir'), false)
  assert.equal((await sandbox.files.getInfo('new/dir')).owner, 'user')
  await sandbox.files.write('new/file', '')
  await rejects(sandbox.files.makeDir('new/file'), InvalidArgumentError)
})

method('files.rename', 'files and directories, into directories that are created', async () => {
  await sandbox.files.write('old/name.txt', 'n')
  const info = await sandbox.files.rename('old/name.txt', 'moved/to/name.txt')
  assert.equal(info.path, '/home/user/moved/to/name.txt')
  assert.equal(await sandbox.files.exists('old/name.txt'), false)
  assert.equal((await sandbox.files.rename('moved', 'elsewhere')).type, 'dir')
  assert.equal(await sandbox.files.read('elsewhere/to/name.txt'), 'n')
  assert.equal((await sandbox.files.getInfo('elsewhere/to')).owner, 'user')
  await rejects(sandbox.files.rename('nope', 'x'), FileNotFoundError)
})

method('files.remove', 'whole trees; a missing path is not an error', async () => {
  await sandbox.files.write('gone/a/b', '1')
  await sandbox.files.remove('gone')
  assert.equal(await sandbox.files.exists('gone'), false)
  await sandbox.files.remove('gone')
})

method('files.exists', 'files, directories, nothing', async () => {
  assert.equal(await sandbox.files.exists('/etc/passwd'), true)
  assert.equal(await sandbox.files.exists('/etc'), true)
  assert.equal(await sandbox.files.exists('/etc/nope'), false)
})

method('files.getInfo', 'all fields', async () => {
  await sandbox.files.write('info.txt', '12345')
  await sandbox.commands.run('chmod 640 info.txt && touch -d 2020-01-02T03:04:05Z info.txt')
  const info = await sandbox.files.getInfo('info.txt')
  assert.deepEqual({ ...info }, {
    name: 'info.txt', type: 'file', path: '/home/user/info.txt', size: 5, mode: 0o640,
    permissions: '-rw-r-----', owner: 'user', group: 'user', modifiedTime: new Date('2020-01-02T03:04:05Z'),
    symlinkTarget: undefined, metadata: undefined,
  })
  await rejects(sandbox.files.getInfo('nope'), FileNotFoundError)
})

method(['files.watchDir', 'watchHandle.stop'], 'created, written, renamed, removed, attributes', async () => {
  await sandbox.files.makeDir('watched')
  const seen = []
  const has = (type, name) => () => seen.some((e) => e.type === type && e.name === name)
  const handle = await sandbox.files.watchDir('watched', (e) => seen.push(e))
  await sandbox.files.write('watched/a', '1')
  await until('create', has('create', 'a'))
  await sandbox.files.write('watched/a', '2')
  await until('write', has('write', 'a'))
  await sandbox.commands.run('chmod 600 watched/a')
  await until('chmod', has('chmod', 'a'))
  await sandbox.files.rename('watched/a', 'watched/b')
  await until('rename', has('rename', 'a'))
  await until('its new name', has('create', 'b'))
  await sandbox.files.remove('watched/b')
  await until('remove', has('remove', 'b'))
  await handle.stop()
})

method('files.watchDir', 'recursive, with entries; new directories are watched too', async () => {
  await sandbox.files.makeDir('wr')
  const seen = []
  const handle = await sandbox.files.watchDir('wr', (e) => seen.push(e), { recursive: true, includeEntry: true, timeoutMs: 0 })
  await sandbox.files.makeDir('wr/sub')
  await until('the directory', () => seen.some((e) => e.name === 'sub' && e.type === 'create'))
  await sandbox.files.write('wr/sub/f', 'x')
  const event = await until('the file in it', () => seen.find((e) => e.name === 'sub/f' && e.type === 'create'))
  assert.equal(event.entry?.path, '/home/user/wr/sub/f')
  assert.equal(event.entry?.type, 'file')
  await handle.stop()
})

method('files.watchDir', 'a file written at once in a new directory has a write event', async () => {
  await sandbox.files.makeDir('wn')
  const seen = []
  const handle = await sandbox.files.watchDir('wn', (e) => seen.push(e), { recursive: true, timeoutMs: 0 })
  await sandbox.commands.run('for i in $(seq 20); do mkdir -p wn/$i/deep && echo x > wn/$i/f && echo y > wn/$i/deep/f; done')
  for (let i = 1; i <= 20; i++) {
    for (const name of [`${i}/f`, `${i}/deep/f`]) {
      for (const type of ['create', 'write']) {
        await until(`${type} of ${name}`, () => seen.some((e) => e.name === name && e.type === type))
      }
    }
  }
  await handle.stop()
})

method('files.getInfo', 'a directory has a size', async () => {
  await sandbox.files.makeDir('sized')
  assert.ok((await sandbox.files.getInfo('sized')).size >= 4096)
  assert.ok((await sandbox.files.list('.')).find((e) => e.name === 'sized').size >= 4096)
})

method('files.watchDir', 'of a missing path, or of a file', async () => {
  await rejects(sandbox.files.watchDir('nope', () => {}), FileNotFoundError)
  await rejects(sandbox.files.watchDir('/etc/passwd', () => {}), InvalidArgumentError)
})

// ---- links

method('sandbox.downloadUrl', 'a signed link needs no key', async () => {
  await sandbox.files.write('link me.txt', 'linked')
  const answer = await fetch(await sandbox.downloadUrl('link me.txt'))
  assert.equal(await answer.text(), 'linked')
  const tail = await fetch(await sandbox.downloadUrl('link me.txt'), { headers: { Range: 'bytes=2-3' } })
  assert.equal(tail.status, 206)
  assert.equal(await tail.text(), 'nk')
  const other = new URL(await sandbox.downloadUrl('link me.txt', { useSignatureExpiration: 600 }))
  assert.equal((await fetch(other)).status, 200)
  other.searchParams.set('path', '/etc/passwd')
  assert.equal((await fetch(other)).status, 401)
})

method('sandbox.downloadUrl', 'an expired signature is refused', async () => {
  const url = await sandbox.downloadUrl('/etc/hostname', { useSignatureExpiration: -10 })
  const answer = await fetch(url)
  assert.equal(answer.status, 401)
  assert.match((await answer.json()).message, /expired/)
})

method('sandbox.uploadUrl', 'a form through a signed link', async () => {
  const form = new FormData()
  form.append('file', new Blob(['up']), 'ignored')
  const answer = await fetch(await sandbox.uploadUrl('uploaded.txt'), { method: 'POST', body: form })
  assert.equal(answer.status, 200)
  assert.equal((await answer.json())[0].path, '/home/user/uploaded.txt')
  assert.equal(await sandbox.files.read('uploaded.txt'), 'up')
})

// ---- git: the SDK runs git itself, through commands

method(['git.init', 'git.configureUser', 'git.setConfig', 'git.getConfig', 'git.add', 'git.commit', 'git.status'],
  'a repository from nothing', async () => {
    const g = sandbox.git
    await g.init('repo', { initialBranch: 'main' })
    await g.configureUser('A Tester', 'tester@example.com')
    await g.setConfig('core.abbrev', '12', { scope: 'local', path: 'repo' })
    assert.equal(await g.getConfig('core.abbrev', { scope: 'local', path: 'repo' }), '12')
    await sandbox.files.write('repo/a.txt', 'a\n')
    const before = await g.status('repo')
    assert.equal(before.currentBranch, 'main')
    assert.equal(before.fileStatus.length, 1)
    await g.add('repo')
    await g.commit('repo', 'first')
    assert.equal((await g.status('repo')).fileStatus.length, 0)
  })

method(['git.branches', 'git.createBranch', 'git.checkoutBranch', 'git.deleteBranch', 'git.restore', 'git.reset'],
  'branches, and changes taken back', async () => {
    const g = sandbox.git
    await g.createBranch('repo', 'side')
    await g.checkoutBranch('repo', 'main')
    assert.deepEqual((await g.branches('repo')).branches.sort(), ['main', 'side'])
    await g.deleteBranch('repo', 'side')
    assert.deepEqual((await g.branches('repo')).branches, ['main'])
    await sandbox.files.write('repo/a.txt', 'changed\n')
    await g.restore('repo', { paths: ['a.txt'] })
    assert.equal(await sandbox.files.read('repo/a.txt'), 'a\n')
    await sandbox.files.write('repo/a.txt', 'changed\n')
    await g.reset('repo', { mode: 'hard', target: 'HEAD' })
    assert.equal(await sandbox.files.read('repo/a.txt'), 'a\n')
  })

method(['git.remoteAdd', 'git.remoteGet', 'git.push', 'git.pull', 'git.clone', 'git.dangerouslyAuthenticate'],
  'a remote, both ways', async () => {
    const g = sandbox.git
    await g.init('/home/user/bare.git', { bare: true, initialBranch: 'main' })
    await g.remoteAdd('repo', 'origin', '/home/user/bare.git')
    assert.equal(await g.remoteGet('repo', 'origin'), '/home/user/bare.git')
    await g.push('repo', { remote: 'origin', branch: 'main', setUpstream: true })
    await g.clone('/home/user/bare.git', { path: 'copy' })
    assert.equal(await sandbox.files.read('copy/a.txt'), 'a\n')
    await sandbox.files.write('repo/b.txt', 'b\n')
    await g.add('repo')
    await g.commit('repo', 'second')
    await g.push('repo')
    await g.pull('copy')
    assert.equal(await sandbox.files.read('copy/b.txt'), 'b\n')
    await g.dangerouslyAuthenticate({ username: 'u', password: 'p', host: 'git.example.com' })
    assert.match(await sandbox.files.read('.git-credentials'), /u:p@git\.example\.com/)
  })
