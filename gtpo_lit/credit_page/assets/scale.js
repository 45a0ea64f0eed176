// From a number to one of a few classes, whose colours page.css has.
const STEPS = 8;

function quantile(sorted, q) {
  return sorted.length ? sorted[Math.round(q * (sorted.length - 1))] : NaN;
}

// Bounds of the colours: 0 to the 99th percentile, or of each sign from its 1st to its 99th.
function scaleOf(measure) {
  const kept = [[], []];
  for (let i = 0; i < total; i++) {
    const value = measure.values[i];
    if (written(i) && Number.isFinite(value) && value !== 0) kept[value < 0 ? 1 : 0].push(Math.abs(value));
  }
  const [up, down] = kept.map((values) => Float64Array.from(values).sort());
  if (measure.signed && measure.stretch) {
    return { p: [quantile(up, 0.01), quantile(up, 0.99)], n: [quantile(down, 0.01), quantile(down, 0.99)] };
  }
  const all = Float64Array.from([...up, ...(measure.signed ? down : [])]).sort();
  const high = quantile(all, 0.99);
  return { p: [0, high], n: [0, high] };
}

function step(value, [low, high]) {
  const place = high > low ? (value - low) / (high - low) : 0.5;
  return Math.max(1, Math.min(STEPS, Math.ceil(place * STEPS)));
}

function classOf(measure, scale, i) {
  const value = measure.values[i];
  if (!written(i) || !Number.isFinite(value)) return "x";
  if (!measure.signed) return "s" + (value > 0 ? step(value, scale.p) : 0);
  if (value === 0) return "z";
  const sign = value < 0 ? "n" : "p";
  return sign + step(Math.abs(value), scale[sign]);
}

// The steps with the number at which each ends; the last one holds everything beyond.
function drawLegend(measure, scale) {
  const legend = document.getElementById("legend");
  const row = element("div", { class: "scale" });
  const add = (name, sample, label) =>
    row.append(element("span", { class: "step" }, element("i", { class: name }, sample), label));
  const ends = ([low, high], k) => low + ((high - low) * k) / STEPS;
  const side = (sign, order, factor) => {
    if (!Number.isFinite(scale[sign][1])) return;
    for (const k of order) {
      const value = factor * ends(scale[sign], k);
      add(sign + k, factor < 0 ? "\u2212ab" : "+ab", plus(brief(value)));
    }
  };
  if (measure.signed) {
    side("n", [8, 6, 4, 2], -1);
    add("z", "ab", "0");
    side("p", [2, 4, 6, 8], 1);
  } else {
    add("s0", "ab", "0");
    for (const k of [2, 4, 6, 8]) add("s" + k, "ab", brief(ends(scale.p, k)));
  }
  add("x", "ab", "none");
  const how = measure.signed
    ? " Positive: blue, solid underline. Negative: orange, dotted underline."
    : " Darker is more.";
  const unit = measure.unit ? ` In ${measure.unit}.` : "";
  const note = measure.note + how + unit + " A boxed, bold token is pivotal.";
  legend.replaceChildren(row, element("span", { class: "note" }, note));
  legend.setAttribute("aria-label", `Colours by ${measure.label}: ${note}`);
}
