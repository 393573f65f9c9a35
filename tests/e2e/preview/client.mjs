// SPDX-License-Identifier: Apache-2.0
// Runs outside: what a WebSocket through a preview must do. ADDRESS as "host:port", then the Host to ask for.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { WebSocket } from 'ws'

const [address, host] = process.argv.slice(2)
const open = (path = '/', protocols = [], options = {}) =>
  new WebSocket(`ws://${address}${path}`, protocols, { headers: { Host: host }, ...options })
const opened = async (...args) => {
  const socket = open(...args)
  await once(socket, 'open')
  return socket
}
const ask = async (socket, data) => {
  const heard = once(socket, 'message')
  socket.send(data)
  const [message, binary] = await heard
  return binary ? message : message.toString()
}

const shown = {
  'text of every length a frame writes differently': async () => {
    const socket = await opened('/', ['other', 'echo.v1'], { perMessageDeflate: false })
    assert.equal(socket.protocol, 'echo.v1')
    for (const n of [0, 1, 125, 126, 127, 65535, 65536, 1 << 20])
      assert.equal(await ask(socket, 'ü'.repeat(n >> 1) + 'x'.repeat(n & 1)), 'ü'.repeat(n >> 1) + 'x'.repeat(n & 1))
    socket.close()
    await once(socket, 'close')
  },
  'bytes, a megabyte at a time, many under way': async () => {
    const socket = await opened('/', [], { perMessageDeflate: false })
    const sent = Array.from({ length: 16 }, () => randomBytes(1 << 20))
    const heard = new Promise((done) => {
      const all = []
      socket.on('message', (data, binary) => {
        assert(binary)
        if (all.push(data) === sent.length) done(all)
      })
    })
    for (const piece of sent) socket.send(piece)
    const all = await heard
    sent.forEach((piece, i) => assert(piece.equals(all[i])))
    socket.terminate()
  },
  'compressed, and one message in many fragments': async () => {
    const socket = await opened('/', [], { perMessageDeflate: { threshold: 0 } })
    assert.match(socket.extensions, /permessage-deflate/)
    assert.equal(await ask(socket, 'z'.repeat(100000)), 'z'.repeat(100000))
    const heard = once(socket, 'message')
    for (let i = 0; i < 100; i++) socket.send(`part ${i};`, { fin: i === 99 })
    assert.match((await heard)[0].toString(), /^part 0;.*part 99;$/)
    socket.terminate()
  },
  'pings of both sides': async () => {
    const socket = await opened()
    const pong = once(socket, 'pong')
    socket.ping('from outside')
    assert.equal((await pong)[0].toString(), 'from outside')
    assert.equal(await ask(socket, '/ping inside'), 'pong inside')
    socket.terminate()
  },
  'close codes of both sides': async () => {
    for (const code of [1000, 1001, 1011, 3000, 4999]) {
      const socket = await opened()
      const closed = once(socket, 'close')
      socket.send(`/close ${code} why`)
      const [got, reason] = await closed
      assert.equal(got, code)
      assert.equal(reason.toString(), 'why')
    }
    const socket = await opened()
    socket.close(4321, 'enough')
    assert.equal((await once(socket, 'close'))[0], 4321)
  },
  'a server that drops the connection': async () => {
    const socket = await opened()
    const closed = once(socket, 'close')
    socket.send('/drop')
    assert.equal((await closed)[0], 1006)
  },
  'an upgrade that the server refuses': async () => {
    const socket = open('/no')
    socket.on('error', () => {})
    const [, answer] = await once(socket, 'unexpected-response')
    assert.equal(answer.statusCode, 403)
    answer.destroy()
  },
  'the Host it was asked for': async () => {
    const socket = await opened()
    assert.equal(await ask(socket, '/host'), host)
    socket.terminate()
  },
}
for (const [name, show] of Object.entries(shown)) {
  await show()
  console.log(`ok ${name}`)
}
