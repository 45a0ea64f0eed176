// The numbers of one token, at the foot of the page.
const state = { name: "", measure: null, scale: null, side: "all", group: "all", cursor: null };

function rows(s, i) {
  const at = (name) => (numbers[name] === null ? null : numbers[name][i]);
  const list = [];
  for (const [name, measure] of Object.entries(measures)) {
    const value = measure.values === null ? "not recorded" : write(measure, measure.values[i]);
    list.push([name, measure.label, value, Number.isFinite(measure.values?.[i]) ? measure.unit : ""]);
  }
  list.push(["logp", "log-prob, trainer", at("logp"), "nats"]);
  if (numbers.logp_sampler !== null) list.push(["logp_sampler", "log-prob, sampler", at("logp_sampler"), "nats"]);
  if (numbers.logp_ref !== null) list.push(["logp_ref", "log-prob, reference", at("logp_ref"), "nats"]);
  const sequence = page.sequences[s];
  list.push(["reward", "reward of the response", sequence.reward, ""]);
  if (sequence.penalty !== null) list.push(["penalty", "length penalty", sequence.penalty, ""]);
  return list;
}

function inspect(s, t) {
  document.getElementById("token").className = "";
  const i = starts[s] + t, sequence = page.sequences[s];
  const notes = [`id ${ids[i]}`, `token ${t + 1} of ${sequence.tokens}`];
  notes.push(sequence.correct ? "\u2713 right" : "\u2717 wrong");
  if (flags[i] & PIVOTAL) notes.push("pivotal");
  if (!written(i)) notes.push("not written by the policy");
  else if (!(flags[i] & LEARNED)) notes.push("no gradient");
  document.getElementById("token").replaceChildren(
    element("b", {}, visible(page.pieces[s][t])),
    element("p", {}, notes.join(", ")),
    element("p", {}, `${sequence.problem}, group ${sequence.group}, sample ${sequence.sample}`),
  );
  const entries = rows(s, i).map(([name, label, value, unit]) =>
    element(
      "div", { class: name === state.name ? "current" : "" },
      element("dt", {}, label),
      element("dd", { "data-number": name }, show(value) + (unit ? " " + unit : "")),
    ));
  document.getElementById("numbers").replaceChildren(...entries);
}

function explain() {
  document.getElementById("token").className = "hint";
  document.getElementById("token").replaceChildren(
    element("b", {}, "Point at a token"),
    element("p", {}, "or walk: Tab to a response, then the arrow keys, Home, End; n and p go to the next and previous pivotal token."),
  );
}
