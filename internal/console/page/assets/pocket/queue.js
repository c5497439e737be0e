// What comes next on this device: a pack of the server, with the reviews that were made here
// since. It is computed from both each time, so that nothing can get out of step.
"use strict";
(globalThis.pocket ??= {}).Queue = (() => {
  const { NEW, REVIEW, DONE, dayOf, outcomes, review } = globalThis.pocket.schedule;
  const AHEAD = 2 * 60000; // how early a step may come if nothing else is left, as on the server

  // queueOf returns where a card waits: "new", "steps", "day", or "" for nowhere.
  function queueOf(card) {
    if (card.phase === DONE) return "";
    if (card.phase === NEW) return "new";
    return card.phase === REVIEW ? "day" : "steps";
  }

  return class Queue {
    // reviews have id, point, grade and at; those that were undone are left out by the caller.
    // Reviews of points that the pack does not have change nothing here.
    constructor(pack, reviews) {
      this.pack = pack;
      this.decks = new Map(pack.decks.map(d => [d.id, d]));
      this.cards = new Map(pack.cards.map(c => [c.id, { ...c, course: [...(c.course ?? [])] }]));
      this.done = new Map(); // day and group → new and other points that were reviewed on it
      for (const r of [...reviews].sort((a, b) => a.at - b.at)) this.apply(r);
    }

    deckOf(card) { return this.decks.get(card.deck) ?? this.pack.decks[0]; }

    // apply takes a review into account.
    apply(r) {
      const c = this.cards.get(r.point);
      if (!c) return;
      const deck = this.deckOf(c), day = dayOf(this.pack.calendar, r.at), counts = this.countsOf(day, deck.group);
      const queue = queueOf(c.card);
      if (c.card.reps === 0) counts.fresh++;
      else if (queue === "day") counts.due++;
      if (deck.settings.schedule === "classic") c.course.shift();
      c.card = review(c.card, deck.settings, this.pack.calendar, r.grade, r.at, c.course);
      if (deck.settings.bury && c.kin) this.bury(c, day + 1);
    }

    bury(card, until) {
      for (const c of this.cards.values()) {
        const queue = queueOf(c.card);
        if (c.kin === card.kin && c !== card && (queue === "new" || queue === "day" && c.card.due < until)) {
          c.card = { ...c.card, buried: Math.max(c.card.buried, until) };
        }
      }
    }

    countsOf(day, group) {
      const key = `${day} ${group}`;
      if (!this.done.has(key)) this.done.set(key, { fresh: 0, due: 0 });
      return this.done.get(key);
    }

    // limits returns what the limits leave of a day for each group of decks.
    limits(day) {
      const left = {};
      for (const [name, g] of Object.entries(this.pack.groups)) {
        const done = this.countsOf(day, name), today = day === this.pack.today;
        left[name] = { fresh: (today ? g.new_left : g.new_per_day) - done.fresh,
          due: (today ? g.reviews_left : g.reviews_per_day) - done.due };
      }
      return left;
    }

    // at returns {next, left, later}: the card to ask now or null, how many are left today, and when
    // the next step comes if nothing is to be asked.
    at(now) {
      const today = dayOf(this.pack.calendar, now), limits = this.limits(today);
      const waiting = { steps: [], day: [], new: [] };
      for (const c of this.cards.values()) {
        const queue = queueOf(c.card);
        if (c.card.buried <= today && (queue === "new" || queue !== "" && c.card.due <= today)) waiting[queue].push(c);
      }
      const order = (a, b) => a.card.due - b.card.due || a.card.due_at - b.card.due_at || a.order - b.order;
      for (const list of Object.values(waiting)) list.sort(order);
      const allowed = (list, what) => list.filter(c => limits[this.deckOf(c).group][what]-- > 0);
      const ready = [...waiting.steps.filter(c => c.card.due_at <= now), ...allowed(waiting.day, "due"),
        ...allowed(waiting.new, "fresh")];
      const step = this.nextStep(today);
      const left = ready.length + waiting.steps.filter(c => c.card.due_at > now).length;
      if (ready.length > 0) return { next: ready[0], left, later: 0 };
      if (step && step.card.due_at - now <= AHEAD) return { next: step, left, later: 0 };
      return { next: null, left, later: step?.card.due_at ?? 0 };
    }

    // nextStep returns the card on its learning steps that is due first, or null.
    nextStep(today) {
      let first = null;
      for (const c of this.cards.values()) {
        if (queueOf(c.card) !== "steps" || c.card.buried > today) continue;
        if (!first || c.card.due_at < first.card.due_at) first = c;
      }
      return first;
    }

    // grades returns what each grade would lead to: [{wait, days}], by grade - 1.
    grades(card, now) {
      const deck = this.deckOf(card), today = dayOf(this.pack.calendar, now);
      if (deck.settings.schedule !== "classic") return outcomes(card.card, deck.settings, today);
      return Array(4).fill({ wait: 0, days: Math.max(card.card.due - today, 0) });
    }
  };
})();
