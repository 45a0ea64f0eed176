// Finding the tokens of highest entropy.
function nextPivotal(s, t, direction, within) {
  const order = within ? [s] : groups.flatMap((group) => group.members).filter(isShown);
  let place = order.indexOf(s);
  if (place < 0) { place = direction > 0 ? 0 : order.length - 1; t = direction > 0 ? -1 : Infinity; }
  for (; place >= 0 && place < order.length; place += direction) {
    const at = order[place], count = page.sequences[at].tokens;
    for (let k = Math.min(t, count) + direction; k >= 0 && k < count; k += direction) {
      if (flags[starts[at] + k] & PIVOTAL) return [at, k];
    }
    t = direction > 0 ? -1 : Infinity;
  }
  return null;
}

function jump(direction) {
  const [s, t] = state.cursor ?? [-1, 0];
  const found = nextPivotal(s, t, direction, false);
  if (found !== null) moveCursor(...found, true);
}

// The pieces that are pivotal most often, with how often they are, and their mean numbers.
function mostFrequent(limit) {
  const found = new Map();
  page.pieces.forEach((pieces, s) => pieces.forEach((piece, t) => {
    const i = starts[s] + t;
    if (!written(i)) return;
    if (!found.has(piece)) found.set(piece, { piece, uses: 0, pivotal: 0, entropy: 0, advantage: 0 });
    const row = found.get(piece);
    row.uses++;
    if (!(flags[i] & PIVOTAL)) return;
    row.pivotal++;
    row.entropy += numbers.entropy[i];
    row.advantage += numbers.advantage[i];
  }));
  return [...found.values()].filter((row) => row.pivotal > 0)
    .sort((a, b) => b.pivotal - a.pivotal || (a.piece < b.piece ? -1 : 1)).slice(0, limit);
}

function fillTable() {
  const head = ["token", "pivotal", "of its uses", "mean entropy there", "mean advantage there"];
  const body = mostFrequent(40).map((row) => element(
    "tr", {},
    element("td", {}, visible(row.piece)),
    element("td", {}, String(row.pivotal)),
    element("td", {}, ((100 * row.pivotal) / row.uses).toFixed(0) + " %"),
    element("td", {}, show(row.entropy / row.pivotal)),
    element("td", {}, signed(row.advantage / row.pivotal)),
  ));
  document.getElementById("table").replaceChildren(element(
    "table", {},
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...body),
  ));
}
