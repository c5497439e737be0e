// Drives the server at the port and with the key of the arguments by a client that others wrote
// (yanki-connect): a note is added, found, reviewed, changed and deleted. Prints what was seen as JSON.
import { YankiConnect } from 'yanki-connect';

const [port, key] = process.argv.slice(2);
const anki = new YankiConnect({ host: 'http://127.0.0.1', port: Number(port), key });
const seen = {};

seen.version = await anki.miscellaneous.version();
await anki.deck.createDeck({ deck: 'Peer' });
seen.decks = await anki.deck.deckNames();
const note = {
  deckName: 'Peer', modelName: 'Basic', fields: { Front: 'le chien', Back: 'the dog' }, tags: ['animal'],
};
seen.can = await anki.note.canAddNotes({ notes: [note] });
const id = await anki.note.addNote({ note });
seen.again = await anki.note.addNote({ note }).then(() => 'added', (e) => String(e.message ?? e));
seen.found = (await anki.note.findNotes({ query: '"deck:Peer" front:"le chien"' })).map((n) => n === id);
const [info] = await anki.note.notesInfo({ notes: [id] });
seen.front = info.fields.Front.value;
const cards = await anki.card.findCards({ query: `nid:${id}` });
seen.answered = await anki.card.answerCards({ answers: [{ cardId: cards[0], ease: 4 }] });
seen.reviewed = (await anki.card.findCards({ query: 'rated:1 deck:Peer' })).length;
await anki.note.updateNoteFields({ note: { id, fields: { Back: 'the hound' } } });
seen.back = (await anki.note.notesInfo({ notes: [id] }))[0].fields.Back.value;
seen.media = await anki.media.storeMediaFile({
  filename: 'dot.gif', data: 'R0lGODlhAQABAAAAACwAAAAAAQABAAA=',
});
await anki.note.deleteNotes({ notes: [id] });
seen.left = await anki.note.findNotes({ query: 'deck:Peer' });
console.log(JSON.stringify(seen));
