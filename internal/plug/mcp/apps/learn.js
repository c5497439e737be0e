// The review card: a question, its answer, and how well it was known.
const state = { card: null, answer: null, grades: {}, left: null, shownAt: 0, took: 0, review: "", busy: false, text: "" };

view.adopt = result => {
  const d = dataOf(result);
  state.text = "";
  if (d.next_card !== undefined) setCard(d.next_card, d.next_grades, d.remaining);
  else if (d.done !== undefined) setCard(d.card, d.grades, d.remaining);
  else if (d.answer !== undefined) {
    if (d.knowledge_point_id !== state.card?.knowledge_point_id) setCard(d, d.grades, null);
    Object.assign(state, { answer: String(d.answer), grades: d.grades || {} });
  } else state.text = textOf(result);
};

function setCard(card, grades, left) {
  const random = crypto.getRandomValues(new Uint8Array(16));
  Object.assign(state, {
    card: card || null, answer: null, grades: grades || {}, left, shownAt: performance.now(), took: 0,
    // A call that is repeated after a fault counts once.
    review: "card-" + Array.from(random, b => b.toString(16).padStart(2, "0")).join(""),
  });
}

// act calls a tool, shows the result, and puts the focus on what comes next.
async function act(role, args) {
  if (state.busy) return;
  state.busy = true;
  main.setAttribute("aria-busy", "true");
  fail("");
  try {
    const result = await call(role, args);
    const graded = state.card;
    view.adopt(result);
    view.show();
    main.querySelector("button")?.focus();
    if (role === "submit") report(graded, args.grade);
  } catch (error) {
    fail(error);
  }
  state.busy = false;
  main.removeAttribute("aria-busy");
}

// report tells the model what happened on the card, if the host passes that on.
function report(card, grade) {
  if (!host.updateModelContext) return;
  const next = state.card ? " The card shows the next question: " + state.card.question : " Nothing is left to review now.";
  const text = `On the review card, the person graded this as ${grade}: ${card.question}.${next}`;
  request("ui/update-model-context", { content: [{ type: "text", text }] }).catch(() => {});
}

const filter = () => Object.fromEntries(["deck", "tag"].filter(n => view.args[n]).map(n => [n, view.args[n]]));

function reveal() {
  state.took = Math.min(Math.round(performance.now() - state.shownAt), 3600000);
  act("reveal", { knowledge_point_id: state.card.knowledge_point_id });
}

function submit(grade) {
  const args = { knowledge_point_id: state.card.knowledge_point_id, grade, review_id: state.review, ...filter() };
  if (state.card.schedule_id) args.schedule_id = state.card.schedule_id;
  if (state.took) args.took_ms = state.took;
  act("submit", args);
}

function gradeButtons() {
  const names = { again: t("Again"), hard: t("Hard"), good: t("Good"), easy: t("Easy") };
  const buttons = Object.entries(names).map(([grade, name]) => el("button", { type: "button", onclick: () => submit(grade) },
    name, el("small", {}, String(state.grades[grade] || ""))));
  return el("fieldset", { className: "row grades" }, el("legend", {}, t("How well did you know it?")), ...buttons);
}

function button(name, role, onclick) {
  return can(role) ? el("div", { className: "row" }, el("button", { type: "button", className: "main", onclick }, name)) : null;
}

view.show = () => {
  const card = state.card, left = state.left, parts = [];
  if (state.text) parts.push(el("p", { className: "text" }, state.text));
  else if (!card) {
    parts.push(el("p", {}, t("Nothing is left to review now.")), button(t("Look again"), "next", () => act("next", filter())));
  } else {
    parts.push(el("h1", {}, t("Question")), el("p", { className: "text" }, String(card.question)));
    if (state.answer === null) parts.push(button(t("Show the answer"), "reveal", reveal));
    else {
      parts.push(el("h2", {}, t("Answer")), el("p", { className: "text" }, state.answer));
      if (can("submit")) parts.push(gradeButtons());
    }
    const counts = [card.deck && String(card.deck)];
    if (left) counts.push(t("Left today") + ": " + (left.new + left.learning + left.review));
    parts.push(el("p", { className: "soft" }, counts.filter(Boolean).join(" · ")));
  }
  main.setAttribute("aria-live", "polite");
  main.replaceChildren(...[...parts, noCalls()].filter(p => p !== null));
};
