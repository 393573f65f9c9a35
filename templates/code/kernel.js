// SPDX-License-Identifier: Apache-2.0
// A Node that keeps its state from code to code: NUL-ended JSON on descriptor 3, an answer on 4.
'use strict';
const fs = require('fs');
const net = require('net');
const repl = require('repl');
const util = require('util');
const { PassThrough } = require('stream');

// The REPL's evaluator: top-level await, declarations that stay, the value of the last statement.
const shell = repl.start({ input: new PassThrough(), output: new PassThrough(), prompt: '', useGlobal: true });
shell.on('exit', () => process.exit(0));
process.removeAllListeners('uncaughtException');

let fail = null; // ends the code under way from outside of its own promise
process.on('uncaughtException', (e) => (fail ? fail(e) : console.error(e)));
process.on('unhandledRejection', (e) => (fail ? fail(e) : console.error(e)));
// Older Nodes tell what code throws to the REPL's domain, not to the evaluator's caller.
if (shell._domain) shell._domain.removeAllListeners('error').on('error', (e) => (fail ? fail(e) : console.error(e)));
process.on('SIGINT', () => fail && fail(Object.assign(new Error('interrupted'), { name: 'KeyboardInterrupt' })));

function run(code) {
	return new Promise((resolve, reject) => {
		fail = reject;
		shell.eval(code + '\n', shell.context, 'cell', (e, value) => (e ? reject(e.err || e) : resolve(value)));
	});
}

function told(value) {
	const data = { 'text/plain': util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 100000 }) };

	if (value !== null && typeof value === 'object') {
		try {
			const json = JSON.stringify(value);
			if (json && json.length < 1 << 20) data['application/json'] = JSON.parse(json);
		} catch { /* circular, or not data */ }
	}
	if (Buffer.isBuffer(value) && value.subarray(0, 4).equals(Buffer.from('\x89PNG', 'latin1'))) {
		data['image/png'] = value.toString('base64');
		delete data['application/json'];
	}
	return data;
}

async function execute({ code, env }) {
	const before = {};
	const answer = {};

	for (const [key, value] of Object.entries(env || {})) {
		before[key] = process.env[key];
		process.env[key] = value;
	}
	try {
		const value = await run(code);
		if (value !== undefined) answer.data = told(value);
	} catch (e) {
		answer.error = e instanceof Error || (e && e.stack)
			? { name: e.name || 'Error', value: String(e.message), traceback: String(e.stack) }
			: { name: 'Error', value: util.inspect(e), traceback: '' };
	}
	fail = null;
	for (const [key, value] of Object.entries(before)) {
		if (value === undefined) delete process.env[key];
		else process.env[key] = value;
	}
	return answer;
}

// Written before the answer: a pipe that is not drained yet must not be overtaken.
function drained(stream) {
	return new Promise((resolve) => (stream.writableLength ? stream.write('', resolve) : resolve()));
}

async function main() {
	let held = Buffer.alloc(0);

	for await (const piece of new net.Socket({ fd: 3, readable: true, writable: false })) {
		held = Buffer.concat([held, piece]);
		for (let end; (end = held.indexOf(0)) >= 0; held = held.subarray(end + 1)) {
			const answer = await execute(JSON.parse(held.subarray(0, end).toString()));
			await drained(process.stdout);
			await drained(process.stderr);
			fs.writeSync(4, JSON.stringify(answer) + '\0');
		}
	}
	process.exit(0);
}
main();
