// The switches, the pointer and the keys.
function choose(name) {
  state.name = name;
  state.measure = measures[name];
  state.scale = scaleOf(state.measure);
  const stretch = document.getElementById("stretch");
  stretch.parentElement.hidden = !state.measure.signed;
  stretch.checked = state.measure.signed && state.measure.stretch;
  drawLegend(state.measure, state.scale);
  repaint();
  if (state.cursor !== null) inspect(...state.cursor);
}

function tokenAt(target) {
  const span = target.closest?.(".text > span");
  return span ? [Number(span.parentElement.dataset.s), Number(span.dataset.t)] : null;
}

function walk(event) {
  const text = event.target.closest?.(".text");
  if (!text || event.ctrlKey || event.metaKey || event.altKey) return;
  const s = Number(text.dataset.s), last = page.sequences[s].tokens - 1;
  if (last < 0) return;
  const t = state.cursor !== null && state.cursor[0] === s ? state.cursor[1] : 0;
  const moves = {
    ArrowRight: t + 1, ArrowLeft: t - 1, ArrowDown: t + 10, ArrowUp: t - 10,
    PageDown: t + 100, PageUp: t - 100, Home: 0, End: last,
    n: nextPivotal(s, t, 1, true)?.[1] ?? t, p: nextPivotal(s, t, -1, true)?.[1] ?? t,
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  moveCursor(s, Math.max(0, Math.min(last, moves[event.key])), true);
}

function describe() {
  const { about, sequences } = page;
  const right = sequences.filter((sequence) => sequence.correct).length;
  document.getElementById("summary").textContent =
    `${groups.length} groups, ${sequences.length} responses (${right} right), ${total} tokens, temperature ${about.temperature}`;
  const list = document.querySelector("#settings dl");
  for (const [name, value] of Object.entries({ algorithm: about.algorithm, ...about.settings })) {
    list.append(element("dt", {}, name), element("dd", {}, typeof value === "string" ? value : JSON.stringify(value)));
  }
  const select = document.getElementById("group");
  select.append(element("option", { value: "all" }, "all, side by side"));
  for (const { group, label } of groups) select.append(element("option", { value: group }, label.slice(0, 80)));
}

function offer() {
  const box = document.getElementById("measures");
  for (const [name, measure] of Object.entries(measures)) {
    const input = element("input", { type: "radio", name: "measure", value: name });
    input.disabled = !known(measure);
    const label = element("label", {}, input, element("span", {}, measure.label));
    if (input.disabled) label.title = "not recorded in this step";
    input.addEventListener("change", () => choose(name));
    box.append(label);
  }
  const pivotal = flags.some((flag) => flag & PIVOTAL);
  for (const id of ["mark", "next", "previous", "frequent"]) document.getElementById(id).disabled = !pivotal;
}

function listen() {
  for (const input of document.querySelectorAll("input[name=side]")) {
    input.addEventListener("change", () => { state.side = input.value; filter(); });
  }
  document.getElementById("group").addEventListener("change", (event) => {
    state.group = event.target.value;
    filter();
    window.scrollTo(0, 0);
  });
  const mark = document.getElementById("mark");
  const update = () => board.classList.toggle("mark", mark.checked);
  mark.addEventListener("change", update);
  update();
  document.getElementById("stretch").addEventListener("change", (event) => {
    state.measure.stretch = event.target.checked;
    choose(state.name);
  });
  document.getElementById("next").addEventListener("click", () => jump(1));
  document.getElementById("previous").addEventListener("click", () => jump(-1));
  document.getElementById("frequent").addEventListener("click", (event) => {
    const table = document.getElementById("table");
    table.hidden = !table.hidden;
    event.currentTarget.setAttribute("aria-expanded", String(!table.hidden));
    if (!table.hidden && !table.children.length) fillTable();
  });
  board.addEventListener("mouseover", (event) => {
    const found = tokenAt(event.target);
    if (found) inspect(...found);
  });
  board.addEventListener("click", (event) => {
    const found = tokenAt(event.target);
    if (found) moveCursor(...found, false);
  });
  board.addEventListener("keydown", walk);
  board.addEventListener("focusin", (event) => {
    const text = event.target.closest?.(".text");
    if (!text || !text.matches(":focus-visible")) return;
    const s = Number(text.dataset.s);
    if (page.sequences[s].tokens && state.cursor?.[0] !== s) moveCursor(s, 0, false);
  });
}

describe();
offer();
listen();
const first = Object.keys(measures).find((name) => known(measures[name]));
document.querySelector(`input[name=measure][value=${first ?? "advantage"}]`).checked = true;
choose(first ?? "advantage");
filter();
explain();
// After the first tokens are on the screen.
requestAnimationFrame(() => setTimeout(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}));
