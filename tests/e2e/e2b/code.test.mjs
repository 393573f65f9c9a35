// SPDX-License-Identifier: Apache-2.0
// The code interpreter's package: contexts that keep their state, results with their types, errors.
import { after, before } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'
import { TimeoutError } from 'e2b'
import { assert, method, rejects } from './harness.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 600000 }) })
after(async () => { await sandbox?.kill() })

method('sandbox.runCode', 'state stays from call to call', async () => {
  await sandbox.runCode('x = 41')
  const run = await sandbox.runCode('print("out"); import sys; print("err", file=sys.stderr); x + 1')
  assert.equal(run.text, '42')
  assert.deepEqual([run.logs.stdout.join(''), run.logs.stderr.join('')], ['out\n', 'err\n'])
  assert.equal(run.error, undefined)
  assert.ok(run.executionCount >= 2)
  assert.equal((await sandbox.runCode('import os; os.getcwd()')).text, "'/home/user'")
  assert.equal((await sandbox.runCode('!whoami')).logs.stdout.join('').trim(), 'user')
})

method('sandbox.runCode', 'events while it runs', async () => {
  const seen = []
  await sandbox.runCode('import time\nprint(1)\ntime.sleep(0.1)\nprint(2)\n3', {
    onStdout: (m) => seen.push(m.line), onResult: (r) => seen.push(r.text), onError: () => seen.push('error'),
  })
  assert.deepEqual(seen.join('').replace(/\n/g, ''), '123')
})

method('sandbox.runCode', 'errors with their traceback', async () => {
  const told = []
  const run = await sandbox.runCode('def f():\n  return 1/0\nf()', { onError: (e) => told.push(e.name) })
  assert.equal(run.error.name, 'ZeroDivisionError')
  assert.equal(run.error.value, 'division by zero')
  assert.match(run.error.traceback, /ZeroDivisionError/)
  assert.deepEqual(told, ['ZeroDivisionError'])
})

method('sandbox.runCode', 'charts, tables, HTML, SVG, JSON, Markdown', async () => {
  const chart = await sandbox.runCode('import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()')
  assert.ok(Buffer.from(chart.results[0].png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')))
  const frame = await sandbox.runCode('import pandas as pd\npd.DataFrame({"a": [1, 2]})')
  assert.match(frame.results[0].html, /<table/)
  assert.equal(frame.results[0].isMainResult, true)
  const rich = await sandbox.runCode(
    'from IPython.display import *\ndisplay(HTML("<b>x</b>"), SVG("<svg xmlns=\'http://www.w3.org/2000/svg\'/>"), JSON({"k": 1}), Markdown("*m*"))')
  assert.equal(rich.results[0].html, '<b>x</b>')
  assert.match(rich.results[1].svg, /<svg/)
  assert.deepEqual(rich.results[2].json, { k: 1 })
  assert.equal(rich.results[3].markdown, '*m*')
})

method('sandbox.runCode', 'other languages', async () => {
  await sandbox.runCode('const a = 6; let b = 7', { language: 'javascript' })
  const js = await sandbox.runCode('console.log("log"); await Promise.resolve(a * b)', { language: 'js' })
  assert.equal(js.text, '42')
  assert.equal(js.logs.stdout.join(''), 'log\n')
  await sandbox.runCode('export WORD=hello; cd /tmp', { language: 'bash' })
  assert.equal((await sandbox.runCode('echo $WORD $PWD', { language: 'bash' })).logs.stdout.join(''), 'hello /tmp\n')
  await assert.rejects(sandbox.runCode('1', { language: 'cobol' }), /400/)
})

method('sandbox.runCode', 'environment of one run', async () => {
  const code = 'import os; os.environ.get("ONE")'
  assert.equal((await sandbox.runCode(code, { envs: { ONE: '1' } })).text, "'1'")
  assert.equal((await sandbox.runCode(code)).text, undefined)
})

method('sandbox.runCode', 'a run that takes too long is interrupted, its state stays', async () => {
  await sandbox.runCode('kept = 7')
  await rejects(sandbox.runCode('import time; time.sleep(1000)', { timeoutMs: 1000 }), TimeoutError)
  assert.equal((await sandbox.runCode('kept')).text, '7')
})

method('sandbox.runCode', 'a kernel that dies is replaced', async () => {
  const run = await sandbox.runCode('import os; os._exit(1)')
  assert.equal(run.error.name, 'KernelDied')
  assert.equal((await sandbox.runCode('1 + 1')).text, '2')
})

method('sandbox.runCode', 'many at once in contexts of their own', async () => {
  const contexts = await Promise.all(['javascript', 'bash'].map((language) => sandbox.createCodeContext({ language })))
  const runs = await Promise.all([
    sandbox.runCode('"one"', { context: contexts[0] }), sandbox.runCode('echo two', { context: contexts[1] })])
  assert.equal(runs[0].text, "'one'")
  assert.equal(runs[1].logs.stdout.join(''), 'two\n')
  await Promise.all(contexts.map((c) => sandbox.removeCodeContext(c)))
})

method(['sandbox.createCodeContext', 'sandbox.listCodeContexts', 'sandbox.restartCodeContext', 'sandbox.removeCodeContext'],
  'apart from each other', async () => {
    const context = await sandbox.createCodeContext({ language: 'bash', cwd: '/tmp' })
    assert.deepEqual([context.language, context.cwd], ['bash', '/tmp'])
    await sandbox.runCode('own=1', { context })
    assert.equal((await sandbox.runCode('echo $own $PWD', { context })).logs.stdout.join(''), '1 /tmp\n')
    assert.equal((await sandbox.runCode('echo "[$own]"', { language: 'bash' })).logs.stdout.join(''), '[]\n')
    assert.ok((await sandbox.listCodeContexts()).some((c) => c.id === context.id && c.cwd === '/tmp'))
    await sandbox.restartCodeContext(context)
    assert.equal((await sandbox.runCode('echo "[$own]"', { context })).logs.stdout.join(''), '[]\n')
    await sandbox.removeCodeContext(context.id)
    assert.ok(!(await sandbox.listCodeContexts()).some((c) => c.id === context.id))
    await assert.rejects(sandbox.runCode('1', { context }), /no code context/)
    await assert.rejects(sandbox.removeCodeContext('nothere'))
  })

method('sandbox.commands', 'files and commands beside code', async () => {
  await sandbox.files.write('data.csv', 'a,b\n1,2\n')
  assert.equal((await sandbox.runCode('import pandas as pd; int(pd.read_csv("data.csv").b[0])')).text, '2')
  assert.equal((await sandbox.commands.run('cat data.csv')).stdout, 'a,b\n1,2\n')
})
