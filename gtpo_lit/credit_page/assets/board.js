// Groups side by side; the tokens of a response are drawn once it comes near the window.
const board = document.getElementById("board");
const cards = [];

const nearby = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) fill(cards[entry.target.dataset.s]);
}, { rootMargin: "300px" });

function fill(card) {
  if (card.filled) return;
  card.filled = true;
  nearby.unobserve(card.text);
  card.text.replaceChildren(spansOf(card.s));
  card.text.style.minHeight = "";
  paint(card.s, card.text.children);
}

function repaint() {
  for (const card of cards) if (card.filled) paint(card.s, card.text.children);
}

function makeCard(s) {
  const sequence = page.sequences[s];
  const outcome = sequence.correct ? "\u2713 right" : "\u2717 wrong";
  const header = element("header", {}, element("h3", {}, `${outcome}, sample ${sequence.sample}`));
  const facts = [`reward ${brief(sequence.reward)}`, `${sequence.tokens} tokens`];
  if (sequence.truncated) facts.push("cut by the limit");
  if (sequence.penalty) facts.push(`penalty ${brief(sequence.penalty)}`);
  if (known(measures.entropy)) facts.push(`mean entropy ${brief(mean(numbers.entropy, starts[s], sequence.tokens))}`);
  facts.push(`mean advantage ${plus(brief(mean(numbers.advantage, starts[s], sequence.tokens)))}`);
  header.append(...facts.map((fact) => element("span", {}, fact)));
  const text = element("div", {
    class: "text", tabindex: "0", role: "group", "data-s": s,
    "aria-label": `Response: ${outcome}, ${sequence.tokens} tokens. Arrow keys walk over its tokens.`,
  });
  const letters = page.pieces[s].reduce((sum, piece) => sum + piece.length + (piece.includes("\n") ? 20 : 0), 0);
  text.style.minHeight = Math.ceil(Math.min(letters, 200000) / 48) * 1.55 + 1 + "rem";
  const side = sequence.correct ? "right" : "wrong";
  const card = { s, side, text, filled: false, box: element("article", { class: `card ${side}` }, header, text) };
  cards[s] = card;
  return card.box;
}

function makeGroup(group, members) {
  const first = page.sequences[members[0]];
  const right = members.filter((s) => page.sequences[s].correct).length;
  const prompt = element("details", {}, element("summary", {}, "Prompt"));
  prompt.addEventListener("toggle", () => {
    if (prompt.children.length === 1) prompt.append(element("pre", {}, visibleText(page.prompts[first.prompt])));
  });
  const facts = `${right} of ${members.length} right` + (first.reference ? `; reference answer: ${first.reference}` : "");
  const box = element(
    "section", { class: "group", "data-group": group },
    element("header", {}, element("h2", {}, first.problem), element("p", {}, facts), prompt),
    element("div", { class: "cards" }, ...members.map(makeCard)),
  );
  return { group, members, box, label: `${first.problem} (${right}/${members.length} right)` };
}

// Long texts outside tokens: direction marks are named there, too.
function visibleText(text) {
  return text.replace(BIDI, named);
}

const byGroup = new Map();
page.sequences.forEach((sequence, s) => {
  if (!byGroup.has(sequence.group)) byGroup.set(sequence.group, []);
  byGroup.get(sequence.group).push(s);
});
const groups = [...byGroup].map(([group, members]) => makeGroup(group, members));
board.append(...groups.map((group) => group.box));
for (const card of cards) nearby.observe(card.text);

function isShown(s) {
  const sequence = page.sequences[s];
  return (state.side === "all" || cards[s].side === state.side)
    && (state.group === "all" || String(sequence.group) === state.group);
}

function filter() {
  let count = 0;
  for (const card of cards) {
    card.box.hidden = !isShown(card.s);
    count += card.box.hidden ? 0 : 1;
  }
  for (const { members, box } of groups) box.hidden = !members.some(isShown);
  board.classList.toggle("single", state.group !== "all");
  document.getElementById("shown").textContent = `${count} of ${cards.length} responses shown`;
}

function moveCursor(s, t, scroll) {
  const before = state.cursor;
  state.cursor = [s, t];
  fill(cards[s]);
  if (before !== null) cards[before[0]].text.children[before[1]]?.classList.remove("cursor");
  const span = cards[s].text.children[t];
  span.classList.add("cursor");
  if (scroll) span.scrollIntoView({ block: "center", inline: "nearest" });
  inspect(s, t);
}
