// The step's data as typed arrays; token k of sequence s is at starts[s] + k in all of them.
const page = JSON.parse(document.getElementById("data").textContent);

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

const ids = new Int32Array(bytes(page.ids).buffer);
const flags = bytes(page.flags);
const WRITTEN = 1, LEARNED = 2, PIVOTAL = 4;
const starts = [];
let total = 0;
for (const sequence of page.sequences) {
  starts.push(total);
  total += sequence.tokens;
}

const numbers = {};
for (const [name, text] of Object.entries(page.numbers)) {
  numbers[name] = text === null ? null : new Float32Array(bytes(text).buffer);
}

function difference(first, second) {
  if (first === null || second === null) return null;
  return first.map((value, i) => value - second[i]);
}

// What a token can be coloured by. `signed` ones diverge from 0.
const measures = {
  entropy: {
    label: "entropy", unit: "nats", values: numbers.entropy, signed: false,
    note: "Full-vocabulary entropy of the policy that sampled.",
  },
  shaped: {
    label: "shaped reward", unit: "", values: numbers.shaped, signed: true, stretch: true,
    note: "Reward after dynamic entropy weighting, before penalties and normalisation.",
  },
  advantage: {
    label: "advantage", unit: "", values: numbers.advantage, signed: true, stretch: false,
    note: "What the token's log-prob is pushed up or down by.",
  },
  sampler: {
    label: "log-ratio to sampler", unit: "nats", signed: true, stretch: false,
    values: difference(numbers.logp, numbers.logp_sampler),
    note: "Log-prob under the trainer's policy minus the one that the sampling engine told.",
  },
  reference: {
    label: "log-ratio to reference", unit: "nats", signed: true, stretch: false,
    values: difference(numbers.logp, numbers.logp_ref),
    note: "Log-prob under the policy that sampled minus the one under the reference.",
  },
};

function written(i) { return (flags[i] & WRITTEN) !== 0; }
function known(measure) {
  return measure.values !== null && measure.values.some((v, i) => written(i) && Number.isFinite(v));
}

function show(value) {
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return "not known";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 100000)) return value.toExponential(3);
  return value.toFixed(4);
}
function brief(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : String(value);
}
function plus(text) { return Number(text) > 0 ? "+" + text : text; }
function signed(value) { return value > 0 ? "+" + show(value) : show(value); }
function write(measure, value) { return measure.signed ? signed(value) : show(value); }

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children); // strings become text nodes, whatever they hold
  return made;
}

// The mean of an array over a stretch, over the tokens that the policy wrote.
function mean(values, start, count) {
  let sum = 0, n = 0;
  for (let i = start; i < start + count; i++) if (written(i)) { sum += values[i]; n++; }
  return n ? sum / n : NaN;
}
