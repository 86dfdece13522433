/** Two sizes of the heavy checks: what `.ci/run` has time for, and what the nightly workflow runs with `NIGHTLY=1`. */
export const atNight = <Size>(night: Size, otherwise: Size): Size =>
  process.env['NIGHTLY'] === '1' ? night : otherwise;
