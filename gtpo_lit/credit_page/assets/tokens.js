// How a token's text is shown: as text, with what cannot be seen made visible.
const LONGEST = 2000;
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const UNSEEN = /[\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;
const PICTURE = /\p{Extended_Pictographic}/u;

function named(character) {
  return "[U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "]";
}

function visible(piece) {
  if (piece === "") return "\u00b7"; // a part of the next token's character
  let text = piece.length > LONGEST ? piece.slice(0, LONGEST) : piece;
  // Joiners belong to emoji; direction marks never do.
  text = text.replace(PICTURE.test(text) ? BIDI : UNSEEN, named);
  text = text.replace(/\n/g, "\u21b5\n").replace(/\t/g, "\u21e5\t");
  text = text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)));
  text = text.replace(/\u007f/g, "\u2421");
  if (piece.length > LONGEST) text += `\u2026 [${piece.length - LONGEST} more characters]`;
  return text;
}

// Spans of all tokens of a sequence; their order is their position.
function spansOf(s) {
  const all = document.createDocumentFragment();
  page.pieces[s].forEach((piece, t) => {
    const span = document.createElement("span");
    span.textContent = visible(piece);
    span.dataset.t = t;
    all.append(span);
  });
  return all;
}

function paint(s, spans) {
  const { measure, scale } = state;
  for (let t = 0; t < spans.length; t++) {
    const i = starts[s] + t;
    let name = classOf(measure, scale, i);
    if (flags[i] & PIVOTAL) name += " pivotal";
    if (state.cursor !== null && state.cursor[0] === s && state.cursor[1] === t) name += " cursor";
    spans[t].className = name;
  }
}
