// The functions that printed expressions call: whole numbers are BigInt, shapes arrays of them.

const ceil_div = (top, bottom) => -floor_div(-top, bottom);

function floor_div(top, bottom) {
  const quotient = top / bottom;
  return top % bottom !== 0n && top < 0n !== bottom < 0n ? quotient - 1n : quotient;
}

const mod = (x, n) => x - n * floor_div(x, n);

const maximum = (...values) => values.reduce((a, b) => (a < b ? b : a));

const minimum = (...values) => values.reduce((a, b) => (a < b ? a : b));

const bit_length = (x) => (x === 0n ? 0n : BigInt((x < 0n ? -x : x).toString(2).length));

const pow2 = (x) => 1n << bit_length(maximum(x - 1n, 0n));

const pow2_floor = (x) => (x > 0n ? 1n << (bit_length(x) - 1n) : 0n);

const rank = (shape) => BigInt(shape.length);

const axis = (shape, index) => shape.at(Number(index));

const elements = (shape) => shape.reduce((a, b) => a * b, 1n);

const least_axis = (shape) => (shape.length ? minimum(...shape) : 1n);

const greatest_axis = (shape) => (shape.length ? maximum(...shape) : 1n);

function same_shape(shape, parts) {
  const whole = parts.flat();
  return shape.length === whole.length && shape.every((size, i) => size === whole[i]);
}

function broadcastable(first, second) {
  const [a, b] = [[...first].reverse(), [...second].reverse()];
  return a.slice(0, b.length).every((size, i) => size === b[i] || size === 1n || b[i] === 1n);
}

const one_of = (word, words) => words.includes(word);

const real = Number;

const power = Math.pow;

const ln = (x, otherwise) => (x > 0 ? Math.log(x) : otherwise);
