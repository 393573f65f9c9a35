// SPDX-License-Identifier: Apache-2.0
// Runs inside a sandbox: a WebSocket server that says back what it hears, or does what it is told.
import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'

const http = createServer((req, res) => res.end('plain'))
const server = new WebSocketServer({
  server: http,
  maxPayload: 64 << 20,
  perMessageDeflate: true,
  handleProtocols: (offered) => (offered.has('echo.v1') ? 'echo.v1' : false),
  verifyClient: ({ req }, done) => (req.url === '/no' ? done(false, 403, 'not here') : done(true)),
})
server.on('connection', (socket, req) => {
  socket.on('pong', (data) => socket.send(`pong ${data}`))
  socket.on('close', (code, reason) => console.log(`closed ${code} ${reason}`))
  socket.on('message', (data, binary) => {
    const words = binary ? [] : data.toString().split(' ')
    if (words[0] === '/close') socket.close(Number(words[1]), words[2])
    else if (words[0] === '/ping') socket.ping(words[1])
    else if (words[0] === '/drop') socket.terminate()
    else if (words[0] === '/host') socket.send(req.headers.host)
    else socket.send(data, { binary })
  })
})
http.listen(Number(process.argv[2]), '127.0.0.1')
