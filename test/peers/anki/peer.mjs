// Runs programs that others wrote for Anki's packages:
//
//   node peer.mjs write FILE   anki-apkg-export writes a package
//   node peer.mjs read FILE    anki-reader tells a package's contents as JSON
import { createRequire } from 'node:module'
import { readFileSync, writeFileSync } from 'node:fs'

const [mode, file] = process.argv.slice(2)

if (mode === 'write') {
  const require = createRequire(import.meta.url)
  const AnkiExport = require('anki-apkg-export').default
  const apkg = new AnkiExport('Capitals of Europe')
  apkg.addMedia('flag.png', Buffer.from('89504e470d0a1a0a', 'hex'))
  apkg.addCard('Capital of France?', 'Paris')
  apkg.addCard('法国的<b>首都</b>？', '巴黎<br>在塞纳河上', { tags: ['europe', 'two words'] })
  apkg.addCard('Whose flag? <img src="flag.png">', '<ul><li>red</li><li>white &amp; blue</li></ul>[sound:anthem.mp3]')
  writeFileSync(file, await apkg.save(), 'binary')
} else if (mode === 'read') {
  const { readAnkiPackage } = await import('anki-reader')
  const { collection } = await readAnkiPackage(new Blob([readFileSync(file)]))
  const decks = {}
  for (const deck of Object.values(collection.getDecks())) {
    const raw = deck.getRawDeck()
    decks[raw.name] = Object.values(deck.getCards()).map(card => ({
      front: card.getFront(), back: card.getBack(), fields: card.getFields(), raw: card.getRawCard()
    }))
  }
  const log = collection.db.exec('SELECT cid, ease, ivl, lastIvl, time, type, id FROM revlog ORDER BY id')[0]?.values ?? []
  console.log(JSON.stringify({
    version: collection.getVersion(), created: collection.getCreationTime(), config: collection.getConfig(), decks, log
  }))
} else {
  console.error('usage: node peer.mjs write|read FILE')
  process.exit(2)
}
