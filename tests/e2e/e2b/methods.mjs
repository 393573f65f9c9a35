// SPDX-License-Identifier: Apache-2.0
// Prints every method that the SDK offers, so that none can be without a test.
import * as e2b from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'

const functions = (object) => Object.getOwnPropertyNames(object)
  .filter((n) => n !== 'constructor' && typeof Object.getOwnPropertyDescriptor(object, n).value === 'function')
const sandbox = new e2b.Sandbox({ sandboxId: 'x', envdVersion: '0.6.13', apiKey: 'e2b_00' })
const names = []
const add = (prefix, object) => names.push(...functions(object).map((n) => `${prefix}.${n}`))

add('Sandbox', e2b.Sandbox)
add('Sandbox', Object.getPrototypeOf(e2b.Sandbox))
add('sandbox', e2b.Sandbox.prototype)
for (const part of ['files', 'commands', 'pty', 'git']) add(part, Object.getPrototypeOf(sandbox[part]))
add('sandbox', Interpreter.prototype)
add('Template', e2b.Template)
add('Secret', e2b.Secret)
add('Volume', e2b.Volume)
console.log(JSON.stringify([...new Set(names)]))
