/** Unix milliseconds as RFC 3339 in UTC with milliseconds; `core` has no date of its own. */
const DAY_MS = 86_400_000;

export function rfc3339(atMs: number): string {
  const days = Math.floor(atMs / DAY_MS);
  const { year, month, day } = civilDate(days);
  const restMs = Math.floor(atMs) - days * DAY_MS;
  const hour = Math.floor(restMs / 3_600_000);
  const minute = Math.floor(restMs / 60_000) % 60;
  const second = Math.floor(restMs / 1_000) % 60;
  const date = `${pad(year, 4)}-${pad(month, 2)}-${pad(day, 2)}`;
  return `${date}T${pad(hour, 2)}:${pad(minute, 2)}:${pad(second, 2)}.${pad(restMs % 1_000, 3)}Z`;
}

/** Gregorian date of a day counted from 1970-01-01. Years are reckoned from March, so that the leap day comes last. */
function civilDate(days: number): { readonly year: number; readonly month: number; readonly day: number } {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const leaps = Math.floor(dayOfEra / 1_460) - Math.floor(dayOfEra / 36_524) + Math.floor(dayOfEra / 146_096);
  const yearOfEra = Math.floor((dayOfEra - leaps) / 365);
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1;
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
}

function pad(value: number, digits: number): string {
  return String(value).padStart(digits, "0");
}
