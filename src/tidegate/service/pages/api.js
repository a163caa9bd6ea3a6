// The service's interface, with the token of this tab.

const STORED = "tidegate token";

/** What the service answered instead of what was asked for. */
export class Problem extends Error {
  /** @param {number} status @param {string} detail */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** @returns {string | null} */
export function token() {
  return sessionStorage.getItem(STORED);
}

/** @param {string | null} value */
export function keepToken(value) {
  if (value) sessionStorage.setItem(STORED, value);
  else sessionStorage.removeItem(STORED);
}

/** @param {Record<string, string>} [more] @returns {Record<string, string>} */
function headers(more = {}) {
  const known = token();
  return known ? { ...more, Authorization: `Bearer ${known}` } : more;
}

/** @param {Response} response @returns {Promise<any>} */
async function answered(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, body.detail ?? response.statusText);
  return body;
}

/** @param {string} path @param {Record<string, string | number>} [query] @returns {Promise<any>} */
export async function get(path, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  const url = asked.size ? `${path}?${asked}` : path;
  return answered(await fetch(url, { headers: headers() }));
}

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export async function post(path, body) {
  const type = { "Content-Type": "application/json" };
  return answered(
    await fetch(path, { method: "POST", headers: headers(type), body: JSON.stringify(body) }),
  );
}

/**
 * Follow a stream of events until `signal` says stop; reconnects by itself, after the event that
 * was seen last. (EventSource could not send the token.) Ends when a new epoch of the stream has
 * begun: its positions begin at 0.
 * @param {string} path
 * @param {(data: any) => void} told
 * @param {(connected: boolean) => void} state
 * @param {() => void} renewed a new epoch has begun
 * @param {AbortSignal} signal
 */
export async function follow(path, told, state, renewed, signal) {
  let wait = 500;
  /** @type {string | null} */ let seen = null;
  while (!signal.aborted) {
    try {
      const response = await fetch(path, { headers: headers(seen === null ? {} : { "Last-Event-ID": seen }), signal });
      if (!response.ok || !response.body) throw new Problem(response.status, response.statusText);
      state(true);
      wait = 500;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop() ?? "";
        for (const event of events) {
          const data = /^data: (.*)$/m.exec(event);
          const id = /^id: (\d+(?:@\d+)?)$/m.exec(event);
          if (id && seen !== null && epoch(id[1]) !== epoch(seen)) return renewed();
          if (id) seen = id[1];
          if (data) told(JSON.parse(data[1]));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
    }
    if (signal.aborted) return;
    state(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(2 * wait, 10_000);
  }
}

/** The epoch in the id of an event: `500` is of the first, `500@2` of the second. @param {string} id */
function epoch(id) {
  return id.split("@")[1] ?? "1";
}
