// A picture of a board's camera with what was said about it.
const state = { picture: "", text: "", busy: false };
const pictures = ["image/jpeg", "image/png", "image/webp", "image/gif"];

view.adopt = result => {
  const p = blocks(result).find(b => b.type === "image" && pictures.includes(b.mimeType) && /^[A-Za-z0-9+/=]+$/.test(b.data));
  state.picture = p ? `data:${p.mimeType};base64,${p.data}` : "";
  const d = dataOf(result);
  const said = [d.result, d.message, d.text].find(v => typeof v === "string");
  state.text = said === undefined ? textOf(result) : said;
};

async function again(question) {
  if (state.busy) return;
  state.busy = true;
  main.setAttribute("aria-busy", "true");
  fail("");
  try {
    view.args = { ...view.args, question };
    view.adopt(await call("photo", view.args));
    view.show();
    main.querySelector("button")?.focus();
  } catch (error) {
    fail(error);
  }
  state.busy = false;
  main.removeAttribute("aria-busy");
}

view.show = () => {
  const parts = [config.title ? el("h1", {}, config.title) : null];
  if (state.picture) parts.push(el("img", { src: state.picture, alt: state.text || t("Picture of the board's camera") }));
  else parts.push(el("p", {}, t("The board sent no picture.")));
  const said = el("p", { className: "text" }, state.text);
  said.setAttribute("aria-live", "polite");
  parts.push(said);
  if (can("photo")) {
    const input = el("input", { type: "text", id: "question", maxLength: 500, value: String(view.args.question || "") });
    input.onkeydown = event => { if (event.key === "Enter" && !event.isComposing) again(input.value); };
    parts.push(el("h2", {}, el("label", { htmlFor: "question" }, t("Question about the picture"))), input,
      el("div", { className: "row" }, el("button", { type: "button", className: "main", onclick: () => again(input.value) },
        t("Take another picture"))));
  }
  main.replaceChildren(...[...parts, noCalls()].filter(p => p !== null));
};
