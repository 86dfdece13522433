/** Express 4 has no types beside those of Express 5; this test needs no more than the two share. */
declare module 'express4' {
  import express from 'express';

  export = express;
}
