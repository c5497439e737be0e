// When a point comes again, as the server computes it: packages fsrs and schedule of
// internal/plug/learn, of which this is a translation. TestScheduler compares the two. Dates
// are not balanced here, as in previews: the server does that when the reviews arrive.
//
// Days are numbers since 1970-01-01, times are milliseconds. Nothing here reads a clock.
"use strict";
(globalThis.pocket ??= {}).schedule = (() => {
  const AGAIN = 1, HARD = 2, GOOD = 3, EASY = 4;
  const NEW = 0, LEARNING = 1, REVIEW = 2, RELEARNING = 3, DONE = 4;
  const MINUTE = 60000, DAY = 86400000;

  const clamp = (x, least, most) => x >= least ? Math.min(x, most) : least; // NaN becomes the least
  const stability = s => clamp(s, 0.001, 36500);
  const difficulty = d => clamp(d, 1, 10);

  // FSRS-6; w are the 21 weights. See package fsrs for the sources of the formulas.
  const firstDifficulty = (w, g) => w[4] - Math.exp(w[5] * (g - 1)) + 1;
  const factor = w => Math.pow(0.9, -1 / w[20]) - 1;

  function retrievability(w, elapsed, s) {
    return elapsed > 0 ? Math.min(Math.pow(1 + factor(w) * elapsed / stability(s), -w[20]), 1) : 1;
  }

  const interval = (w, s, retention) => stability(s) / factor(w) * (Math.pow(retention, 1 / -w[20]) - 1);

  const first = (w, g) => ({
    stability: Math.max(stability(w[g - 1]), 0.1),
    difficulty: difficulty(firstDifficulty(w, g)),
  });

  function nextDifficulty(w, d, g) {
    const moved = d - w[6] * (g - GOOD) * (10 - d) / 9;
    return difficulty(w[7] * firstDifficulty(w, EASY) + (1 - w[7]) * moved);
  }

  function recalled(w, s, d, r, g) {
    let grow = Math.exp(w[8]) * (11 - d) * Math.pow(s, -w[9]) * Math.expm1((1 - r) * w[10]);
    if (g === HARD) grow *= w[15];
    if (g === EASY) grow *= w[16];
    return s * (1 + grow);
  }

  function forgotten(w, s, d, r, sameDay) {
    const left = w[11] * Math.pow(d, -w[12]) * (Math.pow(s + 1, w[13]) - 1) * Math.exp((1 - r) * w[14]);
    return Math.min(left, sameDay ? s / Math.exp(w[17] * w[18]) : s);
  }

  function repeated(w, s, g) {
    const c = Math.exp(w[17] * (g - GOOD + w[18])) * Math.pow(s, -w[19]);
    return s * (g >= HARD ? Math.max(c, 1) : c);
  }

  function next(w, memory, elapsed, g, sameDay) {
    const s = stability(memory.stability), d = difficulty(memory.difficulty);
    elapsed = Math.max(elapsed, 0);
    let after;
    if (sameDay && elapsed === 0) after = repeated(w, s, g);
    else if (g === AGAIN) after = forgotten(w, s, d, retrievability(w, elapsed, s), sameDay);
    else after = recalled(w, s, d, retrievability(w, elapsed, s), g);
    return { stability: stability(after), difficulty: nextDifficulty(w, d, g) };
  }

  // The calendar of a pack.
  function offsetAt(calendar, t) {
    let found = calendar.spans[0];
    for (const span of calendar.spans) if (span.from <= t) found = span;
    return found.offset;
  }

  function dayOf(calendar, t) {
    let d = Math.floor((t + offsetAt(calendar, t) - calendar.start) / DAY);
    while (startOf(calendar, d + 1) <= t) d++;
    return d;
  }

  // The first moment of a day: when the clock first shows its start, or is put past it.
  function startOf(calendar, d) {
    const wall = d * DAY + calendar.start, spans = calendar.spans;
    for (let i = 0; ; i++) {
      const from = i === 0 ? -Infinity : spans[i].from;
      const end = i + 1 < spans.length ? spans[i + 1].from : Infinity;
      const at = wall - spans[i].offset;
      if (at < from) return from;
      if (at < end) return at;
    }
  }

  // Package schedule.
  const hasMemory = card => card.stability > 0;

  function elapsed(card, today) {
    return !hasMemory(card) || card.last_day >= today ? 0 : today - card.last_day;
  }

  function days(settings, s) {
    const n = Math.round(interval(settings.weights, s, settings.retention));
    return n >= 1 ? Math.min(n, Math.max(settings.max_interval, 1)) : 1;
  }

  function phaseOf(card) {
    if (!hasMemory(card)) return NEW;
    return card.phase === LEARNING || card.phase === RELEARNING ? card.phase : REVIEW;
  }

  function transition(settings, phase, step, g) {
    let steps = settings.steps ?? [], on = LEARNING;
    if (phase === NEW) step = 0;
    if (phase === REVIEW) {
      if (g !== AGAIN) return { phase: REVIEW, step: 0, wait: 0, days: 0 };
      step = 0;
    }
    if (phase === REVIEW || phase === RELEARNING) [steps, on] = [settings.relearn ?? [], RELEARNING];
    if (steps.length === 0 || g === EASY) return { phase: REVIEW, step: 0, wait: 0, days: 0 };
    step = Math.min(Math.max(step, 0), steps.length - 1);
    let wait = steps[step] * MINUTE;
    if (g === AGAIN) [step, wait] = [0, steps[0] * MINUTE];
    if (g === HARD && step === 0) {
      wait = steps.length === 1 ? wait + wait / 2 : (steps[0] + steps[1]) * MINUTE / 2;
    }
    if (g === GOOD) {
      if (++step === steps.length) return { phase: REVIEW, step: 0, wait: 0, days: 0 };
      wait = steps[step] * MINUTE;
    }
    return { phase: on, step, wait: Math.min(wait, Math.max(settings.max_interval, 1) * DAY), days: 0 };
  }

  // A better grade leads at least a day further.
  function separate(settings, ways) {
    const longest = Math.max(settings.max_interval, 1);
    let most = longest, least = 1;
    for (const way of [...ways].reverse()) {
      if (way.wait === 0) way.days = most = Math.min(most, way.days);
    }
    for (const way of ways) {
      if (way.wait !== 0) continue;
      way.days = Math.min(Math.max(way.days, least), longest);
      least = way.days + 1;
    }
  }

  // What the grades 1 to 4 would lead to: [{memory, phase, step, wait, days}], by grade - 1.
  function outcomes(card, settings, today) {
    const sameDay = (settings.steps ?? []).length > 0, gone = elapsed(card, today), phase = phaseOf(card);
    const ways = [AGAIN, HARD, GOOD, EASY].map(g => {
      const memory = hasMemory(card) ? next(settings.weights, card, gone, g, sameDay) : first(settings.weights, g);
      const way = { memory, ...transition(settings, phase, card.step, g) };
      if (way.wait === 0) way.days = days(settings, memory.stability);
      return way;
    });
    separate(settings, ways);
    return ways;
  }

  // The card after a review. course are the days of the rest of the classic course.
  function review(card, settings, calendar, grade, at, course) {
    const today = dayOf(calendar, at), way = outcomes(card, settings, today)[grade - 1];
    const after = {
      ...card, ...way.memory, reps: card.reps + 1, last_at: at, last_day: today, buried: 0,
      lapses: card.lapses + (grade === AGAIN && phaseOf(card) === REVIEW ? 1 : 0),
    };
    if (settings.schedule === "classic") {
      const ahead = course[0];
      return { ...after, step: 0, due_at: 0, phase: ahead === undefined ? DONE : REVIEW,
        due: ahead === undefined ? card.due : Math.max(ahead, today + 1) };
    }
    Object.assign(after, { phase: way.phase, step: way.step, due_at: 0, due: today + way.days });
    if (way.wait > 0) {
      after.due_at = at + way.wait;
      after.due = dayOf(calendar, after.due_at);
    }
    return after;
  }

  return { NEW, LEARNING, REVIEW, RELEARNING, DONE, first, next, interval, dayOf, startOf, elapsed, outcomes, review };
})();
