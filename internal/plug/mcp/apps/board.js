// The controls of a board. Each calls the board's own tool.
const state = { volume: null, brightness: null, theme: null, facts: [], read: false };
const controls = {};

view.adopt = result => {
  const d = dataOf(result);
  if (!d.audio_speaker && !d.screen && !d.battery && !d.network) {
    if (!state.read) refresh(); // the result of a tool that changes something
    return;
  }
  state.read = true;
  const number = v => Number.isFinite(v) ? v : null;
  state.volume = number(d.audio_speaker?.volume);
  state.brightness = number(d.screen?.brightness);
  state.theme = d.screen?.theme ? String(d.screen.theme) : null;
  state.facts = [];
  if (Number.isFinite(d.battery?.level)) {
    state.facts.push(t("Battery") + ": " + d.battery.level + " %" + (d.battery.charging ? ", " + t("Charging") : ""));
  }
  if (d.network) {
    const parts = ["type", "ssid", "signal"].map(n => d.network[n]).filter(Boolean).map(String);
    state.facts.push(t("Network") + ": " + parts.join(", "));
  }
};

async function refresh() {
  if (!can("status")) return;
  try {
    const result = await call("status", {});
    fail("");
    state.read = true;
    view.adopt(result);
    view.show();
  } catch (error) {
    fail(error);
  }
}

// set sets a value. While a call runs, only the last of further values is kept: a board does one
// thing after the other.
async function set(role, value) {
  const c = controls[role] ||= {};
  c.wanted = value;
  if (c.busy) return;
  c.busy = true;
  while (c.wanted !== undefined) {
    const now = c.wanted;
    c.wanted = undefined;
    try {
      await call(role, { [role]: now });
      state[role] = now;
      fail("");
    } catch (error) {
      fail(error);
    }
  }
  c.busy = false;
  view.show();
}

function slider(role, name) {
  if (!can(role) && state[role] === null) return null;
  const output = el("output", { htmlFor: role });
  const input = el("input", { type: "range", id: role, min: 0, max: 100, step: 1, disabled: !can(role) });
  input.oninput = () => { output.value = input.value + " %"; };
  input.onchange = () => set(role, Number(input.value));
  controls[role] = { ...controls[role], show() {
    if (state[role] === null || this.busy) return;
    input.value = state[role];
    output.value = state[role] + " %";
  } };
  return el("div", { className: "control" }, el("label", { htmlFor: role }, name), output, input);
}

function themes() {
  if (!can("theme")) return null;
  const buttons = [["light", t("Light")], ["dark", t("Dark")]].map(([theme, name]) =>
    el("button", { type: "button", value: theme, onclick: () => set("theme", theme) }, name));
  controls.theme = { ...controls.theme, show() {
    for (const b of buttons) b.setAttribute("aria-pressed", String(b.value === state.theme));
  } };
  return el("fieldset", { className: "row" }, el("legend", {}, t("Theme")), ...buttons);
}

// The elements stay while values change, so that the focus stays too; a new language makes new ones.
let language = null, facts = null;
view.show = () => {
  if (language !== texts) {
    language = texts;
    facts = el("p", { className: "soft" });
    facts.setAttribute("aria-live", "polite");
    const again = can("status") ? el("div", { className: "row" },
      el("button", { type: "button", onclick: refresh }, t("Ask the board again"))) : null;
    const parts = [config.title ? el("h1", {}, config.title) : null, facts, slider("volume", t("Volume")),
      slider("brightness", t("Brightness")), themes(), again, noCalls()];
    main.replaceChildren(...parts.filter(p => p !== null));
  }
  facts.textContent = state.facts.join(" · ");
  for (const c of Object.values(controls)) c.show?.();
};
