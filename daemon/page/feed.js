// Server-sent events, read with fetch: unlike EventSource it can send the daemon's token.

const RETRY_MS = 1000;
// The daemon sends a frame every second: a connection that is silent for so long is dead.
const SILENCE_MS = 8000;
const STORED = "ostard-token";

/** Headers of a request to the daemon. */
export function headers() {
  const token = sessionStorage.getItem(STORED);
  return token ? { authorization: `Bearer ${token}` } : {};
}

/**
 * Calls `on.hello`, `on.frame` and `on.picture` with the daemon's events, and reconnects for ever. Calls `on.lost` when the
 * daemon cannot be reached, and `on.token(wasWrong)`, which resolves to a token, when it asks for one.
 */
export async function follow(on) {
  for (;;) {
    const gone = new AbortController();
    try {
      const answer = await fetch("page/events", { headers: headers(), cache: "no-store", signal: gone.signal });
      if (answer.status === 401) {
        const wrong = sessionStorage.getItem(STORED) !== null;
        sessionStorage.setItem(STORED, await on.token(wrong));
        continue;
      }
      if (!answer.ok) {
        throw new Error(await answer.text());
      }
      await read(answer.body, on, gone);
      on.lost("the daemon has stopped");
    } catch (problem) {
      on.lost(problem instanceof TypeError ? "the daemon does not answer" : problem.message);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function read(body, on, gone) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const silence = setTimeout(() => gone.abort(new Error("the daemon sends nothing")), SILENCE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done) {
      return;
    }
    const events = (waiting + value).split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const name = /^event: (\w+)$/m.exec(event)?.[1];
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (name in on && data) {
        on[name](JSON.parse(data));
      }
    }
  }
}
