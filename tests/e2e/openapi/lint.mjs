// SPDX-License-Identifier: Apache-2.0
// node lint.mjs FILE: prints every problem of an OpenAPI document by the linter's strict rules.
import { createConfig, lint } from '@redocly/openapi-core'

const config = await createConfig({
  extends: ['recommended-strict'],
  rules: {
    'operation-2xx-response': 'off', // WebSockets are answered with 101; the test looks at the others
    'no-ambiguous-paths': 'off', // /v1/keys/self beside /v1/keys/{id}: a literal goes first, by the specification
  },
})
const problems = await lint({ ref: process.argv[2], config })
for (const p of problems) console.log(`${p.severity} ${p.ruleId}: ${p.message} ${p.location?.[0]?.pointer ?? ''}`)
process.exit(problems.length ? 1 : 0)
