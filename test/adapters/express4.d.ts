/** The types of Express 4 cannot be installed next to those of Express 5. The tests use what both have. */
declare module 'express4' {
  import express from 'express';

  export = express;
}
