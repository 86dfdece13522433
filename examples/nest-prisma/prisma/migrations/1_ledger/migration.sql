CREATE TABLE "ledger" (
  "event_id" TEXT PRIMARY KEY,
  "type" TEXT NOT NULL,
  "amount" DECIMAL(65, 30) NOT NULL
);
