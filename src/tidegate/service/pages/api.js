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
 * was seen last. (EventSource could not send the token.)
 * @param {string} path
 * @param {number} position
 * @param {(data: any) => void} told
 * @param {(connected: boolean) => void} state
 * @param {AbortSignal} signal
 */
export async function follow(path, position, told, state, signal) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const seen = { "Last-Event-ID": String(position) };
      const response = await fetch(path, { headers: headers(seen), signal });
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
          const id = /^id: (\d+)$/m.exec(event);
          if (id) position = Number(id[1]);
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
