// What the page asks of the daemon. Addresses are relative, so that the page
// works under any prefix.

const patience = 15_000; // ms until a request counts as unanswered

async function get(path, parameters) {
  const address = parameters ? `${path}?${new URLSearchParams(parameters)}` : path;
  let answer;
  try {
    answer = await fetch(address, { signal: AbortSignal.timeout(patience), headers: { Accept: "application/json" } });
  } catch (e) {
    throw new Error(e.name === "TimeoutError" ? `kvwatch did not answer within ${patience / 1000} s` : "kvwatch cannot be reached", { cause: e });
  }
  let body;
  try {
    body = await answer.json();
  } catch (e) {
    throw new Error(`kvwatch answered ${answer.status} and not in JSON`, { cause: e });
  }
  if (body.status !== "success") throw new Error(body.error ?? `kvwatch answered ${answer.status}`);
  return body.data;
}

// post sends a change, and returns what the daemon says of it.
async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST", signal: AbortSignal.timeout(patience), body: body && JSON.stringify(body),
    headers: body ? { "Content-Type": "application/json" } : {},
  });
  const text = (await answer.text()).trim();
  if (!answer.ok) throw new Error(text || `kvwatch answered ${answer.status}`);
  return text;
}

// accept takes what a pool's cache does now as its new normal.
export const accept = (pool) => post(`api/v1/kvwatch/accept?${new URLSearchParams({ pool })}`);

// mark tells of a deploy, of maintenance, or of something to note.
export const mark = (event) => post("api/v1/kvwatch/events", event);

// explain asks where the detectors of an alert stand, with their last hours.
export const explain = (alert, labels) => get("api/v1/kvwatch/explain", { alert, ...labels });

// fleet asks for everything that the page shows now.
export const fleet = () => get("api/v1/kvwatch/fleet");

// queryRange asks for series over time. The step never exceeds 300 points. The
// look-back is short, so that a gap in the data is a gap in the line.
export async function queryRange(query, window, interval) {
  const step = Math.max(Math.ceil(interval), Math.ceil(window.seconds / 300));
  const end = Math.floor(window.end / step) * step;
  const data = await get("api/v1/query_range", {
    query, start: end - Math.floor(window.seconds / step) * step, end, step, lookback_delta: `${Math.ceil(interval * 2.5)}s`,
  });
  return { step, end, series: data.result };
}

// query asks for the present value of series.
export async function query(expression, at) {
  return (await get("api/v1/query", { query: expression, time: at })).result;
}
