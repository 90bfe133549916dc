// Numbers in words: the five answers at the top of the page.

const MODES = {
  frozen: "Frozen classifier",
  prior: "Prior-corrected classifier",
  adapted: "Adapted classifier",
  shadow: "Frozen classifier",
};
const REFUSALS = {
  non_finite: "a value in it is not finite",
  class_movement: "it moves a class too far",
  class_deformation: "it tears a class apart",
  held_out_loss: "it forgets what the frozen one knows",
  ill_conditioned: "shares cannot be told from its predictions",
};
export const CANDIDATES = { frozen: "frozen", prior: "prior-corrected", adapted: "adapted" };

export const known = (value) => value !== null && value !== undefined;

/** A share as percent; "–" if it is not known. */
export function percent(share, digits = 1) {
  return known(share) ? `${(100 * share).toFixed(digits)} %` : "–";
}

export const interval = (estimate) => `${(100 * estimate.low).toFixed(1)} to ${percent(estimate.high)}`;

export function count(number) {
  return known(number) ? Math.round(number).toLocaleString("en") : "–";
}

/** A rate: a decimal where it is small. */
export function rate(number) {
  if (!known(number)) {
    return "–";
  }
  return number > 0 && number < 10 ? number.toFixed(1) : count(number);
}

export function span(seconds) {
  if (!known(seconds)) {
    return "–";
  }
  if (seconds < 90) {
    return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  }
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Which of the candidates a mode serves. */
export const candidateOf = (mode) => (mode === "shadow" ? "frozen" : mode);

const waiting = (frame) =>
  frame.standby
    ? { state: "look", answer: "Standing by", evidence: "Another process learns; this one serves its newest checkpoint." }
    : { state: "look", answer: "No events yet", evidence: "The first block of events is not complete." };

/** What moved, of the classes shown. */
export function moved(about, frame) {
  const changes = about.classes
    .map((one, place) => ({ ...one, share: frame.classes[place].served }))
    .filter((one) => known(one.share))
    // Of two that moved as far, the one that grew comes first: of two classes both always do.
    .map((one) => ({ ...one, by: one.share.value - one.training }))
    .map((one) => ({ ...one, far: Math.abs(one.by) + (one.by > 0 ? 1e-6 : 0) }))
    .sort((left, right) => right.far - left.far);
  if (changes.length === 0) {
    return waiting(frame);
  }
  const apart = ({ share, training }) => training < share.low || training > share.high;
  const most = changes.find(apart);
  if (!most) {
    const { name, share, training } = changes[0];
    return {
      state: "ok",
      answer: "Shares are as in training",
      evidence: `Farthest: ${name}, ${percent(share.value)} [${interval(share)}], ${percent(training)} in training.`,
    };
  }
  const factor = most.share.value / most.training;
  const times = factor >= 1.5 ? `, ${factor.toFixed(1)} times as much` : factor <= 0.67 ? `, ${(1 / factor).toFixed(1)} times less` : "";
  return {
    state: "look",
    answer: `${most.name} is ${percent(most.share.value)}`,
    evidence: `95 % interval ${interval(most.share)}; ${percent(most.training)} in training${times}.`,
  };
}

/** Whether more than the shares moved, and whose shares are served therefore. */
export function shape(about, frame) {
  if (about.black_box) {
    return { state: "ok", answer: "Shares alone are followed", evidence: "The model is a black box: its latents are not known." };
  }
  if (!frame.shift) {
    const off = about.steps_per_block === 0 ? "Alignment is switched off (learner.steps_per_block = 0)." : "";
    return { state: "ok", answer: "Not measured yet", evidence: off || "The first alignment step measures it." };
  }
  const { distance_before_map: before, distance_after_map: after, noise_floor, refuted } = frame.shift;
  const limit = `${about.refuted_at} times the noise floor of ${noise_floor.toFixed(3)}`;
  return refuted
    ? {
        state: "look",
        answer: "Classes changed shape, too",
        evidence: `Shares leave a distance of ${before.toFixed(3)}, above ${limit}; the map leaves ${after.toFixed(3)}. The ${frame.proportions_from} classifier's shares are served.`,
      }
    : {
        state: "ok",
        answer: "Shares explain it",
        evidence: `They leave a distance of ${before.toFixed(3)}, below ${limit}. The frozen classifier's shares are served.`,
      };
}

/** What is served and why. */
export function served(frame) {
  const answer = MODES[frame.mode];
  const version = `Mode ${frame.mode}, version ${frame.version.epoch}.${frame.version.step}.`;
  const adapts = frame.mode === "adapted";
  if (!frame.guard) {
    return { state: "ok", answer, evidence: `${version} ${adapts ? "Nothing is adapted yet." : ""}` };
  }
  if (frame.guard.serves) {
    const agrees = adapts ? "The guard agrees to the newest state." : "The guard would agree to the adapted one.";
    return { state: "ok", answer, evidence: `${version} ${agrees}` };
  }
  const why = REFUSALS[frame.guard.refusal] ?? frame.guard.refusal;
  const instead = adapts ? "The last good one is served." : "It is not served anyway.";
  return { state: adapts ? "look" : "ok", answer, evidence: `${version} The guard refuses the newest adapted state: ${why}. ${instead}` };
}

/** The guard's reason in full, with the class's name in the place of its number. */
export function refusal(about, guard) {
  const name = (_, number) => about.classes.find((one) => one.number === Number(number))?.name ?? `class ${number}`;
  return guard.reason?.replace(/^class (\d+)/, name);
}

/** How often what is served is right. */
export function right(frame) {
  const [frozen] = frame.candidates;
  const own = frame.candidates.find((one) => one.name === candidateOf(frame.mode));
  if (known(own.accuracy)) {
    const gain = 100 * (own.accuracy - frozen.accuracy);
    const against = own === frozen ? "" : ` The frozen classifier: ${percent(frozen.accuracy)} (${gain >= 0 ? "+" : "−"}${Math.abs(gain).toFixed(1)} points).`;
    return {
      state: gain < -1 ? "bad" : "ok",
      answer: percent(own.accuracy),
      evidence: `Measured on the newest of ${count(frame.stream.labels)} late labels.${against}`,
    };
  }
  if (own.estimated) {
    return {
      state: "ok",
      answer: `about ${percent(own.estimated.value)}`,
      evidence: `Estimated without labels, 95 % interval ${interval(own.estimated)}, as far as only shares moved.`,
    };
  }
  return { state: "ok", answer: "Not known", evidence: "No late labels, and no estimate yet." };
}

/** Whether events come in and predictions go out. */
export function flows(frame) {
  const { stream } = frame;
  const bad = stream.rejected.reduce((sum, [, number]) => sum + number, 0);
  const letters = bad > 0 ? ` ${count(bad)} could not be used.` : "";
  const evidence = `${count(stream.lag_records)} records behind${known(stream.lag_seconds) ? ` (${span(stream.lag_seconds)})` : ""}.${letters}`;
  if (stream.stopped) {
    return { state: "bad", answer: "Stopped: too many bad events", evidence: "`ostard ctl resume` goes on." };
  }
  if (!stream.connected) {
    return { state: "bad", answer: "No broker answers", evidence };
  }
  const late = stream.lag_seconds > 60;
  return { state: late ? "bad" : "ok", answer: `${rate(stream.events_per_second)} events/s`, evidence };
}
