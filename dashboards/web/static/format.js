// Numbers with their units, times and durations, in words.

// dash stands for what is not known. It is never a zero.
export const dash = "–";

// number writes a value in its unit: "31 %", "413k tokens" without the word, "42 ms".
export function number(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return dash;
  switch (unit) {
    case "ratio":
      return `${digits(value * 100, value < 0.0995 ? 1 : 0).replace(/\.0$/, "")} %`;
    case "seconds":
      return seconds(value);
    case "tokens/s":
      return `${digits(value, 0)} tok/s`;
    default:
      return count(value);
  }
}

function digits(value, places) {
  return value.toFixed(value === 0 ? 0 : places);
}

function count(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9, 2)}G`;
  if (size >= 1e6) return `${digits(value / 1e6, 2)}M`;
  if (size >= 1e4) return `${digits(value / 1e3, 0)}k`;
  return digits(value, Number.isInteger(value) ? 0 : size < 100 ? 1 : 0);
}

function seconds(value) {
  if (value === 0) return "0 s";
  if (value < 0.0995) return `${digits(value * 1000, value < 0.01 ? 1 : 0)} ms`;
  if (value < 1) return `${digits(value * 1000, 0)} ms`;
  if (value < 100) return `${digits(value, Number.isInteger(value) ? 0 : 1)} s`;
  if (value < 5940) return `${digits(value / 60, 1).replace(/\.0$/, "")} min`;
  return duration(value);
}

// duration writes seconds as people say them: "22 min", "1 h 4 min", "3 d 2 h".
export function duration(total) {
  const s = Math.max(0, Math.round(total));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const hours = Math.floor(min / 60);
  if (hours < 24) return min % 60 ? `${hours} h ${min % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${Math.floor(hours / 24)} d`;
}

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// clock writes a moment in the reader's time zone, with its day when it is not today's.
export function clock(moment, now) {
  const t = new Date(moment);
  return t.toDateString() === new Date(now).toDateString() ? time.format(t) : dayAndTime.format(t);
}

// zone names the reader's time zone.
export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

// ago is the time between two moments in seconds.
export function ago(moment, now) {
  return (Date.parse(now) - Date.parse(moment)) / 1000;
}

// plural writes a count with its noun: "1 alert", "2 alerts".
export function plural(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}
