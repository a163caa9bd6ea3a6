// Times and numbers as people read them. Charts and tables show universal time.

/** A time in nanoseconds, as text, in a form that the chart understands. @param {string} ticks */
export function moment(ticks) {
  return new Date(Number(BigInt(ticks) / 1_000_000n)).toISOString();
}

/**
 * A time of the service (with an offset, with Z, or without a zone) or of the chart, in ISO form.
 * @param {number | string} when
 */
export function instant(when) {
  const text = String(when).replace(" ", "T");
  const zoned = /(Z|[+-]\d\d:\d\d)$/.test(text);
  return new Date(zoned ? text : `${text}${text.includes("T") ? "" : "T00:00"}Z`).toISOString();
}

/** How the service is asked for it: times without a zone stay without. @param {number | string} when @param {boolean} zoned */
export function asked(when, zoned) {
  const text = instant(when).replace(/(:00)?\.000Z$/, "Z");
  return zoned ? text : text.replace("Z", "");
}

/** As people write it: without parts that are 0. @param {number | string} when */
export function said(when) {
  return instant(when).replace("T", " ").replace(/(:00)?\.\d+Z$/, "");
}

/** @param {number | null | undefined} number @param {number} [digits] */
export function shown(number, digits = 6) {
  return number === null || number === undefined ? "—" : number.toLocaleString("en", { maximumSignificantDigits: digits });
}

/**
 * An estimate and the ends of its interval, with as many digits as the interval tells.
 * @param {number} estimate @param {number | null} low @param {number | null} high
 */
export function interval(estimate, low, high) {
  const ends = [low ?? estimate, high ?? estimate];
  const width = Math.max(ends[1] - ends[0], Math.abs(estimate) * 1e-9, 1e-12);
  const step = 10 ** (Math.floor(Math.log10(width)) - 2); // three digits of the width
  const rounded = (/** @type {number | null} */ one) => {
    if (one === null) return null;
    const places = Math.max(0, Math.min(12, -Math.round(Math.log10(step))));
    return (Math.round(one / step) * step).toLocaleString("en", { maximumFractionDigits: places });
  };
  return { middle: rounded(estimate), low: rounded(low), high: rounded(high) };
}
