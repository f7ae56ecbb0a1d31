// Runs the suite against a gateway, or evaluates published results; prints what each test came to as JSON.
//
//   node client.mjs run http://HOST:PORT [ID]    a verdict for each test, or for one, with its exchanges on standard error
//   node client.mjs published                    how many of each verdict, for each proxy whose results the suite ships

import { readFileSync } from 'node:fs'
import * as undici from 'undici'
import tests from './suite/tests/index.mjs'
import published from './suite/results/index.mjs'
import { runTests, getResults } from './suite/test-engine/client/runner.mjs'
import { determineTestResult, resultTypes } from './suite/test-engine/lib/results.mjs'

// So many tests at the same time. Most of a test's time is a pause of three seconds.
const PARALLEL = 120

const applies = test => test.browser_only !== true
const suites = tests.map(suite => ({ ...suite, tests: suite.tests.filter(applies) }))

function verdicts (results) {
  return suites.flatMap(suite => suite.tests.map(test => {
    const type = determineTestResult(tests, test.id, results)
    const result = results[test.id]
    return {
      id: test.id,
      suite: suite.id,
      kind: test.kind ?? 'required',
      verdict: Object.keys(resultTypes).find(name => resultTypes[name] === type),
      why: Array.isArray(result) ? `${result[0]}: ${result[1]}` : ''
    }
  }))
}

async function run (base, only) {
  // The suite listens for interim responses through undici, so fetch has to be of the same version.
  globalThis.fetch = undici.fetch
  const log = console.log
  console.log = console.error
  const one = test => ({ ...test, dump: true })
  const chosen = only === undefined
    ? suites
    : suites.map(suite => ({ ...suite, tests: suite.tests.filter(test => test.id === only).map(one) }))
  await runTests(chosen, false, base, PARALLEL)
  console.log = log
  return verdicts(getResults()).filter(({ id }) => only === undefined || id === only)
}

function counts ({ file, name, version }) {
  const results = JSON.parse(readFileSync(new URL(`suite/results/${file}`, import.meta.url)))
  return { name, version, verdicts: verdicts(results) }
}

const [mode, ...args] = process.argv.slice(2)
const output = mode === 'run' ? await run(...args) : published.filter(({ type }) => type !== 'browser').map(counts)
process.stdout.write(JSON.stringify(output), () => process.exit(0)) // idle connections would keep the process
