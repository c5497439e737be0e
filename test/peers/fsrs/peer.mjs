// Fits logs of reviews with the reference optimizer, and measures weights with it.
//
//   node peer.mjs < LOGS
//
// Each line of the input is a log: {"cards": [[[grade, days], …], …], "items": [[card, length], …],
// "same_day": true, "relearn": 1, "weights": […]}. Each line of the output has the weights that the
// optimizer found, how well they predict the log, and how well the given ones do.
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'

// The native module itself: npm cannot install the package around it from a lock file that was made
// where a registry lacks modules of other systems.
const { computeParameters, FSRSBinding, FSRSBindingItem, FSRSBindingReview } =
  createRequire(import.meta.url)('@open-spaced-repetition/binding-linux-x64-gnu')

for await (const line of createInterface({ input: process.stdin })) {
  const log = JSON.parse(line)
  const items = log.items.map(([card, length]) =>
    new FSRSBindingItem(log.cards[card].slice(0, length).map(([grade, days]) => new FSRSBindingReview(grade, days))))
  const began = performance.now()
  const weights = await computeParameters(items, { enableShortTerm: log.same_day, numRelearningSteps: log.relearn })
  const seconds = (performance.now() - began) / 1000
  const measure = w => {
    const m = new FSRSBinding(w).evaluate(items)
    return { log_loss: m.logLoss, rmse: m.rmseBins }
  }
  console.log(JSON.stringify({ weights, seconds, theirs: measure(weights), ours: measure(log.weights) }))
}
