/** Loaded before an app: its clock is CLOCK_MS ahead, or behind if that is negative. */
const { now } = Date;
const ahead = Number(process.env.CLOCK_MS ?? 0);
const { Date: RealDate } = globalThis;
globalThis.Date = class extends RealDate {
  constructor(...values) {
    if (values.length === 0) super(RealDate.now() + ahead);
    else super(...values);
  }
  static now = () => now.call(RealDate) + ahead;
};
