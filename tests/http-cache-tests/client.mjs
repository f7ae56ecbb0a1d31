// Runs the suite against a gateway, or evaluates results by the suite's rule; prints JSON.
//
//   node client.mjs run http://HOST:PORT [ID…]   the results of all tests, or of some, whose exchanges go to standard error
//   node client.mjs judge < RESULTS              what each test came to
//   node client.mjs published                    the same for each proxy whose results the suite ships

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

async function run (base, ...only) {
  // The suite listens for interim responses through undici, so fetch has to be of the same version.
  globalThis.fetch = undici.fetch
  console.log = console.error
  const one = test => ({ ...test, dump: true })
  const chosen = only.length === 0
    ? suites
    : suites.map(suite => ({ ...suite, tests: suite.tests.filter(({ id }) => only.includes(id)).map(one) }))
  await runTests(chosen, false, base, PARALLEL)
  return getResults()
}

function counts ({ file, name, version }) {
  const results = JSON.parse(readFileSync(new URL(`suite/results/${file}`, import.meta.url)))
  return { name, version, verdicts: verdicts(results) }
}

const [mode, ...args] = process.argv.slice(2)
const modes = {
  run,
  judge: () => verdicts(JSON.parse(readFileSync(0))),
  published: () => published.filter(({ type }) => type !== 'browser').map(counts)
}
const output = await modes[mode](...args)
process.stdout.write(JSON.stringify(output), () => process.exit(0)) // idle connections would keep the process
