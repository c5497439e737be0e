// Runs the scheduler of the offline pages for the tests of pocket_test.go. It reads
// {"files", "task", ...} from standard input and writes JSON.
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";

const input = JSON.parse(readFileSync(0, "utf8"));
for (const file of input.files) runInThisContext(readFileSync(file, "utf8"), { filename: file });
const { schedule, Queue } = globalThis.pocket;

const tasks = {
  // vectors: the memory after each review, and the intervals of the grades.
  vectors({ parameters: w, sequences }) {
    return sequences.map(seq => {
      let m = null;
      return seq.steps.map(step => {
        const after = g => m ? schedule.next(w, m, step.delta_days, g, seq.short_term) : schedule.first(w, g);
        const intervals = [1, 2, 3, 4].map(g => schedule.interval(w, after(g).stability, seq.desired_retention));
        m = after(step.rating);
        return { ...m, intervals };
      });
    });
  },

  // courses: the cards after each review, with what the grades would have led to.
  courses({ courses }) {
    return courses.map(({ settings, calendar, card, course, reviews }) => reviews.map(r => {
      const today = schedule.dayOf(calendar, r.at);
      const ways = schedule.outcomes(card, settings, today).map(w => ({ wait: w.wait, days: w.days }));
      course.shift();
      card = schedule.review(card, settings, calendar, r.grade, r.at, course);
      return { card, ways, start: schedule.startOf(calendar, today) };
    }));
  },

  // at: what comes next at a time.
  at({ pack, now }) {
    const { next, left, later } = new Queue(pack, []).at(now);
    return { next: next?.id ?? "", left, later };
  },

  // week: reviews of a simulated week, as somebody makes them offline.
  week({ pack, from, days, most }) {
    const queue = new Queue(pack, []), reviews = [], left = [];
    let seed = 1;
    for (let day = 0; day < days; day++) {
      let now = from + day * 86400000;
      for (let i = 0; i < most; i++) {
        const { next, later, left: n } = queue.at(now);
        if (!next && !(later > 0 && later - now < 1800000)) break;
        if (!next) {
          now = later;
          continue;
        }
        seed = (seed * 48271) % 2147483647;
        const r = { id: `w${reviews.length}`, point: next.id, at: now, grade: [1, 2, 3, 3, 3, 4][seed % 6] };
        left.push(n);
        reviews.push(r);
        queue.apply(r);
        now += 20000;
      }
    }
    return { reviews, left, cards: [...queue.cards.values()].map(c => ({ id: c.id, card: c.card })) };
  },
};

process.stdout.write(JSON.stringify(tasks[input.task](input)));
